/** Server answers that only the timeline uses (docs/page-protocol.md). */
import type { Loss, StackRef, Wake, Who } from "../../api/types";
import type { Ns } from "../../units";

export interface RecordedMark {
  time: Ns;
  to: Ns | null;
  kind: string;
  label: string;
  who: Who | null;
}

export interface Marks {
  marks: RecordedMark[];
  losses: Loss[];
}

/** The answer to `slice`: the slice of a lane at a time. */
export interface Slice {
  lane: string;
  who: Who | null;
  state: string;
  from: Ns;
  to: Ns;
  cpu: number | null;
  wait_stack: StackRef | null;
  wake: Pick<Wake, "at" | "context" | "source" | "by" | "stack"> | null;
  occupants: { who: Who; ns: number }[] | null;
  samples: { count: number; top: StackRef | null } | null;
  text: string;
}

/** The number in a lane's id: `t12` is thread 12, `c3` CPU 3. */
export const laneNumber = (lane: string): number => Number(lane.replace(/^\D+/, ""));
