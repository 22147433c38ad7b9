/**
 * Rasterises lanes into an `ImageData`: slices, and cells for what is too dense for slices.
 *
 * First each screen column of a lane gets a key (what to show there), then its pixels are looked
 * up. The work is bounded by the pixels of the screen, whatever the trace contains.
 */

import { IDLE, RAN } from "../../draw/states";
import type { LaneView } from "../data/decode";
import type { Scale } from "../data/scale";
import { firstAtLeast, firstEndingAfter } from "../data/sorted";
import { COVER_STEPS, KEYS, keyOf, lookOf, lookOfHue, lookOfState, NOTHING } from "./looks";

/** The hue of a thread on a CPU lane: its process's. */
export type HueOf = (thread: number) => number;

const FULL = COVER_STEPS - 1;

/** A narrower slice has no border: it would be all border. */
const EDGE_PX = 3;

/**
 * Fills `keys`, one per screen column, with `NOTHING` where the lane is empty. Returns if it is
 * not.
 */
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
    // A cell is visible even if it is narrower than a pixel.
    const to = Math.min(width, Math.max(from + 1, Math.round(left + columnPx)));
    const state = cellState[first] as number;
    const cover = Math.min(FULL, ((cellCover[first] as number) * COVER_STEPS) >> 8);
    const thread = cellThread[first] as number;
    const look = cpu && state === RAN ? lookOfHue(hue(thread)) : lookOfState(state);
    const key = keyOf(look, state === IDLE ? FULL : cover, false);
    for (let x = from; x < to; x++) {
      const before = keys[x] as number;
      // Of several cells in one pixel, the fullest is shown; idle never hides anything else.
      if (before === NOTHING || isIdle(before) || (!isIdle(key) && (before & 7) < cover))
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

/** Writes a lane's pixels from row `top` of `out`, an image `stride` wide; clips to the image. */
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

/** Draws samples: a short tick at the lane's bottom for each column with a sample. */
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
