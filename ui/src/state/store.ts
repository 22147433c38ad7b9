/**
 * The store: what the user is looking at. Everything here is in the URL (`url.ts`) unless it says
 * otherwise, so that a link shows the same view.
 *
 * Every view reads these signals. *Why functions change them:* a change to several signals (opening
 * a stall also moves the window) is one entry of the browser's history.
 */
import { batch, computed, signal } from "@preact/signals";
import {
  confine,
  type Ns,
  type ProcessIx,
  type Range,
  range,
  type StallId,
  type ThreadIx,
} from "../units";

/** The views. The timeline is below each of them. */
export const VIEWS = ["answers", "tables", "stacks"] as const;
export type View = (typeof VIEWS)[number];

/** How the page is divided between the view and the timeline. */
export const LAYOUTS = ["split", "view", "timeline"] as const;
export type Layout = (typeof LAYOUTS)[number];

/** The filter of every view; `null` means no restriction. */
export interface Selection {
  readonly range: Range | null;
  /** The threads in the order in which they were selected; `[]` means all. */
  readonly threads: readonly ThreadIx[];
  readonly process: ProcessIx | null;
  /** Only stacks with a function whose name contains this. */
  readonly stack: string | null;
}

export const NO_SELECTION: Selection = { range: null, threads: [], process: null, stack: null };

/** A table's columns as in WPA. Empty `show` means the table's own choice. */
export interface TableState {
  readonly preset: string;
  readonly table: string;
  /** Left of the gold bar. */
  readonly by: readonly string[];
  /** Between the bars: columns of single rows, or aggregates such as `sum:waited`. */
  readonly show: readonly string[];
  /** Right of the blue bar: drawn above the table. */
  readonly graph: readonly string[];
  readonly where: string;
  /** `column:asc` or `column:desc`; empty for the table's own order. */
  readonly sort: string;
  /** Whether the graph is drawn over time, aligned with the timeline; empty: as the preset has it. */
  readonly over: "" | "time" | "groups";
}

export const NO_TABLE: TableState = {
  preset: "waits",
  table: "waits",
  by: [],
  show: [],
  graph: [],
  where: "",
  sort: "",
  over: "",
};

/** The stacks that are drawn or counted. */
export const STACK_KINDS = ["wait", "wake", "sample"] as const;
export type StackKind = (typeof STACK_KINDS)[number];

/** What the Stacks view shows. */
export interface StacksState {
  readonly of: StackKind;
  readonly form: "flame" | "icicle" | "butterfly" | "compare" | "address";
  /** Function names from the root to the frame that fills the width; `[]` for all stacks. */
  readonly root: readonly string[];
  /** The function shown as a butterfly or by address. */
  readonly function: string;
  readonly by: "function" | "module" | "file";
  /** Whether waits of threads that had nothing to do count, too. */
  readonly idle: boolean;
  /** Whose stacks: all, those of the open stall's victim, or of the threads of its wait chain. */
  readonly scope: (typeof SCOPES)[number];
  /** A filter by the columns of the table of these stacks. */
  readonly where: string;
}

export const SCOPES = ["all", "victim", "chain"] as const;

const NO_STACKS: StacksState = {
  of: "wait",
  form: "flame",
  root: [],
  function: "",
  by: "function",
  idle: false,
  scope: "all",
  where: "",
};

/** Two traces of the folder that are compared. */
export interface DiffState {
  readonly before: string;
  readonly after: string;
  /** The stacks of the flame graph. */
  readonly of: StackKind;
  /** The side whose times are the widths of the flame graph. */
  readonly widths: "before" | "after";
  /** What the flame graph shows: the victims' time in both stalls, or the whole recordings. */
  readonly within: "stall" | "all";
}

/** How the list of traces is shown. */
export interface ListState {
  readonly filter: string;
  /** `column:asc` or `column:desc`. */
  readonly sort: string;
}

export const USUAL_LIST: ListState = { filter: "", sort: "modified:desc" };

/** An event of the trace: the kernel's, or another provider's. */
export interface EventKey {
  readonly kind: "switch" | "waking" | "sample" | "provider";
  readonly index: number;
}

