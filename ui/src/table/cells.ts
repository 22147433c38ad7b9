/** Cells as text, as copied, and as a filter by their value. */

import { quoted } from "../api/params";
import type { Cell, ColumnKind, StackRef } from "../api/types";
import { count, durationText, ns, plural, timeText } from "../units";

export function isStack(cell: Cell | undefined): cell is StackRef {
  return typeof cell === "object" && cell !== null;
}

export function cellText(cell: Cell | undefined, kind: ColumnKind): string {
  if (cell === null || cell === undefined) return "";
  if (isStack(cell)) return cell.told;
  if (typeof cell === "string") return cell;
  if (kind === "duration") return durationText(cell);
  if (kind === "time") return timeText(ns(cell), 1000);
  if (kind === "count") return count(cell);
  return Number.isInteger(cell) ? String(cell) : cell.toFixed(2);
}

/** Whether cells of a kind are right-aligned. */
export function isNumeric(kind: ColumnKind): boolean {
  return kind === "duration" || kind === "time" || kind === "count" || kind === "number";
}

export type Test = "only" | "not" | "atLeast" | "atMost";

/** A filter expression by a cell's value; `null` if there is none. */
export function filterOf(column: string, kind: ColumnKind, cell: Cell, test: Test): string | null {
  if (isStack(cell)) {
    const leaf = innermost(cell);
    if (leaf === null) return null;
    return test === "only"
      ? `${column} ~ ${quoted(leaf)}`
      : test === "not"
        ? `not ${column} ~ ${quoted(leaf)}`
        : null;
  }
  if (cell === null) return null;
  const operator = { only: "=", not: "!=", atLeast: ">=", atMost: "<=" }[test];
  if (typeof cell === "string")
    return test === "only" || test === "not" ? `${column} ${operator} ${quoted(cell)}` : null;
  const unit = kind === "duration" || kind === "time" ? "ns" : "";
  return `${column} ${operator} ${cell}${unit}`;
}

/** The innermost function in a stack's text; `null` if it has none. */
export function innermost(stack: StackRef): string | null {
  const last = stack.told.split(" → ").at(-1)?.trim() ?? "";
  return last === "" || last.startsWith("(") || last === "…" ? null : last.replace(/^…/, "");
}

export interface Copied {
  readonly titles: readonly string[];
  readonly kinds: readonly ColumnKind[];
  readonly rows: readonly (readonly Cell[])[];
  /** Number of rows that were not copied. */
  readonly more: number;
}

export function tsv(table: Copied): string {
  const clean = (text: string) => text.replace(/[\t\r\n]+/g, " ");
  const lines = [
    table.titles,
    ...table.rows.map((row) => row.map((cell, i) => cellText(cell, table.kinds[i] ?? "text"))),
  ].map((row) => row.map(clean).join("\t"));
  if (table.more > 0) lines.push(`… and ${plural(table.more, "more row")}`);
  return `${lines.join("\n")}\n`;
}

export function markdownTable(table: Copied): string {
  const clean = (text: string) => text.replaceAll("|", "\\|").replace(/[\r\n]+/g, " ");
  const row = (cells: readonly string[]) => `| ${cells.map(clean).join(" | ")} |`;
  const lines = [
    row(table.titles),
    `|${table.kinds.map((kind) => (isNumeric(kind) ? "---:" : "---")).join("|")}|`,
  ];
  for (const cells of table.rows)
    lines.push(row(cells.map((cell, i) => cellText(cell, table.kinds[i] ?? "text"))));
  if (table.more > 0) lines.push("", `… and ${plural(table.more, "more row")}`);
  return `${lines.join("\n")}\n`;
}

/** Numbers stay numbers (times in ns); stacks are text. */
export function jsonTable(table: Copied): string {
  const rows = table.rows.map((row) =>
    Object.fromEntries(
      table.titles.map((title, i) => [
        title,
        isStack(row[i]) ? (row[i] as StackRef).told : (row[i] ?? null),
      ]),
    ),
  );
  return JSON.stringify({ rows, more: table.more }, null, 2);
}
