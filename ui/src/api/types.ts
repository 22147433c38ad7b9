/**
 * The JSON of `docs/page-protocol.md`, route by route. Times are ns since the trace's start;
 * durations end in `_ns`.
 */
import type { Ns, ProcessIx, StallId, ThreadIx } from "../units";

export interface Who {
  thread: ThreadIx;
  tid: number;
  pid: number;
  process_id: ProcessIx;
  name: string;
  process: string;
}

export interface StackRef {
  stack: number;
  kind: "wait" | "wake" | "sample";
  told: string;
}

export interface Frame {
  function: string;
  inlined: boolean;
  module: string | null;
  file: string | null;
  line: number | null;
  offset: string | null;
  kernel: boolean;
  noise: boolean;
}

export interface StackAnswer extends StackRef {
  frames: Frame[];
  class: string | null;
}

export interface ServerInfo {
  version: string;
  folder: string;
  single: string | null;
  editable: boolean;
  upload_limit_bytes: number;
  /** Whether there is a report over a fleet to show. */
  fleet: boolean;
}

export interface TraceEntry {
  name: string;
  bytes: number;
  modified: string;
  format: string;
  host: string | null;
  kernel: string | null;
  duration_ns: number | null;
  cpus: number | null;
  notes: string;
  loaded: boolean;
  first_answer: FirstAnswer | null;
  /** Whether the server is judging it now. */
  judging: boolean;
  /** It is not judged before it is opened: that would take too much memory. */
  too_large: boolean;
  error: string | null;
  /** What to do about the error. */
  hint: string;
}

/** The worst stall in short; only `text` and `severity` if there is none, or if it failed. */
export interface FirstAnswer {
  text: string | null;
  severity: number;
  pattern?: string;
  victim?: string;
  cause?: string;
  duration_ns?: number;
  stalls?: number;
}

export interface Status {
  stage: "unopened" | "reading" | "indexing" | "newest" | "judging" | "ready" | "failed";
  progress: number;
  ready: { lanes: boolean; tables: boolean; stalls: boolean };
  error: string | null;
  hint: string;
  /** The file has vanished; what was read of it stays. */
  gone: boolean;
}

export interface Loss {
  cpu: number;
  from: Ns;
  to: Ns;
  events: number;
}

export interface Summary {
  name: string;
  format: string;
  host: string | null;
  kernel: string | null;
  arch: string | null;
  producer: string | null;
  notes: string;
  /** What all times count from: on the trace's own clock, and as text. */
  origin_ns: string;
  origin: string;
  start_ns: string;
  /** Start of the span that all CPUs cover; the page shows that span. */
  from: Ns;
  duration_ns: number;
  epoch_ns: string | null;
  cpus: number;
  switches: number;
  wakings: number;
  samples: number;
  stacks: number;
  processes: number;
  threads: number;
  modules: number;
  lost: number;
  lost_uncounted: number;
  losses: Loss[];
  spans: { cpu: number; from: Ns; to: Ns }[];
  warnings: string[];
  by_kind: Record<string, number>;
  stack_counts: Record<string, number>;
  states: { code: number; name: string; label: string }[];
}

export interface Curve {
  from: Ns;
  to: Ns;
  px: number;
  cpus: number;
  busy: number[];
}

export type Evidence = "direct" | "inferred" | "lost";

export interface StallEntry {
  id: StallId;
  kind: string;
  headline: string;
  from: Ns;
  to: Ns;
  duration_ns: number;
  severity: number;
  victim: Who | null;
  victims: number;
  pattern: string;
  culprit: Who | null;
  function: string | null;
  evidence: Evidence;
  cause: string;
}

export interface Stalls {
  ready: boolean;
  progress: number;
  stalls: StallEntry[];
  /** Why there are none. */
  nothing: string | null;
  /** What to record next time, if this recording lacks it. */
  advice: string | null;
}

export type EventRef =
  | { switch: number }
  | { waking: number }
  | { sample: number }
  | { provider: number };

export interface TextLink {
  start: number;
  end: number;
  lane: string | null;
  from: Ns | null;
  to: Ns | null;
  event: EventRef | null;
  /** The function whose instructions, with the samples on each, show it. */
  instructions_of: string | null;
}

export interface Clause {
  kind:
    | "headline"
    | "story"
    | "cause"
    | "groups"
    | "machine"
    | "input"
    | "evidence"
    | "remedy"
    | "chain"
    | "partition"
    | "warning";
  /** The word in capitals before it, or empty. */
  label: string;
  text: string;
  links: TextLink[];
}

export interface Wake {
  at: Ns;
  waking: number;
  context: string;
  source: string | null;
  by: Who | null;
  by_lane: string | null;
  stack: StackRef | null;
  evidence: Evidence;
}

/** Has no time and no event if no wake-up was recorded but the lock itself names its owner. */
export type ChainWake = Omit<Wake, "at" | "waking"> & { at: Ns | null; waking: number | null };

export interface ChainLink {
  link: number;
  who: Who;
  lane: string;
  depth: number;
  state: string;
  class: string | null;
  from: Ns;
  to: Ns;
  ns: number;
  waited_ns: number;
  pieces: number;
  stack: StackRef | null;
  cpu: number | null;
  occupants: { who: Who; ns: number }[];
  wake: ChainWake | null;
}

export interface Part {
  what: string;
  label: string;
  who: Who | null;
  ns: number;
  share: number;
  state: number;
}

