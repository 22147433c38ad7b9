/** The edges of the selected range: where they can be grasped, and what a time snaps to. */
import type { Range } from "../units";

/** The pointer may miss an edge by this much. */
const GRASP_PX = 4;
/** An edge jumps to an event that is nearer than this. */
const SNAP_PX = 6;

/** The edge at `x`, if there is one: the nearer one if both are. `xOf` is where a time is drawn. */
export function edgeAt(
  selected: Range | null,
  xOf: (at: number) => number,
  x: number,
): "from" | "to" | null {
  if (selected === null) return null;
  const [from, to] = [Math.abs(xOf(selected.from) - x), Math.abs(xOf(selected.to) - x)];
  if (Math.min(from, to) > GRASP_PX) return null;
  return from < to ? "from" : "to";
}

/** The time to use for `at`: the nearest of `times`, if it is near enough. */
export function snapped(at: number, times: readonly number[], pxPerNs: number): number {
  let best = at;
  let distance = SNAP_PX / pxPerNs;
  for (const time of times) {
    const away = Math.abs(time - at);
    if (away < distance) [best, distance] = [time, away];
  }
  return best;
}
