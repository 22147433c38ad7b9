/**
 * The rows of a grouped table, loaded as far as they were shown.
 *
 * Each level is fetched in pages; an opened row has the level inside it. Visible rows are numbered
 * from the top through all opened levels, so that the grid can get row 1,234,567 directly.
 */
import type { TablePage, TableRow } from "../api/types";

export const PAGE = 200;

export interface Level {
  readonly path: readonly string[];
  readonly parent: { readonly level: Level; readonly index: number } | null;
  /** `null` until the first page arrives. */
  total: number | null;
  readonly pages: Map<number, TablePage>;
  /** Pages requested or loaded. */
  readonly requested: Set<number>;
  /** The levels inside opened rows, by the row's index. */
  readonly opened: Map<number, Level>;
}

/** A visible row and where it belongs. */
export interface VisibleRow {
  readonly level: Level;
  /** Its index in the level. */
  readonly index: number;
  /** `null` until its page arrives. */
  readonly row: TableRow | null;
  readonly page: TablePage | null;
}

/** A row and the groups that it is in, the outermost first. */
export function withAncestors(entry: VisibleRow): VisibleRow[] {
  const { parent } = entry.level;
  if (parent === null) return [entry];
  const page = parent.level.pages.get(Math.floor(parent.index / PAGE)) ?? null;
  const row = page?.rows[parent.index % PAGE] ?? null;
  return [...withAncestors({ ...parent, row, page }), entry];
}

export function root(): Level {
  return level([], null);
}

function level(path: readonly string[], parent: Level["parent"]): Level {
  return { path, parent, total: null, pages: new Map(), requested: new Set(), opened: new Map() };
}

/** Number of visible rows of a level, including opened ones. A level being loaded takes one row. */
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

/** The number, among visible rows, of a level's row `index`. */
export function visibleIndex(of: Level, index: number): number {
  let at = index;
  for (const [opened, inner] of of.opened) if (opened < index) at += size(inner);
  return of.parent === null ? at : at + visibleIndex(of.parent.level, of.parent.index) + 1;
}

/** Opens or closes a row; returns whether it is open now. */
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

/** The pages of visible rows `from` to `to` that are not yet requested; marks them as requested. */
export function missing(of: Level, from: number, to: number): { level: Level; page: number }[] {
  const out: { level: Level; page: number }[] = [];
  for (let at = from; at < to; at++) {
    const entry = rowAt(of, at);
    if (entry === null) break;
    const page = Math.floor(entry.index / PAGE);
    if (entry.page === null && !entry.level.requested.has(page)) {
      entry.level.requested.add(page);
      out.push({ level: entry.level, page });
    }
  }
  return out;
}

export function fill(into: Level, page: number, data: TablePage): void {
  into.total = data.total;
  into.pages.set(page, data);
}
