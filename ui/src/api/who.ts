/** Formats threads. */
import type { Who } from "./types";

/** `typing 4712 (lab-starve 4711)`; without the process for its main thread of the same name. */
export function whoText(who: Who | null): string {
  if (who === null) return "unknown";
  if (who.tid === 0) return "nobody (idle)";
  if (who.tid < 0) return who.pid < 0 ? who.name : `a thread of ${who.process} ${who.pid}`;
  if (who.tid === who.pid && who.name === who.process) return `${who.name} ${who.tid}`;
  return `${who.name} ${who.tid} (${who.process} ${who.pid})`;
}
