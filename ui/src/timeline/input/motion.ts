/** Smooth panning and zooming while a key is held: how far the window moves in a frame. */
import type { Range } from "../../units";
import { pan, zoom } from "../data/scale";

export interface Held {
  /** -1 zooms in, 1 out. */
  readonly zoom: -1 | 0 | 1;
  readonly pan: -1 | 0 | 1;
}

export const STILL: Held = { zoom: 0, pan: 0 };

/** Screens per second. */
const PAN_SPEED = 1.2;
/** The window's length doubles or halves so many times in a second. */
const ZOOM_SPEED = 3.2;

/** The window after `ms` milliseconds of held keys; zooming keeps `at` in its place. */
export function moved(window: Range, held: Held, ms: number, at: number, whole: Range): Range {
  // A frame that came very late must not throw the window across the trace.
  const seconds = Math.min(ms, 50) / 1000;
  let out = window;
  if (held.zoom !== 0) out = zoom(out, 2 ** (held.zoom * ZOOM_SPEED * seconds), at, whole);
  if (held.pan !== 0) out = pan(out, held.pan * PAN_SPEED * seconds, whole);
  return out;
}

/** One press of a key without holding it, or with reduced motion. */
export function stepped(window: Range, held: Held, at: number, whole: Range): Range {
  let out = window;
  if (held.zoom !== 0) out = zoom(out, held.zoom < 0 ? 1 / 1.5 : 1.5, at, whole);
  if (held.pan !== 0) out = pan(out, held.pan * 0.2, whole);
  return out;
}

/** The factor of a turn of the wheel; `lines` says that the browser counts lines rather than pixels. */
export function wheelZoom(delta: number, lines: boolean): number {
  const px = Math.max(-400, Math.min(400, delta * (lines ? 33 : 1)));
  return Math.exp(px * 0.002);
}

/** Where F goes: to the first of the candidates, or to the next when it is shown already; at last to the whole. */
export function nextFit(window: Range, candidates: readonly Range[], whole: Range): Range {
  const same = (a: Range, b: Range) =>
    Math.abs(a.from - b.from) + Math.abs(a.to - b.to) < (b.to - b.from) * 0.01;
  const targets = [...candidates.map((c) => margin(c, whole)), whole];
  const here = targets.findIndex((target) => same(window, target));
  return targets[(here + 1) % targets.length] ?? whole;
}

function margin(r: Range, whole: Range): Range {
  return zoom(r, 1.16, (r.from + r.to) / 2, whole);
}
