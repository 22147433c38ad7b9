/**
 * Decides what to request next: the lanes on the screen, with a margin of one screen on each side.
 *
 * Until better data arrives, the old is drawn scaled. A request is cancelled only if its answer
 * would be useless.
 */
import { type Range, range } from "../../units";
import type { LaneView } from "./decode";
import { type Lane, type Row, rowsBetween } from "./layout";

/** The server's limits (docs/page-protocol.md). */
export const MAX_COLUMNS = 8192;
export const MAX_LANES = 512;

export interface ViewRequest {
  readonly from: number;
  readonly to: number;
  readonly columns: number;
  readonly lanes: readonly string[];
}

/**
 * The window with a margin, clipped to the trace, in whole columns so that panning does not
 * shimmer.
 */
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

/**
 * Maximum ratio of data to screen columns; beyond it, data looks coarse or hides slices in cells.
 */
const SCALE_SLACK = 1.02;

/** The range and resolution of a lane's data. */
type Extent = Pick<LaneView, "from" | "to" | "columnNs">;

/** Whether a lane's data is as good for this window as a new answer would be. */
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

/** Whether the data fits and still has half a screen of margin on both sides. */
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

/** The next request, or null if the data near the screen is good enough. */
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

/**
 * Whether a request's answer is still useful: at about this scale, and showing part of the window.
 */
export function stillUseful(asked: ViewRequest, window: Range, width: number): boolean {
  const ratio =
    (asked.to - asked.from) / asked.columns / ((window.to - window.from) / Math.max(1, width));
  return ratio < 2.5 && ratio > 0.4 && asked.from < window.to && asked.to > window.from;
}

/** Drops lanes that are not near the screen while there are more than `max`. */
export function forget(have: Map<string, LaneView>, near: ReadonlySet<string>, max = 400): void {
  if (have.size <= max) return;
  for (const lane of [...have.keys()]) {
    if (!near.has(lane)) have.delete(lane);
    if (have.size <= max) return;
  }
}

/** Lanes near the screen, with their samples: those on it first, then a screen below and above. */
export function nearLanes(
  rows: readonly Row[],
  scroll: number,
  height: number,
  sampled: ReadonlySet<string>,
): string[] {
  const out = new Set<string>();
  const add = ({ id, kind }: Lane) => {
    if (kind === "track") return;
    out.add(id);
    if (sampled.has(id)) out.add(`s${id}`);
  };
  for (const row of rows) {
    if (!row.fixed) break;
    if (row.kind === "lane") add(row.lane);
  }
  for (const [top, bottom] of [
    [scroll, scroll + height],
    [scroll + height, scroll + 2 * height],
    [scroll - height, scroll],
  ] as const) {
    if (bottom <= 0) continue;
    for (const row of rowsBetween(rows, top, bottom)) {
      if (row.kind === "lane") add(row.lane);
    }
  }
  return [...out];
}
