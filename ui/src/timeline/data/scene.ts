/** Everything that one picture of the timeline is drawn from, and the geometry of its parts. */
import type { Curve, Loss, Series, StallAnswer } from "../../api/types";
import { labelsWidth } from "../../draw/labelsWidth";
import type { Theme } from "../../draw/theme";
import { type Px, px, type Range } from "../../units";
import type { LaneView } from "./decode";
import { type Layout, type Row, rowAt, rowsBetween } from "./layout";
import type { RecordedMark } from "./protocol";
import type { Scale } from "./scale";

/** A thread's name and process. */
export interface ThreadName {
  readonly name: string;
  readonly tid: number;
  readonly process: string;
  readonly processIndex: number;
}

/** The parts of the canvas, in CSS pixels. */
export interface Geometry {
  readonly width: number;
  readonly height: number;
  /** Width of the label column. */
  readonly labels: number;
  readonly axis: { readonly top: number; readonly height: number };
  readonly curve: { readonly top: number; readonly height: number };
  readonly marks: { readonly top: number; readonly height: number };
  /** Top of the lanes. */
  readonly head: number;
}

export function geometry(width: number, height: number): Geometry {
  const labels = labelsWidth(width);
  const curve = height < 220 ? 20 : 34;
  const axis = { top: 0, height: 22 };
  const marks = { top: axis.height + curve, height: 15 };
  return {
    width,
    height,
    labels,
    axis,
    curve: { top: axis.height, height: curve },
    marks,
    head: marks.top + marks.height,
  };
}

export const plotWidth = (g: Geometry): Px => px(Math.max(1, g.width - g.labels));
export const lanesHeight = (g: Geometry): number => Math.max(0, g.height - g.head);

/** A mark that the user set on the page: a point in time or a range. */
export interface PageMark extends Range {
  /** Kept until removed, rather than replaced by the next. */
  readonly kept: boolean;
}

export interface Scene {
  readonly geometry: Geometry;
  readonly theme: Theme;
  readonly scale: Scale;
  readonly layout: Layout;
  readonly scroll: number;
  readonly views: ReadonlyMap<string, LaneView>;
  readonly names: ReadonlyMap<number, ThreadName>;
  readonly curve: Curve | null;
  readonly tracks: ReadonlyMap<string, Series>;
  readonly recordedMarks: readonly RecordedMark[];
  readonly losses: readonly Loss[];
  readonly chain: StallAnswer | null;
  readonly chainLink: number | null;
  readonly pageMarks: readonly PageMark[];
  /** Whether a lane's name matches the search. */
  readonly matches: (name: string) => boolean;
  readonly selected: { readonly threads: readonly number[]; readonly process: number | null };
}

/** The wake-up that ended the current slice. */
export interface FocusWake {
  readonly at: number;
  /** The waker's lane; null if it was not a thread. */
  readonly lane: string | null;
  readonly text: string;
}

/** What changes with each move of the pointer or key press, drawn over the scene. */
export interface Pointing {
  /** On the canvas; null if the pointer is elsewhere. */
  readonly x: number | null;
  readonly range: Range | null;
  readonly hovered: { readonly thread: number | null };
  readonly focus: {
    readonly lane: string;
    readonly from: number;
    readonly to: number;
    readonly wake: FocusWake | null;
  } | null;
  /** The keyboard's current row; null if the timeline does not have the focus. */
  readonly row: string | null;
}

/** A row's top on the canvas. */
export const rowTop = (scene: Scene, row: Row): number =>
  scene.geometry.head + row.top - (row.fixed ? 0 : scene.scroll);

/** A part of the lanes, which its rows are clipped to. */
export interface Pane {
  readonly rows: readonly Row[];
  readonly top: number;
  readonly height: number;
}

/** What is on the screen: the rows that scroll, and over them the pinned ones. */
export function panes({ layout, scroll, geometry: g }: Scene): Pane[] {
  const height = lanesHeight(g);
  const fixed = Math.min(layout.fixed, height);
  return [
    {
      rows: rowsBetween(layout.rows, scroll + fixed, scroll + height).filter((row) => !row.fixed),
      top: g.head + fixed,
      height: height - fixed,
    },
    { rows: rowsBetween(layout.rows, 0, fixed), top: g.head, height: fixed },
  ].filter((pane) => pane.height > 0);
}

/** The row at a height of the canvas. */
export function rowUnder(layout: Layout, scroll: number, y: number): Row | null {
  return layout.rows[rowAt(layout.rows, y < layout.fixed ? y : y + scroll)] ?? null;
}

/** Runs `draw` clipped to a part of the canvas. */
export function clipped(
  ctx: CanvasRenderingContext2D,
  box: { left: number; top: number; width: number; height: number },
  draw: () => void,
): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top, box.width, box.height);
  ctx.clip();
  draw();
  ctx.restore();
}
