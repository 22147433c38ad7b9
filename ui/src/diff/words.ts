/** Words of a comparison. */
import type { NamedWho } from "../api/diff";

export function nameOf(who: NamedWho | null): string {
  if (who === null) return "";
  return who.thread === "" || who.thread === who.process
    ? who.process
    : `${who.thread} of ${who.process}`;
}
