/** The current table: its columns, the rows loaded so far, and the pages in flight. */

import { computed, effect, signal } from "@preact/signals";
import { type ApiError, getJson, isAbort, tracePath } from "../api/client";
import { reading, tables, threadName } from "../api/data";
import type { Members } from "../api/members";
import { whereParams } from "../api/params";
import { asApiError } from "../api/query";
import type { TablePage } from "../api/types";
import * as store from "../state/store";
import { type Arrangement, asPlain, order, presetOf, resolve } from "./arrange";
import * as tree from "./tree";

export const arrangement = computed<Arrangement | null>(() => {
  const data = tables.value.data;
  const state = store.table.value;
  return data && state !== store.unchecked.value ? resolve(data, state, compared.value) : null;
});

/** Several selected threads are compared: each is a group, by its id if names do not tell. */
const compared = computed<readonly string[]>(() => {
  const { threads } = store.selection.value;
  if (threads.length < 2) return [];
  const names = threads.map((thread) => threadName(thread).replace(/ \d+( \(.*\))?$/, ""));
  return new Set(names).size < names.length ? ["tid", "thread"] : ["thread"];
});

/** Changes with the loaded rows, which are mutated. */
export const version = signal(0);
export const error = signal<ApiError | null>(null);
/** Number of pages in flight. */
export const pending = signal(0);

let current = tree.root();
let controller = new AbortController();

export function rows(): tree.Level {
  void version.value;
  return current;
}

/** The columns to request for a level. */
function shown(of: Arrangement, level: tree.Level): string[] {
  const all = [...of.show, ...of.graph];
  if (level.path.length < of.by.length) return all;
  const plain = [...new Set(all.map(asPlain).filter((text): text is string => text !== null))];
  return plain.length > 0 ? plain : [...of.info.show];
}

/** A level's sort order: the user's for groups, the aggregate's column for single rows. */
function sorted(of: Arrangement, level: tree.Level): string {
  const { what, down } = order(of.sort);
  if (what === "") return "";
  const direction = down ? "desc" : "asc";
  if (level.path.length < of.by.length) {
    // A level cannot be sorted by another level's group column.
    const isGroup = of.by.includes(what);
    return isGroup && of.by[level.path.length] !== what ? "" : `${what}:${direction}`;
  }
  const plain = asPlain(what);
  return plain === null ? "" : `${plain}:${direction}`;
}

export function pageParams(of: Arrangement, level: tree.Level, offset: number, limit: number) {
  const state = store.table.value;
  return {
    table: of.info.table,
    by: of.by.join(","),
    path: level.path.length > 0 ? JSON.stringify(level.path) : null,
    show: shown(of, level).join(","),
    sort: sorted(of, level),
    offset,
    limit,
    ...whereParams(store.selection.value, of.info.table, state.where),
  };
}

/** Requests the missing pages of a screen of rows. */
export function requestRows(from: number, to: number): void {
  const trace = store.trace.peek();
  const of = arrangement.peek();
  if (trace === null || of === null || error.peek() !== null) return;
  for (const { level, page } of tree.missing(current, from, to)) void load(trace, of, level, page);
}

async function load(
  trace: string,
  of: Arrangement,
  level: tree.Level,
  page: number,
): Promise<void> {
  const request = controller;
  pending.value += 1;
  try {
    const data = await getJson<TablePage>(
      tracePath(trace, "table"),
      pageParams(of, level, page * tree.PAGE, tree.PAGE),
      request.signal,
    );
    if (request !== controller) return;
    error.value = null;
    tree.fill(level, page, data);
    version.value += 1;
  } catch (failure) {
    if (request === controller && !isAbort(failure)) error.value = asApiError(failure);
  } finally {
    if (request === controller) pending.value -= 1;
  }
}

/** Reloads whenever the table, order, filter or selection changes. */
export function watchTable(): () => void {
  let key = "";
  const stop = effect(() => {
    const of = arrangement.value;
    const next =
      of === null
        ? ""
        : JSON.stringify([
            store.trace.value,
            reading.value,
            pageParams(of, tree.root(), 0, 0),
            of.graph,
          ]);
    if (next === key) return;
    key = next;
    reload();
  });
  return () => {
    stop();
    // Drops the rows, so that the view never starts with those of another selection.
    controller.abort();
    current = tree.root();
  };
}

/** Reloads the table. Its old rows stay until the first new ones arrive, or if the filter is wrong. */
export function reload(): void {
  controller.abort();
  controller = new AbortController();
  const next = tree.root();
  error.value = null;
  pending.value = 0;
  const trace = store.trace.peek();
  const of = arrangement.peek();
  if (trace === null || of === null) {
    show(next);
    return;
  }
  // Rows of another table have other columns.
  if (shownTable !== columnsOf(of)) show(next);
  shownTable = columnsOf(of);
  void load(trace, of, next, 0).then(() => (error.peek()?.at == null ? show(next) : null));
}

let shownTable = "";
const columnsOf = (of: Arrangement): string =>
  JSON.stringify([store.trace.peek(), of.info.table, of.by, of.show, of.graph]);

function show(level: tree.Level): void {
  if (current === level) return;
  current = level;
  version.value = version.peek() + 1;
}

/** Whom a group is about; `null` if that cannot be told. */
export async function members(of: Arrangement, entry: tree.VisibleRow): Promise<Members | null> {
  const trace = store.trace.peek();
  const key = entry.row?.key;
  if (trace === null || key == null) return null;
  const params = {
    table: of.info.table,
    by: of.by.join(","),
    path: JSON.stringify([...entry.level.path, key]),
    ...whereParams(store.selection.peek(), of.info.table, store.table.peek().where),
  };
  return getJson<Members>(tracePath(trace, "members"), params).catch(() => null);
}

export function toggle(entry: tree.VisibleRow): void {
  if (entry.row === null || entry.row.key === null) return;
  tree.toggle(entry);
  version.value += 1;
}

/** Fetches the first rows of the outermost level, for copying. */
export async function everything(limit: number): Promise<TablePage | null> {
  const trace = store.trace.peek();
  const of = arrangement.peek();
  if (trace === null || of === null) return null;
  return getJson<TablePage>(tracePath(trace, "table"), pageParams(of, tree.root(), 0, limit));
}

/** Shows a preset, or a table by its own name, with its default columns. */
export function choosePreset(preset: string): void {
  const data = tables.peek().data;
  const where = (data && presetOf(data, preset)?.where) ?? "";
  store.table.value = { ...store.NO_TABLE, preset, table: preset, where };
}
