/**
 * Where the arrows of a wait chain run: from the waker's lane to the woken one's at the moment of the wake-up, with labels that do not
 * lie on each other.
 */

import type { Evidence } from "../../api/types";
import type { Px } from "../../units";
import type { Scale } from "../data/scale";

/** One wake-up between two lanes of the chain. */
export interface Wake {
  readonly at: number;
  /** The rows, by their middle line in pixels; `null` when the waker has no lane (an interrupt, a thread that is not shown). */
  readonly fromY: number | null;
  readonly toY: number;
  readonly label: string;
  readonly evidence: Evidence;
  /** Ends the victim's wait, or the link that is looked at: drawn strongly and labelled, the others faintly. */
  readonly strong: boolean;
}

export interface Arrow {
  /** Where the first and the last of them are; the head is at the last. */
  readonly fromX: Px;
  readonly x: Px;
  readonly fromY: number;
  readonly toY: number;
  readonly evidence: Evidence;
  readonly strong: boolean;
  /** How many wake-ups it stands for; they fell into the same pixels. */
  readonly count: number;
  /** The first of them, as an index into the wakes given. */
  readonly first: number;
  readonly label: {
    readonly text: string;
    readonly x: Px;
    readonly y: number;
    readonly width: number;
  } | null;
}

/** Arrows nearer than this are drawn as one. */
const MERGE_PX = 5;
/** Where there are more than these between two lanes, runs of them are drawn as one band: a fence of arrows would hide the lanes. */
const DENSE_COUNT = 12;
const DENSE_MERGE_PX = 25;
const LABEL_HEIGHT_PX = 14;
const LABEL_GAP_PX = 6;
/** Labels of arrows between the same lanes are at least so far apart. */
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

/** Routes every wake-up in the scale's span; `measure` gives a text's width. The order of the result is the order of time. */
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
  // The last wake-up ends the stall: it gets its label first, then backwards in time.
  const labels = new Map<number, Arrow["label"]>();
  const labelledAt = new Map<string, number>();
  for (let n = merged.length - 1; n >= 0; n--) {
    const { wake, index, x, count } = merged[n] as (typeof merged)[number];
    const pair = pairOf(wake);
    // A row of like arrows is labelled once in a while: the same words side by side tell nothing.
    if (Math.abs((labelledAt.get(pair) ?? Infinity) - x) < MIN_LABEL_DISTANCE_PX) continue;
    const text = count > 1 ? `${wake.label} × ${count}` : wake.label;
    if (text === "" || !wake.strong) continue;
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

/** An arrow out of nowhere still has a shaft. */
const STUB_PX = 18;

/** Tries right and left of the shaft at a few heights; a label that fits nowhere is left out rather than drawn over another. */
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
