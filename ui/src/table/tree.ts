/**
 * The rows of a grouped table, of which only what was looked at is here.
 *
 * Each level is fetched in pages; an opened row holds the level inside it. Visible rows are counted from the top through all opened
 * levels, so that a grid can ask for row 1,234,567 without walking there.
 */
import type { TablePage, TableRow } from "../api/types";

export const PAGE = 200;

export interface Level {
  readonly path: readonly string[];
  readonly parent: { readonly level: Level; readonly index: number } | null;
  /** `null` until the first page came. */
  total: number | null;
  readonly pages: Map<number, TablePage>;
  readonly asked: Set<number>;
  /** Opened rows by their entry in this level, in order. */
  readonly opened: Map<number, Level>;
}

/** A visible row. */
export interface VisibleRow {
  readonly level: Level;
  /** Its entry within the level. */
  readonly index: number;
  /** `null` while its page is on the way. */
  readonly row: TableRow | null;
  readonly page: TablePage | null;
}

export function root(): Level {
  return level([], null);
}

function level(path: readonly string[], parent: Level["parent"]): Level {
  return { path, parent, total: null, pages: new Map(), asked: new Set(), opened: new Map() };
}

/** Visible rows of a level with all that is opened inside; a level that is on the way takes one row. */
export function size(of: Level): number {
  let sum = of.total ?? 1;
  for (const inner of of.opened.values()) sum += size(inner);
  return sum;
}

/** The visible row `at` (from 0), or `null` past the end. */
export function rowAt(of: Level, at: number): VisibleRow | null {
  let left = at;
  let next = 0;
  for (const [index, inner] of [...of.opened].sort((a, b) => a[0] - b[0])) {
    const own = index - next + 1;
    if (left < own) break;
    left -= own;
    const inside = size(inner);
    if (left < inside) return rowAt(inner, left);
    left -= inside;
    next = index + 1;
  }
  const index = next + left;
  if (index >= (of.total ?? 1)) return null;
  const page = of.pages.get(Math.floor(index / PAGE)) ?? null;
  return { level: of, index, row: page?.rows[index % PAGE] ?? null, page };
}

/** The visible entry of a level's row `index`. */
export function visibleIndex(of: Level, index: number): number {
  let at = index;
  for (const [opened, inner] of of.opened) if (opened < index) at += size(inner);
  return of.parent === null ? at : at + visibleIndex(of.parent.level, of.parent.index) + 1;
}

/** Opens a row or closes it; says whether it is open now. */
export function toggle(entry: VisibleRow): boolean {
  if (entry.row?.key == null) return false;
  if (entry.level.opened.delete(entry.index)) return false;
  entry.level.opened.set(
    entry.index,
    level([...entry.level.path, entry.row.key], { level: entry.level, index: entry.index }),
  );
  return true;
}

export function isOpen(entry: VisibleRow): boolean {
  return entry.level.opened.has(entry.index);
}

/** The pages that visible rows `from` to `to` lack and nobody has asked for yet. */
export function missing(of: Level, from: number, to: number): { level: Level; page: number }[] {
  const out: { level: Level; page: number }[] = [];
  for (let at = from; at < to; at++) {
    const entry = rowAt(of, at);
    if (entry === null) break;
    const page = Math.floor(entry.index / PAGE);
    if (entry.page === null && !entry.level.asked.has(page)) {
      entry.level.asked.add(page);
      out.push({ level: entry.level, page });
    }
  }
  return out;
}

export function fill(into: Level, page: number, data: TablePage): void {
  into.total = data.total;
  into.pages.set(page, data);
}
