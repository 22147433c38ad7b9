/**
 * What to ask the server for next: the lanes on the screen, and one screen of margin on every side.
 *
 * What is known already may be drawn scaled until better data comes; a request is given up only when its answer would be of no use.
 */
import { type Range, range } from "../../units";
import type { LaneView } from "./decode";
import { type Row, rowsBetween } from "./layout";

/** The server's limits (docs/page-protocol.md). */
export const MAX_COLUMNS = 8192;
export const MAX_LANES = 512;

export interface ViewRequest {
  readonly from: number;
  readonly to: number;
  readonly columns: number;
  readonly lanes: readonly string[];
}

/** The window with its margin, cut at the trace, on whole columns so that panning does not make the picture shimmer. */
export function withMargin(
  window: Range,
  width: number,
  whole: Range,
): { from: number; to: number; columns: number } {
  const px = Math.max(1, Math.round(width));
  const column = Math.max((window.to - window.from) / px, 1e-3);
  const margin = Math.max(0, Math.min(px, Math.floor((MAX_COLUMNS - px) / 2) - 1));
  const first = Math.max(
    Math.floor(window.from / column) - margin,
    Math.floor(whole.from / column),
  );
  const last = Math.min(Math.ceil(window.to / column) + margin, Math.ceil(whole.to / column));
  const columns = Math.max(1, Math.min(MAX_COLUMNS, last - first));
  return { from: first * column, to: (first + columns) * column, columns };
}

/** How far the data's columns may be off the screen's before they look coarse, or hide what should be slices. */
const SCALE_SLACK = 1.02;

/** What of known data tells whether it fits. */
type Extent = Pick<LaneView, "from" | "to" | "columnNs">;

/** Whether a lane's data is as good as a new answer for this window. */
export function fits(
  view: Extent | undefined,
  window: Range,
  width: number,
  whole: Range,
): boolean {
  if (!view) return false;
  const column = (window.to - window.from) / Math.max(1, Math.round(width));
  const ratio = view.columnNs / column;
  if (ratio > SCALE_SLACK || ratio < 1 / SCALE_SLACK) return false;
  return (
    view.from <= Math.max(window.from, whole.from) + column &&
    view.to >= Math.min(window.to, whole.to) - column
  );
}

/** Fits, and there is still half a screen of margin on both sides. */
export function fitsWell(
  view: Extent | undefined,
  window: Range,
  width: number,
  whole: Range,
): boolean {
  const half = (window.to - window.from) / 2;
  const wide = range(
    Math.max(window.from - half, whole.from),
    Math.min(window.to + half, whole.to),
  );
  if (!fits(view, window, width, whole) || !view) return false;
  const column = view.columnNs;
  return view.from <= wide.from + column && view.to >= wide.to - column;
}

/** What to ask for, or null when everything near the screen is known well enough. */
export function nextRequest(
  have: ReadonlyMap<string, LaneView>,
  near: readonly string[],
  window: Range,
  width: number,
  whole: Range,
): ViewRequest | null {
  const lanes = near
    .filter((lane) => !fitsWell(have.get(lane), window, width, whole))
    .slice(0, MAX_LANES);
  if (lanes.length === 0) return null;
  return { ...withMargin(window, width, whole), lanes };
}

/** Whether the answer to a request under way is still worth its wait: it is of about this scale, and shows part of the window. */
export function stillUseful(asked: ViewRequest, window: Range, width: number): boolean {
  const ratio =
    (asked.to - asked.from) / asked.columns / ((window.to - window.from) / Math.max(1, width));
  return ratio < 2.5 && ratio > 0.4 && asked.from < window.to && asked.to > window.from;
}

/** Forgets lanes that are far from the screen when there are more than `most`. */
export function forget(have: Map<string, LaneView>, near: ReadonlySet<string>, max = 400): void {
  if (have.size <= max) return;
  for (const lane of [...have.keys()]) {
    if (!near.has(lane)) have.delete(lane);
    if (have.size <= max) return;
  }
}

/** The lanes near the screen: those on it first, then a screen below and above; with samples where there are any. */
export function nearLanes(
  rows: readonly Row[],
  scroll: number,
  height: number,
  sampled: ReadonlySet<string>,
): string[] {
  const out = new Set<string>();
  for (const [top, bottom] of [
    [scroll, scroll + height],
    [scroll + height, scroll + 2 * height],
    [scroll - height, scroll],
  ] as const) {
    if (bottom <= 0) continue;
    for (const row of rowsBetween(rows, top, bottom)) {
      if (row.kind !== "lane") continue;
      out.add(row.lane.id);
      if (sampled.has(row.lane.id)) out.add(`s${row.lane.id}`);
    }
  }
  return [...out];
}
