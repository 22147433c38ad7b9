/** The menu of a table's cell: filter by its value, select, show on the timeline, copy. */

import { flameOf, laneItems, narrow, processItems, severalItems, threadItems } from "../actions";
import type { Members } from "../api/members";
import { joined } from "../api/params";
import type { Cell, StackRef, TableRow } from "../api/types";
import { copy } from "../copy";
import { butterfly, functionMenu } from "../functionMenu";
import { navigateTo } from "../navigate";
import type { MenuItem } from "../parts/MenuHost";
import * as store from "../state/store";
import { range } from "../units";
import { type Arrangement, kindOf, spec } from "./arrange";
import { cellText, filterOf, innermost, isStack, type Test } from "./cells";
import { type VisibleRow, withAncestors } from "./tree";

const TESTS: readonly { test: Test; title: string }[] = [
  { test: "only", title: "Only" },
  { test: "not", title: "Without" },
  { test: "atLeast", title: "At least" },
  { test: "atMost", title: "At most" },
];

/** The kind of stacks that a table's functions are on. */
const OF: Readonly<Record<string, store.StackKind>> = {
  waits: "wait",
  switches: "wait",
  wakes: "wake",
  samples: "sample",
};

export function cellMenu(
  arranged: Arrangement,
  text: string,
  cell: Cell,
  row: TableRow | null,
  onStack: (stack: StackRef) => void,
  members: Members | null = null,
  group: string | null = null,
): MenuItem[] {
  const kind = kindOf(arranged.info, text);
  const { aggregate, column } = spec(text);
  const shown = isStack(cell) ? (innermost(cell) ?? "this") : cellText(cell, kind);
  const items: MenuItem[] = [];
  // A filter applies to single rows, and a sum is not the value of any row.
  if (aggregate === null || aggregate === "min" || aggregate === "max") {
    for (const { test, title } of TESTS) {
      if ((test === "atLeast" || test === "atMost") && typeof cell !== "number") continue;
      const filter = filterOf(column, kind, cell, test);
      if (filter === null) continue;
      items.push({
        title: `${title} ${shorten(shown)}`,
        hint: test === "only" ? "Alt+click" : column,
        run: () => narrow(filter),
      });
    }
  }
  if (isStack(cell)) {
    const leaf = innermost(cell);
    items.push({ title: "Show the whole stack", run: () => onStack(cell) });
    if (leaf !== null) {
      items.push({
        title: `Callers and callees of ${shorten(leaf)}`,
        run: () => butterfly(leaf, cell.kind),
      });
      items.push({
        title: `Filter all views by ${shorten(leaf)}`,
        run: () => store.select({ stack: leaf }),
      });
    }
  }
  if (column === "function" && typeof cell === "string" && aggregate === null) {
    const of = OF[arranged.info.table];
    if (of) items.push(...functionMenu(cell, of).slice(0, -1));
  }
  if (row && (row.lane !== null || row.from !== null))
    items.push({
      title: "Show on the timeline",
      run: () => navigateTo({ lane: row.lane, from: row.from, to: row.to }),
    });
  if (row) items.push(...laneItems(row));
  if (members) items.push(...memberItems(members));
  if (group !== null) items.push(...groupItems(arranged.info.table, group));
  items.push({
    title: "Copy the value",
    run: () => void copy(isStack(cell) ? cell.told : cellText(cell, kind), "the value"),
  });
  return items;
}

/** What can be done with the threads of a group: of one, of a process, or of several. */
function memberItems({ threads, processes, more, from, to }: Members): MenuItem[] {
  const { range: selected } = store.selection.peek();
  const time = selected ?? (from !== null && to !== null && to > from ? range(from, to) : null);
  const [thread, ...others] = threads;
  const [process, ...otherProcesses] = processes;
  if (thread === undefined || process === undefined) return [];
  if (others.length === 0 && !more) return threadItems(thread, time);
  if (otherProcesses.length === 0) return processItems(process, more ? [] : threads, time);
  return more ? [] : severalItems(threads, time);
}

/** What can be done with the rows of a group, which `filter` describes. */
function groupItems(table: string, filter: string): MenuItem[] {
  const of = OF[table];
  if (of === undefined) return [];
  const where = joined(store.table.value.where, filter);
  return [
    {
      title: "Over time, only this",
      run: () => (store.table.value = { ...store.table.value, over: "time", where }),
    },
    // Switches have columns that their stacks cannot be filtered by.
    ...(table === "switches"
      ? []
      : [
          {
            title: "Flame graph of this group",
            run: () => flameOf(of, {}, { where, idle: true }),
          },
        ]),
  ];
}

/** The filter by a cell's value; null for a sum, which is the value of no row. */
export function onlyFilter(of: Arrangement, text: string, cell: Cell): string | null {
  const { aggregate, column } = spec(text);
  const isOfRows = aggregate === null || aggregate === "min" || aggregate === "max";
  return isOfRows ? filterOf(column, kindOf(of.info, text), cell, "only") : null;
}

/** The rows of a group as a filter; null if that cannot be said. */
export function groupFilter(of: Arrangement, entry: VisibleRow): string | null {
  if (entry.row?.key == null) return null;
  const parts = withAncestors(entry).map((one) => {
    const depth = one.level.path.length;
    const column = of.by[depth] ?? "";
    const cell = one.row?.cells[0];
    return cell === undefined ? null : filterOf(column, kindOf(of.info, column), cell, "only");
  });
  return parts.includes(null) ? null : parts.join(" and ");
}

function shorten(text: string): string {
  return text.length > 44 ? `${text.slice(0, 43)}…` : text;
}
