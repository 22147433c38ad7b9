/**
 * Whether a table can be shown as it is for any trace, as a start view must: it may come from another
 * version, or from whatever else has written to the browser's storage.
 */
import type { ColumnInfo, Tables } from "../api/types";
import { NO_TABLE, type TableState } from "../state/store";
import { presetOf, resolve } from "./arrange";
import { columnAt, operatorsOf } from "./complete";

/** Columns of text whose values are the program's own words, the same for every trace. */
const WORDS: ReadonlySet<string> = new Set([
  "counter",
  "evidence",
  "kind",
  "pattern",
  "policy",
  "reason",
  "state",
  "unit",
  "wake context",
]);

/**
 * The table as any trace can show it; `null` if there is none of its name. A filter that names
 * something of one trace is replaced by the preset's.
 */
export function tableOfAnyTrace(tables: Tables, state: TableState): TableState | null {
  const of = resolve(tables, state);
  if (of === null) return null;
  if (state.where === NO_TABLE.where || isOfAnyTrace(state.where, of.info.columns)) return state;
  return { ...state, where: presetOf(tables, state.preset)?.where ?? "" };
}

/**
 * Whether a filter is about durations, counts and the program's own words only. Strict: one that the
 * server would refuse is not.
 */
export function isOfAnyTrace(where: string, columns: readonly ColumnInfo[]): boolean {
  let rest = where;
  let open = 0;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    const match = pattern.exec(rest);
    if (match) rest = rest.slice(match[0].length);
    return match;
  };
  const brackets = (pattern: RegExp): number => take(pattern)?.[0].match(/[()]/g)?.length ?? 0;
  do {
    open += brackets(/^(?:\s|\(|not\b)*/i);
    const column = columnAt(rest, 0, rest.length, columns);
    if (column === null) return false;
    rest = rest.slice(column.length);
    const [, operator = "", value = ""] =
      take(/^\s*(!=|<=|>=|=|<|>|~)\s*('[^']*'|"[^"]*"|[^\s()'"]+)/) ?? [];
    if (!operatorsOf(column.info).includes(operator) || !isOwnValue(column.info, value))
      return false;
    open -= brackets(/^[\s)]*/);
    if (open < 0) return false;
  } while (take(/^(?:and|or)\b/i));
  return rest === "" && open === 0;
}

function isOwnValue({ kind, name }: ColumnInfo, value: string): boolean {
  if (kind === "duration") return /^\d{1,9}(\.\d{1,9})?(ns|us|µs|ms|s)$/.test(value);
  if (kind === "count") return /^\d{1,9}$/.test(value);
  return WORDS.has(name);
}
