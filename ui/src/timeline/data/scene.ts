/** Everything that one picture of the timeline is made from, and where its parts lie. */
import type { Curve, Loss, StallAnswer } from "../../api/types";
import type { Theme } from "../../draw/theme";
import { type Px, px, type Range } from "../../units";
import type { LaneView } from "./decode";
import type { Layout, Row } from "./layout";
import type { RecordedMark } from "./protocol";
import type { Scale } from "./scale";

/** What threads are called, by their index. */
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
  /** Width of the column with the lanes' names. */
  readonly labels: number;
  readonly axis: { readonly top: number; readonly height: number };
  readonly curve: { readonly top: number; readonly height: number };
  readonly marks: { readonly top: number; readonly height: number };
  /** Where the lanes begin. */
  readonly head: number;
}

export function geometry(width: number, height: number): Geometry {
  // A third of a narrow picture would be too much for names, and long names would not gain from more.
  const labels = Math.round(Math.min(240, Math.max(120, width * 0.16)));
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

/** A moment or stretch that the user marked. */
export interface PageMark extends Range {
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
  readonly recordedMarks: readonly RecordedMark[];
  readonly losses: readonly Loss[];
  readonly chain: StallAnswer | null;
  readonly chainLink: number | null;
  readonly pageMarks: readonly PageMark[];
  /** The lanes whose names match what is searched. */
  readonly matches: (name: string) => boolean;
  readonly selected: { readonly thread: number | null; readonly process: number | null };
}

/** What ended the slice that is looked at. */
export interface FocusWake {
  readonly at: number;
  /** The waker's lane; null when it was no thread. */
  readonly lane: string | null;
  readonly text: string;
}

/** What changes with every move of the pointer, drawn over the scene. */
export interface Pointing {
  /** In the canvas; null when the pointer is elsewhere. */
  readonly x: number | null;
  readonly range: Range | null;
  readonly hovered: { readonly thread: number | null; readonly process: number | null };
  readonly focus: {
    readonly lane: string;
    readonly from: number;
    readonly to: number;
    readonly wake: FocusWake | null;
  } | null;
  /** The row that the keyboard is on; null when the timeline has no focus. */
  readonly row: string | null;
}

/** The top of a row on the canvas. */
export const rowTop = (scene: Scene, row: Row): number =>
  scene.geometry.head + row.top - scene.scroll;
