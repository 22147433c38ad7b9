/** The shares of several partitions as the rows of one table. */
import type { Part } from "../api/types";
import { tenthsOf } from "./shares";

export interface Column {
  readonly parts: readonly Part[];
}

export interface Row {
  readonly label: string;
  /** One per column; 0 if it has no such share. */
  readonly ns: readonly number[];
  /** The same as tenths of a percent of the column's whole. */
  readonly tenths: readonly number[];
}

/** `lock held by` needs a name after it; a row that sums over all names does not. */
const plain = (label: string): string => label.replace(/ (by|from|for)$/, "");

/** A row per kind of share, that with the most time in any column first. */
export function rowsOf(columns: readonly Column[]): Row[] {
  const labels = new Set(columns.flatMap(({ parts }) => parts.map((part) => plain(part.label))));
  const tenths = columns.map(({ parts }) => tenthsOf(parts));
  const sum = ({ parts }: Column, label: string, of: (part: Part) => number): number =>
    parts.reduce((total, part) => total + (plain(part.label) === label ? of(part) : 0), 0);
  return [...labels]
    .map((label) => ({
      label,
      ns: columns.map((column) => sum(column, label, (part) => part.ns)),
      tenths: columns.map((column, i) => sum(column, label, (part) => tenths[i]?.get(part) ?? 0)),
    }))
    .sort((a, b) => Math.max(...b.ns) - Math.max(...a.ns));
}
