/**
 * A table's columns in WPA's grammar: what stands left of the gold bar groups, between the bars are values, right of the blue bar is drawn.
 *
 * *Why one list of specs for groups and single rows:* `sum:waited` of a group is `waited` of a row. So a table that is ungrouped, or
 * opened down to its rows, keeps its columns.
 */
import type { ColumnInfo, ColumnKind, Preset, TableInfo, Tables } from "../api/types";
import type { TableState } from "../state/store";

export type Zone = "by" | "show" | "graph";

/** A table as it is drawn: the user's arrangement, or the preset's and the table's own where the user made none. */
export interface Arrangement {
  readonly info: TableInfo;
  readonly by: readonly string[];
  readonly show: readonly string[];
  readonly graph: readonly string[];
  readonly sort: string;
}

/** `by` of a table that the user ungrouped; an empty list means the preset's. */
export const UNGROUPED: readonly string[] = ["none"];

const AGGREGATES = ["sum", "avg", "min", "max"] as const;
export type AggregateName = (typeof AGGREGATES)[number];

/** `sum:waited` as `{aggregate: "sum", column: "waited"}`; `count` counts and has no column. */
export function spec(text: string): { aggregate: string | null; column: string } {
  if (text === "count") return { aggregate: "count", column: "" };
  const at = text.indexOf(":");
  if (at > 0 && (AGGREGATES as readonly string[]).includes(text.slice(0, at)))
    return { aggregate: text.slice(0, at), column: text.slice(at + 1) };
  return { aggregate: null, column: text };
}

export function columnOf(info: TableInfo, name: string): ColumnInfo | undefined {
  return info.columns.find((column) => column.name === name);
}

/** What can be asked of a column in groups, the usual one first. */
export function aggregatesOf(column: ColumnInfo): AggregateName[] {
  if (column.sum) return ["sum", "avg", "min", "max"];
  return column.kind === "time" || column.kind === "number" ? ["min", "max"] : [];
}

/** A spec as groups are asked for it; `null` where groups have no such value. */
export function asAggregate(info: TableInfo, text: string): string | null {
  const { aggregate, column } = spec(text);
  if (aggregate !== null) return text;
  const known = columnOf(info, column);
  const first = known ? aggregatesOf(known)[0] : undefined;
  return first === undefined ? null : `${first}:${column}`;
}

/** A spec as single rows are asked for it; `null` for a count. */
export function asPlain(text: string): string | null {
  const { column } = spec(text);
  return column === "" ? null : column;
}

export function presetOf(tables: Tables, id: string): Preset | undefined {
  return tables.presets.find((preset) => preset.id === id);
}

/** The state with everything filled in; unknown columns, as of an old link, are dropped. `null` for an unknown table. */
export function resolve(tables: Tables, state: TableState): Arrangement | null {
  const preset = presetOf(tables, state.preset);
  const info =
    tables.tables.find(
      (table) =>
        table.table === (preset && state.table === state.preset ? preset.table : state.table),
    ) ?? tables.tables.find((table) => table.table === preset?.table);
  if (!info) return null;
  const ofPreset = preset?.table === info.table ? preset : undefined;
  const known = (text: string) => {
    const { aggregate, column } = spec(text);
    return aggregate === "count" || columnOf(info, column) !== undefined;
  };
  const by = (state.by.length === 0 ? (ofPreset?.by ?? info.by) : state.by).filter((name) =>
    columnOf(info, name),
  );
  const grouped = by.length > 0;
  const wanted =
    state.show.length === 0
      ? (ofPreset?.show ?? (grouped ? info.aggregates : info.show))
      : state.show;
  const wantedGraph =
    state.graph.length === 0
      ? state.show.length === 0
        ? (ofPreset?.graph ?? [])
        : []
      : state.graph;
  const form = (text: string) => (grouped ? asAggregate(info, text) : asPlain(text));
  const usable = (list: readonly string[]) =>
    [
      ...new Set(
        list
          .filter(known)
          .map(form)
          .filter((text): text is string => text !== null),
      ),
    ].filter((text) => !by.includes(text));
  const graph = usable(wantedGraph);
  let show = usable(wanted).filter((text) => !graph.includes(text));
  if (show.length + graph.length === 0) show = usable(grouped ? info.aggregates : info.show);
  const sort =
    state.sort === "" ? (ofPreset && state.by.length === 0 ? ofPreset.sort : "") : state.sort;
  return { info, by, show, graph, sort: fitSort(sort, grouped, info) };
}

