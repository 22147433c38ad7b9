/** The edges of the selected range: where they can be grasped, and what they snap to. */
import type { Range } from "../../units";
import type { LaneView } from "../data/decode";
import type { Scale } from "../data/scale";
import { firstAtLeast } from "../data/sorted";

/** The pointer may miss an edge by this much. */
const GRASP_PX = 4;
/** An edge jumps to an event that is nearer than this. */
const SNAP_PX = 6;

/** The edge at `x`, if there is one: the nearer one if both are. */
export function edgeAt(selected: Range | null, scale: Scale, x: number): "from" | "to" | null {
  if (selected === null) return null;
  const [from, to] = [Math.abs(scale.x(selected.from) - x), Math.abs(scale.x(selected.to) - x)];
  if (Math.min(from, to) > GRASP_PX) return null;
  return from < to ? "from" : "to";
}

/** The start or end of a slice next to `at`; null if the lane has none. */
function nearestBoundary(view: LaneView, at: number): number | null {
  let best: number | null = null;
  for (const times of [view.start, view.end]) {
    const after = firstAtLeast(times, at);
    for (const time of [times[after - 1], times[after]]) {
      if (time !== undefined && (best === null || Math.abs(time - at) < Math.abs(best - at)))
        best = time;
    }
  }
  return best;
}

/** The time to use for `at`: that of an event near it, on this lane or one of `others`. */
export function snapped(
  at: number,
  view: LaneView | undefined,
  others: readonly number[],
  scale: Scale,
): number {
  const boundary = view ? nearestBoundary(view, at) : null;
  const candidates = boundary === null ? others : [boundary, ...others];
  let best = at;
  let distance = SNAP_PX / scale.pxPerNs;
  for (const time of candidates) {
    const away = Math.abs(time - at);
    if (away < distance) [best, distance] = [time, away];
  }
  return best;
}
