/**
 * What can follow in a filter expression, at a place: a column, an operator, a value, `and` or `or`.
 * The language is that of `unhitch table --where`.
 */
import type { ColumnInfo } from "../api/types";

export interface Wanted {
  readonly what: "column" | "operator" | "value" | "join";
  /** The column whose operator or value it is. */
  readonly column: ColumnInfo | null;
  /** The part of the text that a choice replaces: from here to the place. */
  readonly from: number;
  /** What is written of it already. */
  readonly typed: string;
}

const OPERATORS = ["!=", "<=", ">=", "=", "<", ">", "~"];

/** What is expected at `at`, from what is before it. */
export function wantedAt(text: string, at: number, columns: readonly ColumnInfo[]): Wanted {
  let rest = skip(text, 0);
  let wanted: Wanted = { what: "column", column: null, from: rest, typed: "" };
  while (rest <= at) {
    const column = columnAt(text, rest, at, columns);
    if (column === null) return { ...wanted, from: rest, typed: text.slice(rest, at) };
    const operatorFrom = skip(text, rest + column.length);
    const operator = OPERATORS.find((one) => text.startsWith(one, operatorFrom));
    if (operator === undefined || operatorFrom >= at) {
      return operatorFrom > rest + column.length || operatorFrom < at
        ? {
            what: "operator",
            column: column.info,
            from: Math.min(operatorFrom, at),
            typed: text.slice(Math.min(operatorFrom, at), at),
          }
        : { ...wanted, from: rest, typed: text.slice(rest, at) };
    }
    const valueFrom = skip(text, operatorFrom + operator.length);
    const valueEnd = endOfValue(text, valueFrom);
    if (valueEnd >= at || valueEnd === valueFrom)
      return {
        what: "value",
        column: column.info,
        from: Math.min(valueFrom, at),
        typed: text.slice(Math.min(valueFrom, at), at),
      };
    const join = skipBack(text, skip(text, valueEnd));
    const word = /^(and|or)\b/i.exec(text.slice(join))?.[0];
    if (word === undefined || join + word.length >= at)
      return { what: "join", column: null, from: Math.min(join, at), typed: text.slice(join, at) };
    rest = skip(text, join + word.length);
    wanted = { what: "column", column: null, from: rest, typed: "" };
  }
  return { ...wanted, from: at };
}

/** Skips spaces, opening brackets and `not`. */
function skip(text: string, at: number): number {
  const before = /^(?:\s|\(|not\b)*/i.exec(text.slice(at))?.[0] ?? "";
  return at + before.length;
}

/** Skips closing brackets, which end what is complete. */
function skipBack(text: string, at: number): number {
  const after = /^[\s)]*/.exec(text.slice(at))?.[0] ?? "";
  return at + after.length;
}

/** The longest column name that begins here and is complete before `at`. */
export function columnAt(
  text: string,
  from: number,
  at: number,
  columns: readonly ColumnInfo[],
): { info: ColumnInfo; length: number } | null {
  const here = text.slice(from, at).toLowerCase();
  let best: { info: ColumnInfo; length: number } | null = null;
  for (const info of columns) {
    for (const name of [info.name, ...info.aliases]) {
      const next = here[name.length];
      const complete = next === undefined || !/[\w-]/.test(next);
      if (here.startsWith(name.toLowerCase()) && complete && name.length > (best?.length ?? 0))
        best = { info, length: name.length };
    }
  }
  return best;
}

function endOfValue(text: string, from: number): number {
  const quoted = /^'[^']*(?:'|$)|^"[^"]*(?:"|$)/.exec(text.slice(from))?.[0];
  if (quoted !== undefined) return from + quoted.length;
  return from + (/^[^\s()]*/.exec(text.slice(from))?.[0].length ?? 0);
}

/** The operators that make sense for a column. */
export function operatorsOf(column: ColumnInfo): string[] {
  if (column.kind === "stack") return ["~", "="];
  if (column.kind === "text") return ["=", "!=", "~"];
  return [">", ">=", "<", "<=", "=", "!="];
}

/** Values to begin with, for columns whose values cannot be listed. */
export function sampleValues(column: ColumnInfo): string[] {
  if (column.kind === "duration") return ["1ms", "5ms", "100ms", "1s"];
  if (column.kind === "time") return ["1s", "1.5s"];
  return [];
}
