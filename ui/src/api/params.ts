/** Turns the selection into request parameters. */

import type { Selection } from "../state/store";
import type { Params } from "./client";

/** The column that a selected function filters, by table or by kind of stack. */
const STACK_COLUMN: Readonly<Record<string, string>> = {
  waits: "wait stack",
  switches: "wait stack",
  wakes: "wake stack",
  samples: "stack",
  wait: "wait stack",
  wake: "wake stack",
  sample: "stack",
};

export function selectionParams(s: Selection): Params {
  return {
    from: s.range === null ? null : Math.round(s.range.from),
    to: s.range === null ? null : Math.round(s.range.to),
    thread: s.threads.map(String),
    process: s.process,
  };
}

/** Whether a selected function filters a table. Views of the other tables show that it does not. */
export function hasStacks(of: string): boolean {
  return STACK_COLUMN[of] !== undefined;
}

/** The column of the stacks of a table or of a kind. */
export const stackColumn = (of: string): string => STACK_COLUMN[of] ?? "stack";

/** The selection and a filter, for a table or a kind of stack. */
export function whereParams(s: Selection, of: string, where = ""): Params {
  const column = STACK_COLUMN[of];
  const parts = where.trim() === "" ? [] : [where.trim()];
  if (s.stack !== null && column !== undefined) parts.push(`${column} ~ ${quoted(s.stack)}`);
  return {
    ...selectionParams(s),
    where: parts.length > 1 ? parts.map((part) => `(${part})`).join(" and ") : (parts[0] ?? null),
  };
}

/** Waits in which a thread had nothing to do. */
const IDLE = "not (reason = idle or reason = kernel_idle)";

/**
 * The same for the Stacks view: by default without idle waits; `scope` are the threads of the open
 * stall that it is limited to.
 */
export function stacksParams(
  s: Selection,
  of: "wait" | "wake" | "sample",
  idle: boolean,
  scope: readonly number[] | null,
  where = "",
): Params {
  const params = whereParams(s, of, joined(idle || of === "sample" ? "" : IDLE, where));
  return scope === null ? params : { ...params, thread: scope.map(String), process: null };
}

/** Adds a condition to a filter. */
export function joined(where: string, more: string): string {
  // `and` binds tighter than `or`.
  const parts = [where.trim(), more.trim()].filter((part) => part !== "");
  return parts
    .map((part) => (parts.length > 1 && / or /i.test(part) ? `(${part})` : part))
    .join(" and ");
}

/**
 * Quotes a value for a filter expression. There is no escape, so a value with both kinds of quotes
 * is cut before its first single quote.
 */
export function quoted(value: string): string {
  if (!value.includes("'")) return `'${value}'`;
  if (!value.includes('"')) return `"${value}"`;
  return `'${value.slice(0, value.indexOf("'"))}'`;
}
