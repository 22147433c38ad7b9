/**
 * Draws lanes into the pixels of one ImageData: slices, and the cells of what is too dense for slices.
 *
 * First each screen column of a lane gets a key (what is seen there), then rows of pixels are looked up. Work is bounded by the
 * pixels of the screen, whatever the trace holds.
 */

import { IDLE, RAN } from "../../draw/states";
import type { LaneView } from "../data/decode";
import type { Scale } from "../data/scale";
import { firstAtLeast, firstEndingAfter } from "../data/sorted";
import { COVER_STEPS, KEYS, keyOf, lookOf, lookOfHue, lookOfState, NOTHING } from "./looks";

/** The hue of a thread on a CPU lane: that of its process. */
export type HueOf = (thread: number) => number;

const FULL = COVER_STEPS - 1;

/** A slice narrower than this has no border, or it would be nothing but border. */
const EDGE_PX = 3;

/** Fills `keys` (one per screen column) for a lane; a column that nothing covers is `NOTHING`. Returns whether anything is there. */
export function keysOf(view: LaneView, scale: Scale, hue: HueOf, keys: Uint16Array): boolean {
  keys.fill(0);
  const cells = cellsInto(view, scale, hue, keys);
  return slicesInto(view, scale, hue, keys) || cells;
}

const isCpu = (view: LaneView): boolean => view.kind === "cpu" || view.kind === "cpu-samples";

function cellsInto(view: LaneView, scale: Scale, hue: HueOf, keys: Uint16Array): boolean {
  const width = keys.length;
  const { cellColumn, cellState, cellCover, cellThread } = view;
  const columnPx = view.columnNs * scale.pxPerNs;
  const origin = scale.x(view.from);
  const cpu = isCpu(view);
  let any = false;
  let first = firstAtLeast(cellColumn, -origin / columnPx - 1);
  for (; first < cellColumn.length; first++) {
    const left = origin + (cellColumn[first] as number) * columnPx;
    if (left >= width) break;
    const from = Math.max(0, Math.round(left));
    // Even a cell that is narrower than a pixel is seen.
    const to = Math.min(width, Math.max(from + 1, Math.round(left + columnPx)));
    const state = cellState[first] as number;
    const level = Math.min(FULL, ((cellCover[first] as number) * COVER_STEPS) >> 8);
    const thread = cellThread[first] as number;
    const look = cpu && state === RAN ? lookOfHue(hue(thread)) : lookOfState(state);
    const key = keyOf(look, state === IDLE ? FULL : level, false);
    for (let x = from; x < to; x++) {
      const before = keys[x] as number;
      // Several cells in one pixel: the one with more in it is shown, and rest never hides work.
      if (before === NOTHING || isIdle(before) || (!isIdle(key) && (before & 7) < level))
        keys[x] = key;
    }
    any = true;
  }
  return any;
}

const IDLE_LOOK = lookOfState(IDLE);
const isIdle = (key: number): boolean => lookOf(key) === IDLE_LOOK;

function slicesInto(view: LaneView, scale: Scale, hue: HueOf, keys: Uint16Array): boolean {
  const width = keys.length;
  const { start, end, state, thread } = view;
  const cpu = isCpu(view);
  let any = false;
  for (let n = firstEndingAfter(end, scale.window.from); n < start.length; n++) {
    const left = scale.x(start[n] as number);
    if (left >= width) break;
    const right = scale.x(end[n] as number);
    const from = Math.max(0, Math.round(left));
    const to = Math.min(width, Math.max(from + 1, Math.round(right)));
    const code = state[n] as number;
    const look = cpu && code === RAN ? lookOfHue(hue(thread[n] as number)) : lookOfState(code);
    keys.fill(keyOf(look, FULL, false), from, to);
    if (left >= 0 && right - left >= EDGE_PX && code !== IDLE) keys[from] = keyOf(look, FULL, true);
    any = true;
  }
  return any;
}

/** Writes the lane's pixels: `out` is an image `stride` wide, the lane lies from row `top`, clipped to the image. */
export function blit(
  keys: Uint16Array,
  table: Uint32Array,
  height: number,
  out: Uint32Array,
  stride: number,
  top: number,
): void {
  const rows = Math.floor(out.length / stride);
  const width = Math.min(keys.length, stride);
  for (let y = Math.max(0, -top); y < height && top + y < rows; y++) {
    const base = y * KEYS * 8;
    const line = (top + y) * stride;
    for (let x = 0; x < width; x++) {
      const key = keys[x] as number;
      if (key !== NOTHING) out[line + x] = table[base + (key << 3) + (x & 7)] as number;
    }
  }
}

/** Marks where samples are: a short line at the lane's foot per column that holds one. */
export function samplesInto(
  view: LaneView,
  scale: Scale,
  ink: number,
  out: Uint32Array,
  stride: number,
  width: number,
  foot: number,
): void {
  const rows = Math.floor(out.length / stride);
  const put = (x: number, tall: number) => {
    if (x < 0 || x >= width) return;
    for (let y = Math.max(0, foot - tall); y < foot && y < rows; y++) out[y * stride + x] = ink;
  };
  const { cellColumn, cellCover, start } = view;
  const columnPx = view.columnNs * scale.pxPerNs;
  const origin = scale.x(view.from);
  for (let n = firstAtLeast(cellColumn, -origin / columnPx - 1); n < cellColumn.length; n++) {
    const left = origin + (cellColumn[n] as number) * columnPx;
    if (left >= width) break;
    put(Math.floor(left + columnPx / 2), (cellCover[n] as number) > 1 ? 3 : 2);
  }
  for (let n = firstEndingAfter(view.end, scale.window.from); n < start.length; n++) {
    const x = Math.floor(scale.x(start[n] as number));
    if (x >= width) break;
    put(x, 2);
  }
}