/** The open trace's name, or `null` for the list of traces. */
export const trace = signal<string | null>(null);
/** The traces that are compared, in place of an open trace. */
export const diff = signal<DiffState | null>(null);
/** The list of traces; also while a trace is open, for the way back. */
export const list = signal<ListState>(USUAL_LIST);
/** The extent of a trace that is not known yet. */
export const NO_EXTENT = range(0, 1);
/** The open trace's extent; not in the URL, set when its summary arrives. */
export const extent = signal<Range>(NO_EXTENT);
/** The time range that the timeline shows; `null` for all of it. */
export const shown = signal<Range | null>(null);
export const selection = signal<Selection>(NO_SELECTION);
/** The threads whose lanes the drag crossed that selected the time range; they filter nothing. */
export const swept = signal<readonly ThreadIx[]>([]);
export const view = signal<View>("answers");
export const layout = signal<Layout>("split");
/** The open stall, whose wait chain is drawn; null also while a selection is explained. */
export const stall = signal<StallId | null>(null);
/** The current link of the answer's wait chain, from 0. */
export const chainLink = signal<number | null>(null);
/** The marks that the user keeps on the timeline; a mark of no length is a point in time. */
export const pageMarks = signal<readonly Range[]>([]);
/** Lanes that stay on top of the timeline, by id. */
export const pins = signal<readonly string[]>([]);
/** Measures over time that the timeline has a lane for: ids of presets. */
export const tracks = signal<readonly string[]>([]);
/** Processes (`p3`) and threads (`t12`) that the timeline does not show. */
export const hidden = signal<readonly string[]>([]);
export const search = signal("");
/** The event in the details panel. */
export const event = signal<EventKey | null>(null);
export const table = signal<TableState>(NO_TABLE);
export const stacks = signal<StacksState>(NO_STACKS);

/** The time range that the timeline shows, always within the trace. */
export const window = computed<Range>(() => confine(shown.value ?? extent.value, extent.value));

/** Whether a thread and a time range are selected, which can be explained like a stall. */
export const canExplain = computed(
  () => selection.value.threads.length === 1 && selection.value.range !== null,
);

/** Whether several threads and a time range are selected, which can be compared. */
export const canCompare = computed(
  () => selection.value.threads.length > 1 && selection.value.range !== null,
);

/** The swept threads, unless other threads are selected. */
export const sweptAlone = computed<readonly ThreadIx[]>(() => {
  const { range, threads } = selection.value;
  return range !== null && threads.length === 0 ? swept.value : [];
});

/** What the pointer is over: a lane of a CPU or a thread, and the thread and process meant there. */
export interface Hovered {
  readonly lane: string | null;
  readonly thread: ThreadIx | null;
  readonly process: ProcessIx | null;
}
export const NOTHING_HOVERED: Hovered = { lane: null, thread: null, process: null };
/** Not in the URL. */
export const hovered = signal(NOTHING_HOVERED);
/**
 * Not in the URL: a lane to show on the timeline, e.g. after a click on a link of the answer; or a
 * process (`p3`).
 */
export const reveal = signal<{ lane: string; at: Ns } | null>(null);
/** Not in the URL: whether a stall or a trace was opened whose chain the timeline is yet to show. */
export const unshown = signal(false);
/** Not in the URL: a stall that was opened with its trace, whose time is not known yet. */
export const unplaced = signal<StallId | null>(null);
/** Not in the URL: the table of the start view, until it is known whether it can be shown. */
export const unchecked = signal<TableState | null>(null);
/** Not in the URL: what the view cannot show for lack of data. */
export const viewCaveats = signal<readonly string[]>([]);
/** Not in the URL: the text of the live region, for screen readers. */
export const announced = signal("");
/** Not in the URL: a short message at the bottom, e.g. after copying. */
export const toast = signal("");

/** Where the timeline's window may be: anywhere, until the trace's extent is known. */
function limits(): Range {
  return extent.value === NO_EXTENT ? range(0, Number.MAX_SAFE_INTEGER) : extent.value;
}

/** Moves the timeline's window; `null` shows the whole trace. */
export function show(to: Range | null): void {
  shown.value = to === null ? null : confine(to, limits());
}

