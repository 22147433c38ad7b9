/**
 * Arranges a table's columns as WPA does: those left of the gold bar group, those between the bars
 * are values, those right of the blue bar are drawn.
 *
 * *Why groups and single rows share one list of specs:* `sum:waited` of a group is `waited` of a
 * row, so a table keeps its columns when it is ungrouped or opened down to its rows.
 */
import type { ColumnInfo, ColumnKind, Preset, TableInfo, Tables } from "../api/types";
import type { TableState } from "../state/store";

export type Zone = "by" | "show" | "graph";

/** A table's columns: the user's choice, else the preset's, else the table's own. */
export interface Arrangement {
  readonly info: TableInfo;
  readonly by: readonly string[];
  readonly show: readonly string[];
  readonly graph: readonly string[];
  readonly sort: string;
  /** Whether the graph is drawn over time. */
  readonly overTime: boolean;
}

/** `by` of a table that the user ungrouped; an empty list means the preset's groups. */
export const UNGROUPED: readonly string[] = ["none"];

const AGGREGATES = ["sum", "avg", "min", "max"] as const;
export type AggregateName = (typeof AGGREGATES)[number];

/** Parses `sum:waited` into `{aggregate: "sum", column: "waited"}`; `count` has no column. */
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

/** The aggregates that a column has in groups, the default first. */
export function aggregatesOf(column: ColumnInfo): AggregateName[] {
  if (column.sum) return ["sum", "avg", "min", "max"];
  return column.kind === "time" || column.kind === "number" ? ["min", "max"] : [];
}

/** A spec in the form for groups; `null` if groups have no such value. */
export function asAggregate(info: TableInfo, text: string): string | null {
  const { aggregate, column } = spec(text);
  if (aggregate !== null) return text;
  const known = columnOf(info, column);
  const first = known ? aggregatesOf(known)[0] : undefined;
  return first === undefined ? null : `${first}:${column}`;
}

/** A spec in the form for single rows; `null` for a count. */
export function asPlain(text: string): string | null {
  const { column } = spec(text);
  return column === "" ? null : column;
}

export function presetOf(tables: Tables, id: string): Preset | undefined {
  return tables.presets.find((preset) => preset.id === id);
}

/**
 * Fills in the defaults and drops unknown columns, as in an old link. `null` for an unknown table.
 * `first` are columns that a table groups by before its own, unless the user chose others.
 */
export function resolve(
  tables: Tables,
  state: TableState,
  first: readonly string[] = [],
): Arrangement | null {
  const preset = presetOf(tables, state.preset);
  const info =
    tables.tables.find(
      (table) =>
        table.table === (preset && state.table === state.preset ? preset.table : state.table),
    ) ?? tables.tables.find((table) => table.table === preset?.table);
  if (!info) return null;
  const ofPreset = preset?.table === info.table ? preset : undefined;
  const known = (text: string) => isKnown(info, text);
  const usual = ofPreset?.by ?? info.by;
  const wantedBy =
    state.by.length > 0 ? state.by : usual.length > 0 ? [...new Set([...first, ...usual])] : usual;
  const by = wantedBy.filter((name) => columnOf(info, name));
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
  const overTime = state.over === "" ? (ofPreset?.over_time ?? false) : state.over === "time";
  return { info, by, show, graph, sort: fitSort(sort, by, info), overTime };
}

/** What is drawn over time: a sum, or the number of rows. */
export function measureOf(of: Arrangement): string {
  const isDrawn = (text: string) => {
    const { aggregate, column } = spec(text);
    return aggregate === "count" || (columnOf(of.info, column)?.over_time ?? false);
  };
  const text = [...of.graph, ...of.show].find(isDrawn) ?? "count";
  return text === "count" ? text : `sum:${spec(text).column}`;
}

/** The sort order in the form for groups or single rows; empty for the table's own. */
function fitSort(sort: string, by: readonly string[], info: TableInfo): string {
  const { what, down } = order(sort);
  if (what === "" || !isKnown(info, what)) return "";
  const form = by.length === 0 ? asPlain(what) : by.includes(what) ? what : asAggregate(info, what);
  return form === null ? "" : `${form}:${down ? "desc" : "asc"}`;
}

/** Whether the table has this column, with this aggregate if there is one. */
function isKnown(info: TableInfo, text: string): boolean {
  const { aggregate, column } = spec(text);
  if (aggregate === "count") return true;
  const known = columnOf(info, column);
  if (known === undefined) return false;
  return aggregate === null || aggregatesOf(known).some((name) => name === aggregate);
}

/** Splits `sum:waited:desc` into its two parts. */
export function order(sort: string): { what: string; down: boolean } {
  const match = /^(.*):(asc|desc)$/.exec(sort);
  return match ? { what: match[1] ?? "", down: match[2] === "desc" } : { what: sort, down: true };
}

/** The state after a column moves to `index` of a zone, not counting the column itself. */
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
    // A value that becomes a group leaves the values, whatever its aggregate.
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

/** The state without a column. */
export function remove(now: Arrangement, text: string): Pick<TableState, "by" | "show" | "graph"> {
  const without = (list: readonly string[]) => list.filter((other) => other !== text);
  return { by: named(without(now.by)), show: without(now.show), graph: without(now.graph) };
}

function named(by: readonly string[]): readonly string[] {
  return by.length === 0 ? UNGROUPED : by;
}

/**
 * Where a step to the left (−1) or right (1) takes a column, across the bars; `null` at the end.
 */
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
