/** The JSON of `members` (docs/page-protocol.md). */
import type { Ns, ProcessIx, ThreadIx } from "../units";

/** Whom a group of a table is about. */
export interface Members {
  threads: ThreadIx[];
  processes: ProcessIx[];
  /** There are more threads than were sent. */
  more: boolean;
  from: Ns | null;
  to: Ns | null;
}
