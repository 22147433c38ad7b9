/**
 * The Tables view, arranged as in WPA: toolbar, graph of the columns right of the blue bar, grid.
 */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { tables } from "../api/data";
import { hasStacks } from "../api/params";
import type { StackRef, TablePage } from "../api/types";
import { register } from "../commands";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { StackFrames } from "../stacks/StackFrames";
import * as store from "../state/store";
import { copyCommands } from "./copyTable";
import { Graph } from "./Graph";
import { Grid } from "./Grid";
import * as model from "./model";
import { Series } from "./Series";
import { Toolbar } from "./Toolbar";
import "./table.css";

function registerCommands(): () => void {
  return register(
    ...copyCommands,
    {
      id: "table.ungroup",
      group: "Table",
      title: "Show single rows, without groups",
      run: () => {
        store.table.value = { ...store.table.value, by: ["none"], sort: "" };
      },
    },
    {
      id: "table.reset",
      group: "Table",
      title: "Reset the columns to the preset's",
      run: () => model.choosePreset(store.table.value.preset),
    },
  );
}

export function Tables() {
  const openStack = useSignal<StackRef | null>(null);
  useEffect(() => model.watchTable(), []);
  useEffect(registerCommands, []);
  const { data, error } = tables.value;
  if (error || !data)
    return (
      <>
        <h1 class="sr-only">Tables</h1>
        {error ? <ErrorMessage error={error} /> : <Busy what="Preparing the tables …" />}
      </>
    );
  const of = model.arrangement.value;
  const problem = model.error.value;
  void model.version.value;
  const first = model.rows().pages.get(0) ?? null;
  return (
    <div
      class="tables"
      data-ready={(first !== null || problem !== null) && model.pending.value === 0}
    >
      <h1 class="sr-only">Tables</h1>
      <Toolbar tables={data} of={of} />
      <Unfiltered table={of?.info.table ?? null} first={first} />
      <NotRecorded first={first} />
      {problem && problem.at === null && <ErrorMessage error={problem} retry={model.reload} />}
      {of && (!problem || problem.at !== null) && (
        <>
          {of.overTime ? <Series of={of} /> : <Graph of={of} first={first} />}
          <div class="table-body">
            <Grid
              of={of}
              onStack={(stack) => {
                openStack.value = stack;
              }}
            />
            {openStack.value && (
              <StackPanel
                stack={openStack.value}
                close={() => {
                  openStack.value = null;
                }}
              />
            )}
          </div>
        </>
      )}
    </div>
  );
}

/** What the table cannot be filtered by. */
function Unfiltered({ table, first }: { table: string | null; first: TablePage | null }) {
  const ignored: string[] = [...(first?.ignored ?? [])];
  if (table !== null && store.selection.value.stack !== null && !hasStacks(table))
    ignored.push("function");
  if (ignored.length === 0) return null;
  return (
    <p class="note">
      This table has no column for the selected {ignored.join(" and ")}, so it is not filtered by
      that.
    </p>
  );
}

/** Which columns are empty for lack of data: with the other caveats, or why there are no rows. */
function NotRecorded({ first }: { first: TablePage | null }) {
  const notes = byReason(first?.not_recorded ?? []).map(
    ({ columns, why, advice }) =>
      `Not recorded${columns === "" ? "" : ` (${columns})`}: ${why}. ${advice}`,
  );
  const text = first?.total === 0 ? notes.join(" ") : "";
  useEffect(() => {
    store.viewCaveats.value = text === "" ? notes : [];
    return () => (store.viewCaveats.value = []);
  }, [notes.join("\n"), text]);
  return text === "" ? null : <p class="note">{text}</p>;
}

/** Each reason once, with the columns that are empty because of it. */
function byReason(
  missing: TablePage["not_recorded"],
): { columns: string; why: string; advice: string }[] {
  const reasons = Map.groupBy(missing, (column) => column.why);
  return [...reasons].map(([why, columns]) => ({
    columns: columns
      .map((entry) => entry.column)
      .filter(Boolean)
      .join(", "),
    why,
    advice: columns[0]?.advice ?? "",
  }));
}

function StackPanel({ stack, close }: { stack: StackRef; close: () => void }) {
  return (
    <aside class="details" aria-label="Stack">
      <header>
        <h2>Stack</h2>
        <button type="button" class="btn small" aria-label="Close the stack" onClick={close}>
          ✕
        </button>
      </header>
      <StackFrames stack={stack} />
    </aside>
  );
}