export interface StallAnswer {
  id: number;
  kind: string;
  headline: string;
  from: Ns;
  to: Ns;
  duration_ns: number;
  victim: Who | null;
  victims: Who[];
  cause: {
    pattern: string;
    culprit: Who | null;
    function: string | null;
    evidence: Evidence;
    evidence_words: string;
    text: string;
    advice: string;
  };
  figures: { wakes: number; wakes_in_vain: number; idle_share: number };
  lanes: { lane: string; who: Who; role: string; depth: number }[];
  chain: ChainLink[];
  arrows: {
    from_lane: string;
    to_lane: string;
    at: Ns;
    waking: number | null;
    context: string;
    evidence: Evidence;
    label: string;
    link: number;
    depth: number;
    waited_ns: number;
  }[];
  partition: Part[];
  clauses: Clause[];
  text: string;
}

export type ColumnKind = "text" | "duration" | "time" | "count" | "number" | "stack";

export interface ColumnInfo {
  name: string;
  aliases: string[];
  kind: ColumnKind;
  doc: string;
  sum: boolean;
  /** Whether the route `series` has its sum over time. */
  over_time: boolean;
}

export interface TableInfo {
  table: string;
  doc: string;
  by: string[];
  show: string[];
  aggregates: string[];
  sort: string;
  columns: ColumnInfo[];
}

export interface Preset {
  id: string;
  name: string;
  table: string;
  by: string[];
  show: string[];
  sort: string;
  where: string;
  graph: string[];
  over_time: boolean;
}

export interface Tables {
  tables: TableInfo[];
  presets: Preset[];
}

export type Cell = number | string | null | StackRef;

export interface TableRow {
  key: string | null;
  cells: Cell[];
  children: number | null;
  from: Ns | null;
  to: Ns | null;
  lane: string | null;
}

export interface TablePage {
  table: string;
  level: number;
  by: string | null;
  columns: { title: string; column: string; aggregate: string | null; kind: ColumnKind }[];
  rows: TableRow[];
  offset: number;
  total: number;
  totals: (number | null)[];
  matched: number;
  /** How many of `matched` lie outside the span that all CPUs cover. */
  outside: number;
  /** Columns that are empty because the recording lacks what they need. */
  not_recorded: { column: string; why: string; advice: string }[];
  ignored: string[];
  cut: boolean;
}

/** A measure over time; `values` are per part of the window, `px` parts in all. */
export interface Series {
  table: string;
  by: string | null;
  unit: "ns" | "count" | "bytes";
  from: Ns;
  to: Ns;
  px: number;
  groups: { key: string; cell: Cell; total: number; values: number[] }[];
  other_groups: number;
  others: number[];
  ignored: string[];
}

export interface Ranking {
  of: string;
  by: string;
  all_count: number;
  all_total_ns: number;
  total: number;
  ranking: { name: string; count: number; total_ns: number; self_ns: number }[];
}

export interface ButterflyNode {
  name: string;
  count: number;
  total_ns: number;
  children: ButterflyNode[];
  cut?: number;
}

export interface Butterfly {
  of: string;
  by: string;
  matched: string[];
  all_count: number;
  all_total_ns: number;
  /** Null if the function is on other stacks only. */
  callers: ButterflyNode | null;
  callees: ButterflyNode | null;
}

export interface HotFunctions {
  samples: number;
  functions: { function: string; module: string | null; samples: number; share: number }[];
}

export interface HotFunction {
  function: string;
  module: string | null;
  samples: number;
  inside: number;
  total: number;
  elsewhere: number;
  source: string | null;
  no_code: string | null;
  notes: string[];
  loop: string | null;
  lines: {
    offset: string;
    address: string | null;
    text: string;
    samples: number;
    share: number;
    origin: string | null;
    in_loop: boolean;
  }[];
}

export interface SearchResult {
  total: { threads: number; processes: number; functions: number };
  threads: { who: Who; lane: string }[];
  processes: { process: ProcessIx; pid: number; name: string; command_line: string }[];
  functions: {
    name: string;
    module: string | null;
    waits: number;
    wakes: number;
    samples: number;
  }[];
}

export type EventAnswer =
  | {
      kind: "switch";
      index: number;
      time: Ns;
      cpu: number;
      prev: Who;
      next: Who;
      prev_state: string;
      prev_prio: number;
      next_prio: number;
      stack: StackRef | null;
    }
  | {
      kind: "waking";
      index: number;
      time: Ns;
      cpu: number;
      by: Who | null;
      of: Who;
      target_cpu: number;
      context: string;
      flags: string[];
      redundant: boolean;
      ended_sleep_ns: number | null;
      stack: StackRef | null;
    }
  | { kind: "sample"; index: number; time: Ns; cpu: number; who: Who; stack: StackRef | null }
  | {
      kind: "provider";
      index: number;
      time: Ns;
      cpu: number;
      who: Who;
      provider: string | null;
      name: string | null;
      fields: { name: string; value: string }[];
      stack: StackRef | null;
    };

export interface Lanes {
  cpus: { lane: string; cpu: number; busy_ns: number; samples: number }[];
  processes: {
    process: ProcessIx;
    pid: number;
    name: string;
    command_line: string;
    /** The path of its control group; null if unknown. */
    control_group: string | null;
    from: Ns;
    to: Ns;
    started: boolean;
    ended: boolean;
    relevance: number;
    threads: {
      lane: string;
      thread: ThreadIx;
      tid: number;
      name: string;
      from: Ns;
      to: Ns;
      ran_ns: number;
      runnable_ns: number | null;
      switches: number;
      samples: number;
      relevance: number;
      role: string | null;
    }[];
  }[];
  quiet?: number;
}
