/**
 * The one store: what is looked at. Everything here is in the URL (`url.ts`), so that a link shows the same thing.
 *
 * Signals are written by anybody through the functions below, and read by every view. *Why functions:* a change that belongs to
 * several signals (opening a stall moves the window too) is one step of the browser's history.
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

/** The views; the timeline stands below each of them. */
export const VIEWS = ["answers", "tables", "stacks"] as const;
export type View = (typeof VIEWS)[number];

/** How the room is divided between the view and the timeline. */
export const LAYOUTS = ["split", "view", "timeline"] as const;
export type Layout = (typeof LAYOUTS)[number];

/** What filters every view. `null` means no restriction. */
export interface Selection {
  readonly range: Range | null;
  readonly thread: ThreadIx | null;
  readonly process: ProcessIx | null;
  /** Only what has a function on its stack whose name contains this. */
  readonly stack: string | null;
}

export const NO_SELECTION: Selection = { range: null, thread: null, process: null, stack: null };

/** A table as the user arranged it: WPA's grammar. Empty `show` means the table's own choice. */
export interface TableState {
  readonly preset: string;
  readonly table: string;
  /** Left of the gold bar. */
  readonly by: readonly string[];
  /** Between the bars: columns of single rows, or aggregates such as `sum:waited`. */
  readonly show: readonly string[];
  /** Right of the blue bar: drawn as bars or a curve above. */
  readonly graph: readonly string[];
  readonly where: string;
  /** `column:asc` or `column:desc`; empty for the table's own order. */
  readonly sort: string;
}

/** Which stacks are drawn or counted. */
export const STACK_KINDS = ["wait", "wake", "sample"] as const;
export type StackKind = (typeof STACK_KINDS)[number];

/** What the view of stacks shows. */
export interface StacksState {
  readonly of: StackKind;
  readonly form: "flame" | "icicle" | "butterfly" | "address";
  /** Frames from the root to what was clicked, or `[]`. */
  readonly root: readonly string[];
  /** The function of the butterfly. */
  readonly function: string;
  readonly by: "function" | "module" | "file";
}

/** A row of the trace: what the kernel recorded, or any provider. */
export interface EventKey {
  readonly kind: "switch" | "waking" | "sample" | "provider";
  readonly index: number;
}

/** Name of the open trace, or `null` for the list of traces. */
export const trace = signal<string | null>(null);
/** The whole of the open trace; set when its summary arrives. */
export const extent = signal<Range>(range(0, 1));
/** The stretch of time that the timeline shows; `null` for the whole. */
export const shown = signal<Range | null>(null);
export const selection = signal<Selection>(NO_SELECTION);
export const view = signal<View>("answers");
export const layout = signal<Layout>("split");
/** The open stall; its wait chain is drawn. */
export const stall = signal<StallId | null>(null);
/** The hop of the open stall's chain that is looked at, from 0. */
export const chainLink = signal<number | null>(null);
/** Moments and stretches that the user marked and keeps. */
export const pageMarks = signal<readonly Range[]>([]);
export const search = signal("");
/** The event whose details stand beside the view. */
export const event = signal<EventKey | null>(null);
export const table = signal<TableState>({
  preset: "waits",
  table: "waits",
  by: [],
  show: [],
  graph: [],
  where: "",
  sort: "",
});
export const stacks = signal<StacksState>({
  of: "wait",
  form: "flame",
  root: [],
  function: "",
  by: "function",
});

/** The stretch of time that the timeline shows, always within the trace. */
export const window = computed<Range>(() => confine(shown.value ?? extent.value, extent.value));

/** Whether one thread and a stretch of time are selected, which can be explained as a stall is. */
export const canExplain = computed(
  () => selection.value.thread !== null && selection.value.range !== null,
);

/** Not in the URL, shared by all views: what the pointer is over. */
export const hovered = signal<{ thread: ThreadIx | null; process: ProcessIx | null }>({
  thread: null,
  process: null,
});
/** Not in the URL: a lane that the timeline scrolls to and marks, as after a click on a word of the answer. */
export const reveal = signal<{ lane: string; at: Ns } | null>(null);
/** Not in the URL: what the live region says to a screen reader. */
export const announced = signal("");
/** Not in the URL: a short message at the bottom, as after copying. */
export const toast = signal("");

/** Moves the timeline's window; views that only follow it need no new data. */
export function show(to: Range | null): void {
  shown.value = to === null ? null : confine(to, extent.value);
}

/** Shows a stretch of time with a margin on both sides, as after clicking a stall. */
export function showAround(what: Range, margin = 0.08): void {
  const extra = Math.max(1000, (what.to - what.from) * margin);
  show(
    range(
      Math.max(extent.value.from, what.from - extra),
      Math.min(extent.value.to, what.to + extra),
    ),
  );
}

/** Changes parts of the selection: `select({ thread })`, `select({ range: null })`. */
export function select(change: Partial<Selection>): void {
  selection.value = { ...selection.value, ...change };
}

/** Whether anything is restricted. */
export function isSelecting(s: Selection): boolean {
  return s.range !== null || s.thread !== null || s.process !== null || s.stack !== null;
}

export function clearSelection(): void {
  selection.value = NO_SELECTION;
}

/** Opens a stall: its chain is drawn, the timeline zooms to it, and the tables are about its time. */
export function openStall(id: StallId, at: Range): void {
  batch(() => {
    stall.value = id;
    chainLink.value = null;
    event.value = null;
    reveal.value = null;
    select({ range: at, thread: null, process: null });
    showAround(at);
  });
}

/** Explains what the selected thread did in the selected time, in place of a stall. */
export function explain(): void {
  batch(() => {
    stall.value = null;
    chainLink.value = null;
    view.value = "answers";
    if (layout.value === "timeline") layout.value = "split";
  });
}

/** Opens a trace as if for the first time. */
export function openTrace(name: string | null): void {
  batch(() => {
    trace.value = name;
    extent.value = range(0, 1);
    shown.value = null;
    selection.value = NO_SELECTION;
    stall.value = null;
    chainLink.value = null;
    event.value = null;
    reveal.value = null;
    view.value = "answers";
    layout.value = "split";
    pageMarks.value = [];
    search.value = "";
    table.value = {
      preset: "waits",
      table: "waits",
      by: [],
      show: [],
      graph: [],
      where: "",
      sort: "",
    };
    stacks.value = { of: "wait", form: "flame", root: [], function: "", by: "function" };
  });
}

/** Says something to screen readers, and shows it for a moment. */
export function notify(text: string): void {
  announced.value = text;
  toast.value = text;
}
