/**
 * Lays out the timeline's rows: the wait chain on top, then the tracks, the CPUs, and the threads by
 * process.
 */
import type { Lanes, StallAnswer } from "../../api/types";
import type { Px } from "../../units";

export type ProcessLanes = Lanes["processes"][number];
type ThreadLane = ProcessLanes["threads"][number];

/** A lane; `id` is the server's, that of a track is its preset's. */
export interface Lane {
  readonly id: string;
  readonly kind: "cpu" | "thread" | "track";
  readonly name: string;
  /** The CPU's number or the thread's index; -1 for a track. */
  readonly number: number;
  readonly tid: number;
  /** Index of the process; -1 without one. */
  readonly process: number;
  readonly role: string | null;
  /** Totals for the text tree and the tooltip. */
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
  /** Stays in place when the lanes scroll: a pinned lane. */
  readonly fixed: boolean;
}

export interface HeaderRow extends RowBox {
  readonly kind: "header";
  readonly section: "chain" | "tracks" | "cpus" | "process";
  readonly name: string;
  readonly open: boolean;
  readonly lanes: number;
  readonly process: ProcessLanes | null;
}

export interface LaneRow extends RowBox {
  readonly kind: "lane";
  readonly lane: Lane;
  /** Depth in the wait chain; null outside it. */
  readonly depth: number | null;
  /** Key of the header above it. */
  readonly section: string;
}

export type Row = HeaderRow | LaneRow;

export interface Density {
  readonly header: number;
  readonly lane: number;
  readonly chain: number;
  readonly track: number;
}

export const COMFORTABLE: Density = { header: 22, lane: 20, chain: 34, track: 50 };
export const COMPACT: Density = { header: 18, lane: 14, chain: 28, track: 44 };

export const CHAIN = "chain";
export const TRACKS = "tracks";
export const CPUS = "cpus";
/** Pinned lanes have no header. */
export const PINNED = "pinned";

export interface Layout {
  readonly rows: readonly Row[];
  readonly height: Px;
  /** Height of the pinned rows, which come first. */
  readonly fixed: number;
  /** Height of the wait chain, which comes next; 0 without one. */
  readonly chain: number;
}

/** What the user added (tracks), pinned (lanes) and hid (lanes; `p3`: a process). */
export interface Choices {
  readonly tracks: readonly { readonly id: string; readonly name: string }[];
  readonly pins: readonly string[];
  readonly hidden: readonly string[];
}

const NO_CHOICES: Choices = { tracks: [], pins: [], hidden: [] };

/** Maximum thread lanes open by default: about two screens of a laptop. */
const MAX_OPEN_LANES = 60;
/** Maximum lanes drawn of a chain, besides the current link's: more would not make a picture. */
const MAX_CHAIN_LANES = 30;
/**
 * With more CPUs than this, their section is closed by default, to keep threads on the first
 * screen.
 */
const MAX_OPEN_CPUS = 16;

