/**
 * The time window on the screen: its mapping to pixels, panning and zooming.
 *
 * All functions keep the window within the trace and at least `MIN_WINDOW_NS` long: nothing in a
 * recording is shorter than that.
 */
import { type Ns, type Px, type Range, range } from "../../units";

export const MIN_WINDOW_NS = 200;

const length = (r: Range): number => r.to - r.from;

/** Moves the window into the trace, keeping its length if the trace allows. */
export function within(r: Range, whole: Range): Range {
  const max = Math.max(length(whole), 1);
  const min = Math.min(MIN_WINDOW_NS, max);
  const wanted = Math.min(Math.max(length(r), min), max);
  const from = Math.min(
    Math.max(r.from - (wanted - length(r)) / 2, whole.from),
    whole.from + max - wanted,
  );
  return range(from, from + wanted);
}

/** Zooms by `factor` (below 1: in), keeping the time `at` in its place on the screen. */
export function zoom(r: Range, factor: number, at: number, whole: Range): Range {
  const wanted = Math.min(
    Math.max(length(r) * factor, MIN_WINDOW_NS),
    Math.max(length(whole), MIN_WINDOW_NS),
  );
  const share = (at - r.from) / Math.max(length(r), 1);
  const from = at - share * wanted;
  return within(range(from, from + wanted), whole);
}

/** Moves by a share of the window's length; positive is later. */
export function pan(r: Range, share: number, whole: Range): Range {
  const by = length(r) * share;
  return within(range(r.from + by, r.to + by), whole);
}

/** Moves the window to show a range: not at all if it is visible, and widened if it is longer. */
export function reveal(r: Range, what: Range, whole: Range): Range {
  if (what.from >= r.from && what.to <= r.to) return r;
  const wanted = Math.max(length(r), length(what) * 1.2);
  const middle = (what.from + what.to) / 2;
  return within(range(middle - wanted / 2, middle + wanted / 2), whole);
}

/** Maps a window to a width in CSS pixels. */
export class Scale {
  readonly pxPerNs: number;

  constructor(
    readonly window: Range,
    readonly width: Px,
  ) {
    this.pxPerNs = width / Math.max(length(window), 1);
  }

  x(at: number): Px {
    return ((at - this.window.from) * this.pxPerNs) as Px;
  }

  at(x: number): Ns {
    return (this.window.from + x / this.pxPerNs) as Ns;
  }
}
