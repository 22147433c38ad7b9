/**
 * Keeps the store in the URL: reads it at start and on back and forward, writes it on each change.
 */
import { batch, effect } from "@preact/signals";
import { duration, processIx, type Range, range, stallId, type ThreadIx, threadIx } from "../units";
import * as store from "./store";

/** The part of the store that is in the URL. */
export interface UrlState {
  trace: string | null;
  diff: store.DiffState | null;
  list: store.ListState;
  view: store.View;
  layout: store.Layout;
  shown: Range | null;
  selection: store.Selection;
  swept: readonly ThreadIx[];
  stall: number | null;
  chainLink: number | null;
  pageMarks: readonly Range[];
  pins: readonly string[];
  tracks: readonly string[];
  hidden: readonly string[];
  search: string;
  event: store.EventKey | null;
  table: store.TableState;
  stacks: store.StacksState;
}

/** Separates the frames of a flame graph's root: a character that no function name contains. */
const FRAMES = "\u001f";

/** `1200-4700`: both ends in ns. */
function rangeText(r: Range | null): string {
  return r === null ? "" : `${Math.round(r.from)}-${Math.round(r.to)}`;
}

/** As a range, or `1200` for a point in time. */
function markText(r: Range): string {
  return r.to > r.from ? rangeText(r) : `${Math.round(r.from)}`;
}

function parseMark(text: string): Range[] {
  const mark = /^\d{1,16}$/.test(text) ? range(Number(text), Number(text)) : parseRange(text);
  return mark === null ? [] : [mark];
}

function parseRange(text: string | null): Range | null {
  const match = /^(\d{1,16})-(\d{1,16})$/.exec(text ?? "");
  if (!match) return null;
  const from = Number(match[1]);
  const to = Number(match[2]);
  return to > from ? range(from, to) : null;
}

