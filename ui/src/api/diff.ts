/** The JSON of what differs between two traces (docs/page-protocol.md). */
import type { StallAnswer } from "./types";

/** A thread by its names alone, digits folded: numbers mean nothing in another trace. */
export interface NamedWho {
  process: string;
  thread: string;
}

export interface PartDiff {
  what: string;
  label: string;
  who: NamedWho | null;
  before_ns: number;
  after_ns: number;
  difference_ns: number;
}

export interface DiffAnswer {
  diff: {
    incomparable: string[];
    stall: {
      difference_ns: number;
      partition: PartDiff[];
      cause_differs: boolean;
      length_differs: boolean;
    };
    is_noise: boolean;
  };
  /** What `unhitch diff` prints. */
  text: string;
  before: StallAnswer | null;
  after: StallAnswer | null;
}

export interface FlameDiffAnswer {
  before_window_ns: number;
  after_window_ns: number;
  nodes: {
    parent: number[];
    name: string[];
    others: number[];
    kernel: number[];
    before: number[];
    after: number[];
  };
}
