/** Words and signed numbers of a comparison. */
import type { NamedWho } from "../api/diff";
import { durationText } from "../units";

/** A duration with its sign, which a difference always has. */
export function signed(ns: number): string {
  if (ns === 0) return "±0";
  return `${ns > 0 ? "+" : "−"}${durationText(Math.abs(ns))}`;
}

export function nameOf(who: NamedWho | null): string {
  if (who === null) return "";
  return who.thread === "" || who.thread === who.process
    ? who.process
    : `${who.thread} of ${who.process}`;
}