/** The order in the form that groups or single rows understand; empty for the table's own. */
function fitSort(sort: string, grouped: boolean, info: TableInfo): string {
  const { what, down } = order(sort);
  if (what === "") return "";
  const { aggregate, column } = spec(what);
  if (aggregate !== "count" && !columnOf(info, column)) return "";
  if (grouped) return `${what}:${down ? "desc" : "asc"}`;
  return aggregate === "count" ? "" : `${column}:${down ? "desc" : "asc"}`;
}

/** `sum:waited:desc` in its two parts. */
export function order(sort: string): { what: string; down: boolean } {
  const match = /^(.*):(asc|desc)$/.exec(sort);
  return match ? { what: match[1] ?? "", down: match[2] === "desc" } : { what: sort, down: true };
}

/** The state after a column was dragged (or moved by keys) to place `index` of a zone, counted without the column itself. */
export function moveTo(
  now: Arrangement,
  text: string,
  zone: Zone,
  index: number,
): Pick<TableState, "by" | "show" | "graph"> {
  const column = asPlain(text);
  const without = (list: readonly string[]) => list.filter((other) => other !== text);
  let by = without(now.by);
  let show = without(now.show);
  let graph = without(now.graph);
  if (zone === "by" && column !== null) {
    // A value that becomes a group leaves the values, whatever its aggregate was called.
    by = by.filter((name) => name !== column);
    by.splice(Math.min(index, by.length), 0, column);
  } else if (zone !== "by") {
    const grouped = by.length > 0;
    const form = grouped ? asAggregate(now.info, text) : (column ?? text);
    if (form !== null) {
      const list = zone === "show" ? show : graph;
      const others = list.filter((other) => other !== form);
      others.splice(Math.min(index, others.length), 0, form);
      if (zone === "show") [show, graph] = [others, graph.filter((other) => other !== form)];
      else [graph, show] = [others, show.filter((other) => other !== form)];
    }
  } else {
    return { by: named(now.by), show: now.show, graph: now.graph };
  }
  return { by: named(by), show, graph };
}

/** Takes a column away. */
export function remove(now: Arrangement, text: string): Pick<TableState, "by" | "show" | "graph"> {
  const without = (list: readonly string[]) => list.filter((other) => other !== text);
  return { by: named(without(now.by)), show: without(now.show), graph: without(now.graph) };
}

function named(by: readonly string[]): readonly string[] {
  return by.length === 0 ? UNGROUPED : by;
}

/** Where a column goes by one step to the left (−1) or right (1), across the bars; `null` at the end. */
export function step(
  now: Arrangement,
  text: string,
  by: -1 | 1,
): { zone: Zone; index: number } | null {
  const zones: Zone[] = ["by", "show", "graph"];
  const zone = zones.find((name) => now[name].includes(text));
  if (!zone) return null;
  const at = now[zone].indexOf(text) + by;
  if (at >= 0 && at < now[zone].length) return { zone, index: at };
  const next = zones[zones.indexOf(zone) + by];
  return next === undefined ? null : { zone: next, index: by > 0 ? 0 : now[next].length };
}

export function title(text: string): { name: string; tag: string } {
  const { aggregate, column } = spec(text);
  return aggregate === "count"
    ? { name: "count", tag: "" }
    : { name: column, tag: aggregate ?? "" };
}

export function kindOf(info: TableInfo, text: string): ColumnKind {
  const { aggregate, column } = spec(text);
  return aggregate === "count" ? "count" : (columnOf(info, column)?.kind ?? "text");
}
