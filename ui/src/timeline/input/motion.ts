/** Panning and zooming by keys and wheel: how far the window moves. */
import { type Range, range } from "../../units";
import { pan, within, zoom } from "../data/scale";

export interface Held {
  /** −1 zooms in, 1 out. */
  readonly zoom: -1 | 0 | 1;
  readonly pan: -1 | 0 | 1;
}

export const STILL: Held = { zoom: 0, pan: 0 };

/** In screens per second. */
const PAN_SPEED = 1.2;
/** How often per second the window's length doubles or halves. */
const ZOOM_SPEED = 3.2;

/** The window after keys were held for `ms` milliseconds; zooming keeps `at` in place. */
export function moved(window: Range, held: Held, ms: number, at: number, whole: Range): Range {
  // A late frame must not throw the window across the trace.
  const seconds = Math.min(ms, 50) / 1000;
  let out = window;
  if (held.zoom !== 0) out = zoom(out, 2 ** (held.zoom * ZOOM_SPEED * seconds), at, whole);
  if (held.pan !== 0) out = pan(out, held.pan * PAN_SPEED * seconds, whole);
  return out;
}

/** The window after one press of a key. */
export function stepped(window: Range, held: Held, at: number, whole: Range): Range {
  let out = window;
  if (held.zoom !== 0) out = zoom(out, held.zoom < 0 ? 1 / 1.5 : 1.5, at, whole);
  if (held.pan !== 0) out = pan(out, held.pan * 0.2, whole);
  return out;
}

/** The zoom factor of a wheel event; `lines`: the browser counts lines instead of pixels. */
export function wheelZoom(delta: number, lines: boolean): number {
  const px = Math.max(-400, Math.min(400, delta * (lines ? 33 : 1)));
  return Math.exp(px * 0.002);
}

/** In CSS pixels. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Two fingers on the screen: where their middle is, and how far they are apart. */
export interface Fingers {
  readonly x: number;
  readonly y: number;
  readonly apart: number;
}

/** Fingers that are nearer than this would zoom by any factor. */
const MIN_APART_PX = 10;

export function fingers([a, b]: readonly [Point, Point]): Fingers {
  return {
    x: (a.x + b.x) / 2,
    y: (a.y + b.y) / 2,
    apart: Math.max(MIN_APART_PX, Math.hypot(a.x - b.x, a.y - b.y)),
  };
}

/**
 * The window after two fingers moved: what was in their middle stays there. `at` is the time in
 * their middle before.
 */
export function pinched(
  window: Range,
  [before, after]: readonly [Fingers, Fingers],
  at: number,
  pxPerNs: number,
  whole: Range,
): Range {
  const zoomed = zoom(window, before.apart / after.apart, at, whole);
  const by =
    ((after.x - before.x) / pxPerNs) * ((zoomed.to - zoomed.from) / (window.to - window.from));
  return within(range(zoomed.from - by, zoomed.to - by), whole);
}

/**
 * Where F goes: to the first candidate, or the one after the candidate shown; at last to the whole.
 */
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
