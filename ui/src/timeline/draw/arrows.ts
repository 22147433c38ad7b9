/**
 * Routes the arrows of a wait chain, from the waker's lane to the woken thread's at the time of the
 * wake-up, and places their labels without overlap.
 */

import type { Evidence } from "../../api/types";
import { type Px, plural } from "../../units";
import type { Scale } from "../data/scale";

/** One wake-up between two lanes of the chain. */
export interface Wake {
  readonly at: number;
  /** Middle of the waker's row in pixels; `null` if it has none (interrupt, thread not shown). */
  readonly fromY: number | null;
  /** Middle of the woken thread's row. */
  readonly toY: number;
  /** What follows `woken`: by whom, and how it is known. */
  readonly label: string;
  readonly evidence: Evidence;
  /**
   * Ends the victim's wait or the current link: drawn strong and with a label, unlike the others.
   */
  readonly strong: boolean;
}

export interface Arrow {
  /** Positions of the first and the last wake-up; the head is at the last. */
  readonly fromX: Px;
  readonly x: Px;
  readonly fromY: number;
  readonly toY: number;
  readonly evidence: Evidence;
  readonly strong: boolean;
  /** Number of wake-ups it stands for, too close to draw one by one. */
  readonly count: number;
  /** Index of the first of them in the list of wakes. */
  readonly first: number;
  readonly label: {
    readonly text: string;
    readonly x: Px;
    readonly y: number;
    readonly width: number;
  } | null;
}

/** Arrows closer than this are merged. */
const MERGE_PX = 5;
/**
 * Above this many arrows between two lanes, runs of them become bands: a fence would hide the
 * lanes.
 */
const DENSE_COUNT = 12;
const DENSE_MERGE_PX = 25;
const LABEL_HEIGHT_PX = 14;
const LABEL_GAP_PX = 6;
/** The pointer may miss an arrow by this much. */
const SLACK_PX = 4;

/** The arrow nearest to a point of the plot, within the arrows' reach. */
export function nearestArrow(arrows: readonly Arrow[], x: number, y: number): Arrow | null {
  const distance = ({ fromX, x: toX }: Arrow) => Math.max(fromX - x, x - toX, 0);
  const near = arrows.filter(
    (arrow) =>
      distance(arrow) <= SLACK_PX &&
      y >= Math.min(arrow.fromY, arrow.toY) &&
      y <= Math.max(arrow.fromY, arrow.toY),
  );
  return near.sort((a, b) => distance(a) - distance(b))[0] ?? null;
}

/** Minimum distance between labels of arrows between the same lanes. */
const MIN_LABEL_DISTANCE_PX = 140;

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const apart = (a: Box, b: Box): boolean =>
  a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;

const DOUBT: { readonly [evidence in Evidence]: number } = { direct: 0, inferred: 1, lost: 2 };

/** Routes every wake-up within the scale's window, in time order. */
export function route(
  wakes: readonly Wake[],
  scale: Scale,
  measure: (text: string) => number,
): Arrow[] {
  const order = wakes
    .map((wake, index) => ({ wake, index }))
    .filter(({ wake }) => wake.at >= scale.window.from && wake.at <= scale.window.to)
    .sort((a, b) => a.wake.at - b.wake.at || a.index - b.index);
  const pairOf = (wake: Wake): string => `${wake.fromY}>${wake.toY}${wake.strong ? "!" : ""}`;
  const countByPair = new Map<string, number>();
  for (const { wake } of order)
    countByPair.set(pairOf(wake), (countByPair.get(pairOf(wake)) ?? 0) + 1);
  const merged: {
    wake: Wake;
    index: number;
    fromX: number;
    x: number;
    count: number;
    evidence: Evidence;
  }[] = [];
  const last = new Map<string, (typeof merged)[number]>();
  for (const { wake, index } of order) {
    const x = scale.x(wake.at);
    const pair = pairOf(wake);
    const before = last.get(pair);
    if (
      before &&
      x - before.x < ((countByPair.get(pair) ?? 0) > DENSE_COUNT ? DENSE_MERGE_PX : MERGE_PX)
    ) {
      before.count++;
      before.x = x;
      if (DOUBT[wake.evidence] > DOUBT[before.evidence]) before.evidence = wake.evidence;
      continue;
    }
    const entry = { wake, index, fromX: x, x, count: 1, evidence: wake.evidence };
    merged.push(entry);
    last.set(pair, entry);
  }
  const taken: Box[] = [];
  // Labels are placed backwards in time: the last wake-up, which ends the stall, must get one.
  const labels = new Map<number, Arrow["label"]>();
  const labelledAt = new Map<string, number>();
  for (let n = merged.length - 1; n >= 0; n--) {
    const { wake, index, x, count } = merged[n] as (typeof merged)[number];
    const pair = pairOf(wake);
    // Of a row of similar arrows, only some get a label: repeating it would add nothing.
    if (Math.abs((labelledAt.get(pair) ?? Infinity) - x) < MIN_LABEL_DISTANCE_PX) continue;
    if (wake.label === "" || !wake.strong) continue;
    const times = count > 1 ? ` ${plural(count, "time")}` : "";
    const text = `woken${times} ${wake.label}`;
    const label = placeLabel(text, x, wake, scale.width, measure(text), taken);
    if (label) labelledAt.set(pair, x);
    labels.set(index, label);
  }
  return merged.map(({ wake, index, fromX, x, count, evidence }) => ({
    fromX: fromX as Px,
    x: x as Px,
    fromY: wake.fromY ?? wake.toY + STUB_PX,
    toY: wake.toY,
    evidence,
    strong: wake.strong,
    count,
    first: index,
    label: labels.get(index) ?? null,
  }));
}

/** Length of an arrow without a waker's row. */
const STUB_PX = 18;

/** Tries right and left of the shaft at a few heights. A label that fits nowhere is omitted. */
function placeLabel(
  text: string,
  x: number,
  wake: Wake,
  screen: number,
  width: number,
  taken: Box[],
): Arrow["label"] {
  const from = wake.fromY ?? wake.toY + STUB_PX;
  const middle = (from + wake.toY) / 2;
  for (const dy of [0, LABEL_HEIGHT_PX, -LABEL_HEIGHT_PX]) {
    for (const left of [x + LABEL_GAP_PX, x - LABEL_GAP_PX - width]) {
      const box = {
        left,
        right: left + width,
        top: middle + dy - LABEL_HEIGHT_PX / 2,
        bottom: middle + dy + LABEL_HEIGHT_PX / 2,
      };
      if (left < 0 || box.right > screen) continue;
      if (taken.every((other) => apart(box, other))) {
        taken.push(box);
        return { text, x: left as Px, y: middle + dy, width };
      }
    }
  }
  return null;
}