/** Shows a time range with a margin on both sides, e.g. after a click on a stall. */
export function showAround(what: Range, margin = 0.08): void {
  const extra = Math.max(1000, (what.to - what.from) * margin);
  const { from, to } = limits();
  show(range(Math.max(from, what.from - extra), Math.min(to, what.to + extra)));
}

/** Selects a time range and shows it alone; `null` shows the whole trace, with no range selected. */
export function zoomTo(what: Range | null): void {
  batch(() => {
    select({ range: what });
    if (what === null) show(null);
    else showAround(what, 0.02);
  });
}

/** Changes parts of the selection: `select({ threads: [t] })`, `select({ range: null })`. */
export function select(change: Partial<Selection>): void {
  batch(() => {
    selection.value = { ...selection.value, ...change };
    if (change.range !== undefined) swept.value = [];
    // Another selection is explained, with another chain.
    const isOther = change.range !== undefined || change.threads !== undefined;
    if (stall.value === null && isOther) chainLink.value = null;
  });
}

/** Selects a time range by a drag over lanes of these threads. */
export function sweep(over: Range, threads: readonly ThreadIx[]): void {
  batch(() => {
    select({ range: over });
    swept.value = threads;
  });
}

/** Whether the selection restricts anything. */
export function isSelecting(s: Selection): boolean {
  return s.range !== null || s.threads.length > 0 || s.process !== null || s.stack !== null;
}

/** Selects one thread alone; if it is selected alone already, none. */
export function toggleThread(thread: ThreadIx): void {
  const { threads } = selection.peek();
  select({ threads: threads.length === 1 && threads[0] === thread ? [] : [thread], process: null });
}

/** Adds a thread to the selected ones, or removes it. */
export function addThread(thread: ThreadIx): void {
  const { threads } = selection.peek();
  select({
    threads: threads.includes(thread) ? threads.filter((t) => t !== thread) : [...threads, thread],
    process: null,
  });
}

/** Keeps a lane on top of the timeline, or no longer. */
export function togglePin(lane: string): void {
  const old = pins.peek();
  pins.value = old.includes(lane) ? old.filter((l) => l !== lane) : [...old, lane];
}

/** Adds a lane for a measure over time, or removes it. */
export function toggleTrack(preset: string): void {
  const old = tracks.peek();
  tracks.value = old.includes(preset) ? old.filter((id) => id !== preset) : [...old, preset];
}

export function clearSelection(): void {
  select(NO_SELECTION);
}

/** Opens a stall: shows its answer and its chain, zooms the timeline to it, and selects its time. */
export function openStall(id: StallId, at: Range): void {
  batch(() => {
    view.value = "answers";
    stall.value = id;
    chainLink.value = null;
    event.value = null;
    reveal.value = null;
    unshown.value = true;
    select({ range: at, threads: [], process: null });
    showAround(at);
  });
}

/** Shows a view, also if only the timeline is shown. */
export function showView(wanted: View): void {
  batch(() => {
    view.value = wanted;
    if (layout.peek() === "timeline") layout.value = "split";
  });
}

/** Explains what the selected or swept threads did in the selected range, in place of a stall. */
export function explain(): void {
  batch(() => {
    const threads = sweptAlone.peek();
    if (threads.length > 0) select({ threads, process: null });
    stall.value = null;
    chainLink.value = null;
    showView("answers");
  });
}

/** Opens a trace with the defaults of a first visit; `null` goes to the list of traces. */
export function openTrace(name: string | null): void {
  batch(() => {
    trace.value = name;
    diff.value = null;
    extent.value = NO_EXTENT;
    shown.value = null;
    select(NO_SELECTION);
    stall.value = null;
    unplaced.value = null;
    chainLink.value = null;
    event.value = null;
    reveal.value = null;
    view.value = "answers";
    layout.value = "split";
    pageMarks.value = [];
    pins.value = [];
    tracks.value = [];
    hidden.value = [];
    search.value = "";
    table.value = NO_TABLE;
    stacks.value = NO_STACKS;
  });
}

/** Compares two traces of the folder. */
export function compareTraces(before: string, after: string): void {
  batch(() => {
    openTrace(null);
    diff.value = { before, after, of: "wait", widths: "after", within: "stall" };
  });
}

/** Shows a short message and announces it to screen readers. */
export function notify(text: string): void {
  announced.value = text;
  toast.value = text;
}
