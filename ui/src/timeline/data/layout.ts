/** Which rows the timeline has and where they lie: the wait chain on top, then the CPUs, then the threads by process. */
import type { Lanes, StallAnswer } from "../../api/types";
import type { Px } from "../../units";

export type ProcessLanes = Lanes["processes"][number];
type ThreadLane = ProcessLanes["threads"][number];

/** A lane of a row; `id` is the server's name of it. */
export interface Lane {
  readonly id: string;
  readonly kind: "cpu" | "thread";
  readonly name: string;
  /** The cpu's number, or the thread's index. */
  readonly number: number;
  readonly tid: number;
  /** Index of the process; -1 for a CPU. */
  readonly process: number;
  readonly role: string | null;
  /** One line of figures, for the mirror and the tooltip. */
  readonly sums: {
    readonly ran: number;
    readonly runnable: number | null;
    readonly switches: number;
  } | null;
}

interface RowBox {
  readonly key: string;
  readonly top: number;
  readonly height: number;
}

export interface HeaderRow extends RowBox {
  readonly kind: "header";
  readonly section: "chain" | "cpus" | "process";
  readonly name: string;
  readonly open: boolean;
  readonly lanes: number;
  readonly process: ProcessLanes | null;
}

export interface LaneRow extends RowBox {
  readonly kind: "lane";
  readonly lane: Lane;
  /** Depth in the chain; null outside of it. */
  readonly depth: number | null;
  /** Key of the header above it. */
  readonly section: string;
}

export type Row = HeaderRow | LaneRow;

export interface Density {
  readonly header: number;
  readonly lane: number;
  readonly chain: number;
}

export const COMFORTABLE: Density = { header: 22, lane: 20, chain: 34 };
export const COMPACT: Density = { header: 18, lane: 14, chain: 28 };

export const CHAIN = "chain";
export const CPUS = "cpus";

export interface Layout {
  readonly rows: readonly Row[];
  readonly height: Px;
}

/** How many lanes are open at the start: about two screens of a laptop. */
const MAX_OPEN_LANES = 60;
/** More lanes of a chain would be no picture; the one that is looked at is always among them. */
const MAX_CHAIN_LANES = 30;
/** More CPUs than these would push the threads off the first screen. */
const MAX_OPEN_CPUS = 16;

/** The sections that are open unless the user chose otherwise: in their order of relevance until a screen or two is full. */
export function openAtStart(lanes: Lanes): Set<string> {
  const open = new Set<string>([CHAIN]);
  if (lanes.cpus.length <= MAX_OPEN_CPUS) open.add(CPUS);
  let shown = 0;
  for (const process of lanes.processes) {
    if (shown > 0 && shown + process.threads.length > MAX_OPEN_LANES) continue;
    shown += process.threads.length;
    open.add(processKey(process.process));
  }
  return open;
}

export const processKey = (process: number): string => `p${process}`;

export function layout(
  lanes: Lanes,
  chain: Pick<StallAnswer, "lanes"> | null,
  chosen: ReadonlyMap<string, boolean>,
  density: Density,
  shownLinkLane: string | null = null,
): Layout {
  const rows: Row[] = [];
  const open = openAtStart(lanes);
  let top = 0;
  const push = <T extends Omit<Row, "top">>(row: T) => {
    rows.push({ ...row, top } as unknown as Row);
    top += row.height;
  };
  const section = (
    key: string,
    name: string,
    kind: HeaderRow["section"],
    of: readonly { lane: Lane; depth: number | null }[],
    process: ProcessLanes | null,
    height: number,
    all = of.length,
  ) => {
    const isOpen = chosen.get(key) ?? open.has(key);
    push({
      kind: "header",
      key,
      height: density.header,
      section: kind,
      name,
      open: isOpen,
      lanes: all,
      process,
    });
    if (!isOpen) return;
    for (const { lane, depth } of of) {
      push({ kind: "lane", key: `${key}/${lane.id}`, height, lane, depth, section: key });
    }
  };
  const known = new Map<string, Lane>();
  for (const process of lanes.processes) {
    for (const thread of process.threads)
      known.set(thread.lane, threadLane(thread, process.process));
  }
  if (chain && chain.lanes.length > 0) {
    const hops = chain.lanes.map(({ lane, who, role, depth }) => ({
      lane: {
        ...(known.get(lane) ?? {
          id: lane,
          kind: "thread" as const,
          name: `${who.name} ${who.tid}`,
          number: who.thread,
          tid: who.tid,
          process: who.process_id,
          sums: null,
        }),
        role,
      },
      depth,
    }));
    const drawn = hops.filter(
      ({ lane }, index) => index < MAX_CHAIN_LANES || lane.id === shownLinkLane,
    );
    const name = drawn.length < hops.length ? `Wait chain, ${drawn.length} of` : "Wait chain";
    section(CHAIN, name, "chain", drawn, null, density.chain, hops.length);
  }
  const cpus = lanes.cpus.map((cpu): { lane: Lane; depth: null } => ({
    lane: {
      id: cpu.lane,
      kind: "cpu",
      name: `CPU ${cpu.cpu}`,
      number: cpu.cpu,
      tid: -1,
      process: -1,
      role: null,
      sums: null,
    },
    depth: null,
  }));
  section(CPUS, "CPUs", "cpus", cpus, null, density.lane);
  for (const process of lanes.processes) {
    const threads = process.threads.flatMap((thread) => {
      const lane = known.get(thread.lane);
      return lane ? [{ lane, depth: null }] : [];
    });
    const [only] = threads;
    if (only && threads.length === 1 && only.lane.tid === process.pid) {
      // A header over its only thread, which bears the same name, would say nothing.
      push({
        kind: "lane",
        key: `${processKey(process.process)}/${only.lane.id}`,
        height: density.lane,
        lane: only.lane,
        depth: null,
        section: processKey(process.process),
      });
      continue;
    }
    section(
      processKey(process.process),
      `${process.name} ${process.pid}`,
      "process",
      threads,
      process,
      density.lane,
    );
  }
  return { rows, height: top as Px };
}

function threadLane(thread: ThreadLane, process: number): Lane {
  return {
    id: thread.lane,
    kind: "thread",
    name: `${thread.name} ${thread.tid}`,
    number: thread.thread,
    tid: thread.tid,
    process,
    role: thread.role,
    sums: { ran: thread.ran_ns, runnable: thread.runnable_ns, switches: thread.switches },
  };
}

/** The index of the row at the height `y`, or -1. */
export function rowAt(rows: readonly Row[], y: number): number {
  let low = 0;
  let high = rows.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const row = rows[middle] as Row;
    if (y < row.top) high = middle - 1;
    else if (y >= row.top + row.height) low = middle + 1;
    else return middle;
  }
  return -1;
}

/** The rows between two heights. */
export function rowsBetween(rows: readonly Row[], top: number, bottom: number): readonly Row[] {
  const first = Math.max(rowAt(rows, Math.max(top, 0)), 0);
  let end = first;
  while (end < rows.length && (rows[end] as Row).top < bottom) end++;
  return rows.slice(first, end);
}

/** Where to scroll so that a row is seen whole, moving as little as possible. */
export function scrollTo(
  row: { top: number; height: number },
  scroll: number,
  height: number,
): number {
  if (row.top < scroll) return row.top;
  if (row.top + row.height > scroll + height) return row.top + row.height - height;
  return scroll;
}

/** The row of a lane: in the chain when it is there, else where it belongs; -1 when its section is closed. */
export function rowOfLane(rows: readonly Row[], lane: string): number {
  return rows.findIndex((row) => row.kind === "lane" && row.lane.id === lane);
}
