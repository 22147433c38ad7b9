/** The timeline's state, and the scene computed from it and the store. */
import { computed, signal } from "@preact/signals";
import { stallDetail } from "../../api/data";
import type { Curve, Lanes, Series } from "../../api/types";
import { readTheme, type Theme } from "../../draw/theme";
import { matcher } from "../../search";
import * as store from "../../state/store";
import { density } from "../../state/theme";
import { duration, type Range } from "../../units";
import type { LaneView } from "./decode";
import { COMFORTABLE, COMPACT, type Layout, layout } from "./layout";
import type { Marks, Slice } from "./protocol";
import { Scale } from "./scale";
import {
  type FocusWake,
  geometry,
  type PageMark,
  type Pointing,
  plotWidth,
  type Scene,
  type ThreadName,
} from "./scene";
import { trackNames } from "./tracks";
import { wakerOf, wakeText } from "./walk";

/** The server's answers, written by `fetch.ts`. */
export const NO_LANES: Lanes = { cpus: [], processes: [] };
/** `NO_LANES` until they have arrived. */
export const lanes = signal<Lanes>(NO_LANES);
export const curve = signal<Curve | null>(null);
/** By preset, those of the tracks. */
export const tracks = signal<ReadonlyMap<string, Series>>(new Map());
export const recordedMarks = signal<Marks>({ marks: [], losses: [] });
export const views = new Map<string, LaneView>();
/** Changes with `views`, which is mutated so that its arrays are never copied. */
export const viewsVersion = signal(0);
/** Why the timeline cannot be drawn; empty if it can. */
export const problem = signal("");

export const size = signal({ width: 0, height: 0 });
export const scroll = signal(0);
/** Empty space between the wait chain and the lanes, which keeps them in place (`place.ts`). */
export const gap = signal(0);
/** The section of the row that the user pressed or went to last. */
export const lookedAt = signal("");
/** The sections that the user opened or closed. */
export const chosen = signal<ReadonlyMap<string, boolean>>(new Map());
export const theme = signal<Theme>(readTheme(() => ""));

/** Grows when the user asks to sort the lanes by relevance. */
export const resort = signal(0);

/** The pointer's x on the canvas, or null. */
export const pointerX = signal<number | null>(null);
/** The range being dragged; it becomes the selection when the button is released. */
export const dragged = signal<Range | null>(null);
/** The key of the keyboard's current row; null while the timeline does not have the focus. */
export const row = signal<string | null>(null);
/** The current slice. */
export const focus = signal<{ lane: string; from: number; to: number; slice: Slice } | null>(null);
/** Whether all that is needed has arrived: the lanes, and data to draw if there are any. */
export const isComplete = (): boolean =>
  problem.value !== "" ||
  (lanes.value !== NO_LANES &&
    (rowLayout.value.rows.every((r) => r.kind === "header") || views.size > 0) &&
    trackNames.value.every(({ id }) => tracks.value.has(id)));
/** Whether the legend of states is shown. */
export const legend = signal(false);
/** Text of the timeline's live region. */
export const announcement = signal("");
/** The temporary mark set by `M`, which the next one replaces. Kept marks are in the store. */
export const passingMark = signal<Range | null>(null);

export interface TooltipState {
  readonly x: number;
  readonly y: number;
  readonly lines: readonly string[];
  readonly pinned: boolean;
}
export const tooltip = signal<TooltipState | null>(null);

/**
 * The answer whose wait chain is drawn: of the open stall, or of the explained selection. While
 * another one loads, the one before.
 */
export const chain = computed(() => stallDetail.value.data);

const shownLinkLane = computed(() =>
  store.chainLink.value === null ? null : (chain.value?.chain[store.chainLink.value]?.lane ?? null),
);

export const canvasGeometry = computed(() => geometry(size.value.width, size.value.height));
export const rowLayout = computed<Layout>(() =>
  layout(
    lanes.value,
    chain.value,
    chosen.value,
    density.value === "compact" ? COMPACT : COMFORTABLE,
    shownLinkLane.value,
    { tracks: trackNames.value, pins: store.pins.value, hidden: store.hidden.value },
    gap.value,
  ),
);
export const scale = computed(() => new Scale(store.window.value, plotWidth(canvasGeometry.value)));

export const names = computed<ReadonlyMap<number, ThreadName>>(() => {
  const out = new Map<number, ThreadName>();
  for (const process of lanes.value.processes) {
    for (const t of process.threads)
      out.set(t.thread, {
        name: t.name,
        tid: t.tid,
        process: process.name,
        processIndex: process.process,
      });
  }
  return out;
});

const matches = computed(() => {
  const match = matcher(store.search.value);
  return typeof match === "function" ? match : () => false;
});

/** The page's marks, kept ones first. */
const pageMarks = computed<readonly PageMark[]>(() => [
  ...store.pageMarks.value.map((mark) => ({ ...mark, kept: true })),
  ...(passingMark.value === null ? [] : [{ ...passingMark.value, kept: false }]),
]);

export const scene = computed<Scene>(() => {
  void viewsVersion.value;
  return {
    geometry: canvasGeometry.value,
    theme: theme.value,
    scale: scale.value,
    layout: rowLayout.value,
    scroll: scroll.value,
    views,
    names: names.value,
    curve: curve.value,
    tracks: tracks.value,
    recordedMarks: recordedMarks.value.marks,
    losses: recordedMarks.value.losses,
    chain: chain.value,
    chainLink: store.chainLink.value,
    pageMarks: pageMarks.value,
    matches: matches.value,
    selected: { threads: store.selection.value.threads, process: store.selection.value.process },
  };
});

function wakeOf(slice: Slice): FocusWake | null {
  if (!slice.wake) return null;
  return {
    at: slice.wake.at,
    lane: wakerOf(slice)?.lane ?? null,
    text: wakeText(slice, (who) => `${who.name} ${who.tid}`),
  };
}

export const pointing = computed<Pointing>(() => ({
  x: pointerX.value,
  range: dragged.value ?? store.selection.value.range,
  hovered: store.hovered.value,
  focus: focus.value && { ...focus.value, wake: wakeOf(focus.value.slice) },
  row: row.value,
}));

/** Nanoseconds of one pixel. */
export const pixelNs = () => duration(1 / scale.peek().pxPerNs);

/** Maximum scroll offset of the lanes. */
export const scrollEnd = () =>
  Math.max(
    0,
    rowLayout.peek().height - (canvasGeometry.peek().height - canvasGeometry.peek().head),
  );

export function toggle(section: string): void {
  const header = rowLayout.peek().rows.find((r) => r.key === section);
  const open = header?.kind === "header" && header.open;
  lookedAt.value = section;
  chosen.value = new Map(chosen.peek()).set(section, !open);
}
