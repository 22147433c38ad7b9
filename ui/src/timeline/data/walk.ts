/** Where `[` and `]` go: along the links of a stall's chain, or from a wait to the thread that ended it and back. */
import type { ChainLink, Who } from "../../api/types";
import type { Slice } from "./protocol";

/** The next link of the chain: `[` goes back to the cause, `]` on to the end. `from` is null before the first step. */
export function stepLink(
  chain: readonly Pick<ChainLink, "from">[],
  from: number | null,
  by: -1 | 1,
): number | null {
  if (chain.length === 0) return null;
  if (from === null) return by < 0 ? chain.length - 1 : 0;
  return Math.min(Math.max(from + by, 0), chain.length - 1);
}

/** A place on a lane that was walked from. */
export interface LaneTime {
  readonly lane: string;
  readonly at: number;
}

/** Where the wake-up that ended this slice came from; null when nobody is known to have done it. */
export function wakerOf(slice: Slice): LaneTime | null {
  const wake = slice.wake;
  if (!wake || !wake.by || wake.by.tid === 0) return null;
  return { lane: `t${wake.by.thread}`, at: wake.at };
}

/** What a slice's wake-up was, for the label and the mirror: `woken by writer 4713 from task`. */
export function wakeText(slice: Slice, name: (who: Who) => string): string {
  const wake = slice.wake;
  if (!wake) return "";
  const source = wake.source ? ` (${wake.source})` : "";
  return wake.by && wake.by.tid !== 0
    ? `woken by ${name(wake.by)} from ${wake.context}${source}`
    : `woken from ${wake.context}${source}`;
}
