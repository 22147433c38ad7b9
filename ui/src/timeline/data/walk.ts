/** Where `[` and `]` go: along a stall's wait chain, or from a wait to its waker and back. */
import type { ChainLink, Who } from "../../api/types";
import type { Slice } from "./protocol";

/**
 * The next link: `[` (−1) goes back, towards the cause, `]` (1) forward. `from` is null at first.
 */
export function stepLink(
  chain: readonly Pick<ChainLink, "from">[],
  from: number | null,
  by: -1 | 1,
): number | null {
  if (chain.length === 0) return null;
  if (from === null) return by < 0 ? chain.length - 1 : 0;
  return Math.min(Math.max(from + by, 0), chain.length - 1);
}

/** A point in time on a lane. */
export interface LaneTime {
  readonly lane: string;
  readonly at: number;
}

/** Where the wake-up that ended this slice came from; null if the waker is unknown or no thread. */
export function wakerOf(slice: Slice): LaneTime | null {
  const wake = slice.wake;
  if (!wake?.by || wake.by.tid === 0) return null;
  return { lane: `t${wake.by.thread}`, at: wake.at };
}

/** Describes a slice's wake-up: `woken by writer 4713 from task`. */
export function wakeText(slice: Slice, name: (who: Who) => string): string {
  const wake = slice.wake;
  if (!wake) return "";
  const source = wake.source ? ` (${wake.source})` : "";
  return wake.by && wake.by.tid !== 0
    ? `woken by ${name(wake.by)} from ${wake.context}${source}`
    : `woken from ${wake.context}${source}`;
}
