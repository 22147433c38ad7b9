/** What times on a lane snap to. */
import type { LaneView } from "../data/decode";
import { firstAtLeast } from "../data/sorted";

/** The start or end of a slice next to `at`, in a list; an empty one if the lane has none. */
export function boundaries(view: LaneView | undefined, at: number): number[] {
  if (view === undefined) return [];
  return [view.start, view.end].flatMap((times) => {
    const after = firstAtLeast(times, at);
    return [times[after - 1], times[after]].filter((time) => time !== undefined);
  });
}
