/** Lays out the stalls of the overview: in time order, stacked in rows where they overlap. */
import type { StallEntry } from "../api/types";
import type { Range } from "../units";

export interface Bar {
  readonly stall: StallEntry;
  readonly x: number;
  readonly width: number;
  readonly row: number;
}

/** A narrower bar could not be seen or clicked. */
const MIN_WIDTH_PX = 4;

/**
 * The worst stalls get the first rows. Those that fit in none of `rows` rows share the last one.
 */
export function pack(
  stalls: readonly StallEntry[],
  extent: Range,
  width: number,
  rows: number,
): Bar[] {
  const scale = width / Math.max(1, extent.to - extent.from);
  const taken: [number, number][][] = Array.from({ length: rows }, () => []);
  const worstFirst = [...stalls].sort((a, b) => b.severity - a.severity || a.id - b.id);
  return worstFirst.map((stall) => {
    const w = Math.max(MIN_WIDTH_PX, (stall.to - stall.from) * scale);
    const x = Math.max(0, Math.min((stall.from - extent.from) * scale, width - w));
    const free = taken.findIndex((row) => row.every(([from, to]) => x + w <= from || x >= to));
    const row = free < 0 ? rows - 1 : free;
    taken[row]?.push([x, x + w + 1]);
    return { stall, x, width: w, row };
  });
}

/** The area under a step curve, as an SVG path; values from 0 to `top`. */
export function area(
  values: readonly number[],
  top: number,
  width: number,
  height: number,
): string {
  if (values.length === 0 || top <= 0) return "";
  const step = width / values.length;
  const at = (value: number) => (height - (Math.min(value, top) / top) * height).toFixed(1);
  let path = `M0 ${height}`;
  for (const [i, value] of values.entries()) {
    path += `L${(i * step).toFixed(1)} ${at(value)}L${((i + 1) * step).toFixed(1)} ${at(value)}`;
  }
  return `${path}L${width} ${height}Z`;
}