/** The sections open by default: in order of relevance, until a screen or two is full. */
export function openByDefault(lanes: Lanes): Set<string> {
  const open = new Set<string>([CHAIN, TRACKS]);
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

/** A lane to lay out, with its depth in the chain. */
interface LaneEntry {
  readonly lane: Lane;
  readonly depth: number | null;
}

interface Section {
  readonly key: string;
  readonly kind: HeaderRow["section"];
  readonly name: string;
  readonly entries: readonly LaneEntry[];
  /** Number of lanes to show in the header; by default, all entries. */
  readonly count?: number;
  readonly process: ProcessLanes | null;
  /** Height of its lanes. */
  readonly height: number;
}

/** Rows one below the other. */
class RowStack {
  readonly rows: Row[] = [];
  height = 0;

  constructor(
    private readonly isOpen: (section: string) => boolean,
    private readonly headerHeight: number,
  ) {}

  addSection({ key, kind, name, entries, count, process, height }: Section): void {
    const open = this.isOpen(key);
    const lanes = count ?? entries.length;
    this.add({
      kind: "header",
      key,
      height: this.headerHeight,
      section: kind,
      name,
      open,
      lanes,
      process,
      fixed: false,
    });
    if (open) for (const entry of entries) this.addLane(key, entry, height);
  }

  skip(height: number): void {
    this.height += height;
  }

  addLane(section: string, { lane, depth }: LaneEntry, height: number, fixed = false): void {
    this.add({ kind: "lane", key: `${section}/${lane.id}`, height, lane, depth, section, fixed });
  }

  private add(row: Omit<HeaderRow, "top"> | Omit<LaneRow, "top">): void {
    this.rows.push({ ...row, top: this.height });
    this.height += row.height;
  }
}

/**
 * Lays out the rows; `chosen` holds the sections that the user opened (true) or closed (false), and
 * `gap` is the space below the chain.
 */
export function layout(
  lanes: Lanes,
  chain: Pick<StallAnswer, "lanes"> | null,
  chosen: ReadonlyMap<string, boolean>,
  density: Density,
  shownLinkLane: string | null = null,
  { tracks, pins, hidden }: Choices = NO_CHOICES,
  gap = 0,
): Layout {
  const open = openByDefault(lanes);
  const stack = new RowStack((key) => chosen.get(key) ?? open.has(key), density.header);
  const known = new Map<string, Lane>();
  for (const process of lanes.processes) {
    for (const thread of process.threads)
      known.set(thread.lane, threadLane(thread, process.process));
  }
  for (const cpu of lanes.cpus) known.set(cpu.lane, cpuLane(cpu));
  for (const id of pins) {
    const lane = known.get(id);
    if (lane) stack.addLane(PINNED, { lane, depth: null }, density.lane, true);
  }
  const fixed = stack.height;
  if (chain && chain.lanes.length > 0)
    stack.addSection(chainSection(chain, known, density, shownLinkLane));
  const chainHeight = stack.height - fixed;
  stack.skip(gap);
  if (tracks.length > 0)
    stack.addSection({
      key: TRACKS,
      kind: "tracks",
      name: "Tracks",
      entries: tracks.map((track) => ({ lane: trackLane(track), depth: null })),
      process: null,
      height: density.track,
    });
  const cpus = lanes.cpus.filter((cpu) => !hidden.includes(cpu.lane));
  if (cpus.length > 0 || lanes.cpus.length === 0)
    stack.addSection({
      key: CPUS,
      kind: "cpus",
      name: "CPUs",
      entries: cpus.map((cpu) => ({ lane: cpuLane(cpu), depth: null })),
      process: null,
      height: density.lane,
    });
  for (const process of lanes.processes) addProcess(stack, process, known, density, hidden);
  return { rows: stack.rows, height: stack.height as Px, fixed, chain: chainHeight };
}

function chainSection(
  chain: Pick<StallAnswer, "lanes">,
  known: ReadonlyMap<string, Lane>,
  density: Density,
  shownLinkLane: string | null,
): Section {
  const all = chain.lanes.map(({ lane, who, role, depth }) => ({
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
  const entries = all.filter(
    ({ lane }, index) => index < MAX_CHAIN_LANES || lane.id === shownLinkLane,
  );
  return {
    key: CHAIN,
    kind: "chain",
    name: entries.length < all.length ? `Wait chain, ${entries.length} of` : "Wait chain",
    entries,
    count: all.length,
    process: null,
    height: density.chain,
  };
}

function addProcess(
  stack: RowStack,
  process: ProcessLanes,
  known: ReadonlyMap<string, Lane>,
  density: Density,
  hidden: readonly string[],
): void {
  const key = processKey(process.process);
  if (hidden.includes(key)) return;
  const entries = process.threads.flatMap((thread) => {
    const lane = hidden.includes(thread.lane) ? undefined : known.get(thread.lane);
    return lane ? [{ lane, depth: null }] : [];
  });
  if (entries.length === 0) return;
  const [only] = entries;
  if (only && entries.length === 1 && only.lane.tid === process.pid) {
    // A header would only repeat the name of its single thread.
    stack.addLane(key, only, density.lane);
    return;
  }
  stack.addSection({
    key,
    kind: "process",
    name: `${process.name} ${process.pid}`,
    entries,
    process,
    height: density.lane,
  });
}

function cpuLane(cpu: Lanes["cpus"][number]): Lane {
  return {
    id: cpu.lane,
    kind: "cpu",
    name: `CPU ${cpu.cpu}`,
    number: cpu.cpu,
    tid: -1,
    process: -1,
    role: null,
    sums: null,
  };
}

function trackLane({ id, name }: Choices["tracks"][number]): Lane {
  return {
    id,
    kind: "track",
    name,
    number: -1,
    tid: -1,
    process: -1,
    role: null,
    sums: null,
  };
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

export const sectionOf = (row: Row): string => (row.kind === "header" ? row.key : row.section);

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

/** The rows that overlap a range of heights. */
export function rowsBetween(rows: readonly Row[], top: number, bottom: number): readonly Row[] {
  const first = Math.max(rowAt(rows, Math.max(top, 0)), 0);
  let end = first;
  while (end < rows.length && (rows[end] as Row).top < bottom) end++;
  return rows.slice(first, end);
}

/**
 * The scroll offset that shows all of a row with the least movement; `fixed` is the height of the
 * pinned rows, which cover what is behind them.
 */
export function scrollTo(
  row: { top: number; height: number; fixed?: boolean },
  scroll: number,
  height: number,
  fixed = 0,
): number {
  if (row.fixed) return scroll;
  if (row.top - fixed < scroll) return row.top - fixed;
  if (row.top + row.height > scroll + height) return row.top + row.height - height;
  return scroll;
}

/**
 * Where lanes stay in place when what is above them becomes `by` higher: the scroll offset, and the
 * space that replaces what is too little to scroll.
 */
export function inPlace(scroll: number, by: number): { scroll: number; gap: number } {
  return { scroll: Math.max(0, scroll + by), gap: Math.max(0, -(scroll + by)) };
}

/**
 * A lane's first row: pinned, or in the chain if it is there, else in its section. Of a process: its
 * header, or its only lane. -1 if there is none, or its section is closed.
 */
export function rowOfLane(rows: readonly Row[], lane: string): number {
  return rows.findIndex((row) =>
    row.kind === "header" ? row.key === lane : row.lane.id === lane || row.section === lane,
  );
}