function parseIndex(text: string | null): number | null {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function parseEvent(text: string | null): store.EventKey | null {
  const match = /^(switch|waking|sample|provider)-(\d{1,15})$/.exec(text ?? "");
  return match ? { kind: match[1] as store.EventKey["kind"], index: Number(match[2]) } : null;
}

function parseDiff(from: URLSearchParams): store.DiffState | null {
  const [before, after] = [from.get("before"), from.get("after")];
  if (!before || !after) return null;
  return {
    before,
    after,
    of: oneOf(store.STACK_KINDS, from.get("stacks"), "wait"),
    widths: oneOf(["before", "after"] as const, from.get("widths"), "after"),
    within: oneOf(["stall", "all"] as const, from.get("within"), "stall"),
  };
}

function oneOf<T extends string>(allowed: readonly T[], text: string | null, otherwise: T): T {
  return allowed.find((a) => a === text) ?? otherwise;
}

export function write(state: UrlState): string {
  const out = new URLSearchParams();
  const put = (
    name: string,
    value: string | number | null,
    usual: string | number | null = null,
  ) => {
    if (value !== null && value !== "" && value !== usual) out.set(name, String(value));
  };
  put("trace", state.trace);
  if (state.diff !== null) {
    const { before, after, of, widths, within } = state.diff;
    put("before", before);
    put("after", after);
    put("stacks", of, "wait");
    put("widths", widths, "after");
    put("within", within, "stall");
  }
  put("list", state.list.filter);
  put("order", state.list.sort, store.USUAL_LIST.sort);
  put("view", state.view, "answers");
  put("layout", state.layout, "split");
  put("stall", state.stall);
  put("hop", state.chainLink);
  put("window", rangeText(state.shown));
  put("marks", state.pageMarks.map(markText).join(","));
  put("pins", state.pins.join(","));
  put("tracks", state.tracks.join(","));
  put("hide", state.hidden.join(","));
  put("range", rangeText(state.selection.range));
  put("thread", state.selection.threads.join(","));
  put("swept", state.swept.join(","));
  put("process", state.selection.process);
  put("stack", state.selection.stack);
  put("search", state.search);
  put("event", state.event === null ? "" : `${state.event.kind}-${state.event.index}`);
  put("preset", state.table.preset, "waits");
  put("table", state.table.table, state.table.preset);
  put("by", state.table.by.join(","));
  put("show", state.table.show.join(","));
  put("graph", state.table.graph.join(","));
  put("where", state.table.where);
  put("sort", state.table.sort);
  put("over", state.table.over);
  put("of", state.stacks.of, "wait");
  put("form", state.stacks.form, "flame");
  put("root", state.stacks.root.join(FRAMES));
  put("function", state.stacks.function);
  put("count", state.stacks.by, "function");
  put("idle", state.stacks.idle ? "1" : "");
  put("scope", state.stacks.scope, "all");
  put("filter", state.stacks.where);
  const text = out.toString();
  return text && `?${text}`;
}

export function parse(text: string): UrlState {
  const from = new URLSearchParams(text);
  const list = (name: string, separator = ",") =>
    (from.get(name) ?? "").split(separator).filter((part) => part !== "");
  const threads = (name: string) =>
    list(name).flatMap((text) => {
      const thread = parseIndex(text);
      return thread === null ? [] : [threadIx(thread)];
    });
  const preset = from.get("preset") ?? "waits";
  const process = parseIndex(from.get("process"));
  return {
    trace: from.get("trace"),
    diff: parseDiff(from),
    list: {
      filter: from.get("list") ?? "",
      sort: from.get("order") ?? store.USUAL_LIST.sort,
    },
    view: oneOf(store.VIEWS, from.get("view"), "answers"),
    layout: oneOf(store.LAYOUTS, from.get("layout"), "split"),
    stall: parseIndex(from.get("stall")),
    chainLink: parseIndex(from.get("hop")),
    shown: parseRange(from.get("window")),
    pageMarks: list("marks").flatMap(parseMark),
    pins: list("pins").filter((lane) => /^[ct]\d{1,9}$/.test(lane)),
    tracks: [...new Set(list("tracks"))],
    hidden: list("hide").filter((key) => /^[cpt]\d{1,9}$/.test(key)),
    selection: {
      range: parseRange(from.get("range")),
      threads: threads("thread"),
      process: process === null ? null : processIx(process),
      stack: from.get("stack"),
    },
    swept: threads("swept"),
    search: from.get("search") ?? "",
    event: parseEvent(from.get("event")),
    table: {
      preset,
      table: from.get("table") ?? preset,
      by: list("by"),
      show: list("show"),
      graph: list("graph"),
      where: from.get("where") ?? "",
      sort: from.get("sort") ?? "",
      over: oneOf(["", "time", "groups"] as const, from.get("over"), ""),
    },
    stacks: {
      of: oneOf(store.STACK_KINDS, from.get("of"), "wait"),
      form: oneOf(
        ["flame", "icicle", "butterfly", "compare", "address"] as const,
        from.get("form"),
        "flame",
      ),
      root: list("root", FRAMES),
      function: from.get("function") ?? "",
      by: oneOf(["function", "module", "file"] as const, from.get("count"), "function"),
      idle: from.get("idle") === "1",
      scope: oneOf(store.SCOPES, from.get("scope"), "all"),
      where: from.get("filter") ?? "",
    },
  };
}

/** The state without what belongs to one trace: a view that any trace can be opened with. */
export function ofAnyTrace({ view, layout, tracks, table, stacks }: UrlState): UrlState {
  const usual = parse("");
  const { of, form, by, idle } = stacks;
  return { ...usual, view, layout, tracks, table, stacks: { ...usual.stacks, of, form, by, idle } };
}

/** The store's current state. Subscribes the caller to all of its signals. */
export function current(): UrlState {
  return {
    trace: store.trace.value,
    diff: store.diff.value,
    list: store.list.value,
    view: store.view.value,
    layout: store.layout.value,
    shown: store.shown.value,
    selection: store.selection.value,
    swept: store.swept.value,
    stall: store.stall.value,
    chainLink: store.chainLink.value,
    pageMarks: store.pageMarks.value,
    pins: store.pins.value,
    tracks: store.tracks.value,
    hidden: store.hidden.value,
    search: store.search.value,
    event: store.event.value,
    table: store.table.value,
    stacks: store.stacks.value,
  };
}

export function restore(state: UrlState): void {
  batch(() => {
    store.trace.value = state.trace;
    store.diff.value = state.diff;
    store.list.value = state.list;
    store.view.value = state.view;
    store.layout.value = state.layout;
    store.shown.value = state.shown;
    store.selection.value = state.selection;
    store.swept.value = state.swept;
    store.stall.value = state.stall === null ? null : stallId(state.stall);
    store.chainLink.value = state.chainLink;
    store.pageMarks.value = state.pageMarks;
    store.pins.value = state.pins;
    store.tracks.value = state.tracks;
    store.hidden.value = state.hidden;
    store.search.value = state.search;
    store.event.value = state.event;
    store.table.value = state.table;
    store.stacks.value = state.stacks;
  });
}

/**
 * Changes of the same parts that follow each other within this time are one entry of the history: a
 * pan, a typed word.
 */
const SETTLED = duration(400_000_000);

/** Whether the next change of the store replaces the current entry of the history. */
let replacesNext = false;

/** Makes a change that the user did not ask for, so that Back does not lead to before it. */
export function replacing(change: () => void): void {
  replacesNext = true;
  change();
  // Effects run before this, also if the change is made within one.
  queueMicrotask(() => (replacesNext = false));
}

/** The names of the parameters that differ between two addresses. */
export function changedParams(a: string, b: string): string {
  const [from, to] = [new URLSearchParams(a), new URLSearchParams(b)];
  const names = new Set([...from.keys(), ...to.keys()]);
  return [...names]
    .filter((name) => from.get(name) !== to.get(name))
    .sort()
    .join(" ");
}

/** Synchronises the store with the browser's history; call once. */
export function syncUrl(win: Window): void {
  restore(parse(win.location.search));
  let timer = 0;
  let written = write(current());
  /** What the last change was about, until it has settled. */
  let moving = "";
  win.addEventListener("popstate", () => {
    win.clearTimeout(timer);
    moving = "";
    const state = parse(win.location.search);
    // Before the store changes: its effects must find nothing to write, or the browser would drop
    // the entries that Forward leads to.
    written = write(state);
    restore(state);
  });
  effect(() => {
    const next = write(current());
    if (next === written) return;
    const changed = changedParams(written, next);
    written = next;
    const address = win.location.pathname + next;
    if (replacesNext || changed === moving) win.history.replaceState(null, "", address);
    else win.history.pushState(null, "", address);
    moving = replacesNext ? "" : changed;
    win.clearTimeout(timer);
    timer = win.setTimeout(() => (moving = ""), SETTLED / 1e6);
  });
}
