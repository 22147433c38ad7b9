/** Data of the open trace that several views share: status, summary, stalls, tables, names. */
import { computed, effect, signal } from "@preact/signals";
import * as store from "../state/store";
import { type Range, range, type ThreadIx } from "../units";
import { type ApiError, getJson, isAbort, type Params, tracePath } from "./client";
import { asApiError, liveQuery, type QueryState, refetchAll } from "./query";
import type {
  Curve,
  Lanes,
  Series,
  ServerInfo,
  StallAnswer,
  StallEntry,
  Stalls,
  Status,
  Summary,
  Tables,
  Who,
} from "./types";
import { whoText } from "./who";

/** Interval between status requests while the server analyses the trace; shorter at first. */
const POLL_MS = 300;
const POLL_FIRST_MS = 40;
/** How many are at that interval. */
const FIRST_POLLS = 25;
/** Interval between status requests afterwards: the file may vanish. */
const WATCH_MS = 5000;

export const server = liveQuery<ServerInfo>(() => ({
  key: "server",
  fetch: (signal) => getJson("/api/server", {}, signal),
})).state;

/** The server's progress with the open trace. */
export const status = signal<QueryState<Status>>({ data: null, error: null, loading: false });

/** Whether only the newest part of the trace is read so far, which lanes and tables are about. */
export const isNewest = computed(() => status.value.data?.stage === "newest");
/** Changes when all of the trace has been read, after its newest part: what is shown is asked anew. */
export const reading = signal(0);

effect(() => {
  if (!isNewest.value) return;
  const trace = store.trace.peek();
  return () => {
    if (store.trace.peek() !== trace) return;
    reading.value = reading.peek() + 1;
    refetchAll();
  };
});

function lost(error: ApiError): void {
  const { data } = status.peek();
  if (data && error.status === 404)
    status.value = { ...status.peek(), data: { ...data, gone: true } };
  else store.notify(error.message);
}

const pause = (polls: number): number => (polls < FIRST_POLLS ? POLL_FIRST_MS : POLL_MS);

/** Polls the status: often until the trace is ready or has failed, then seldom. Call once. */
export function watchStatus(): void {
  effect(() => {
    const trace = store.trace.value;
    status.value = { data: null, error: null, loading: trace !== null };
    if (trace === null) return;
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    let polls = 0;
    const poll = async () => {
      try {
        const data = await getJson<Status>(tracePath(trace, "status"), {}, controller.signal);
        const done = data.stage === "ready" || data.stage === "failed";
        // Only what changed: everything that depends on the status would run again.
        if (JSON.stringify(data) !== JSON.stringify(status.peek().data))
          status.value = { data, error: null, loading: !done };
        if (data.stage !== "failed")
          timer = setTimeout(() => void poll(), done ? WATCH_MS : pause(polls++));
      } catch (error) {
        if (isAbort(error)) return;
        // What is on the screen stays when the server, or the file, is gone.
        if (status.peek().data?.stage === "ready") return lost(asApiError(error));
        status.value = { data: null, error: asApiError(error), loading: false };
      }
    };
    void poll();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  });
}

// Computed, so that dependent queries run when these change, not at each poll.
const lanesReady = computed(() => status.value.data?.ready.lanes ?? false);
const tablesReady = computed(() => status.value.data?.ready.tables ?? false);
export const stallsReady = computed(() => status.value.data?.ready.stalls ?? false);

/** A query about the open trace that waits until `ready`. */
function traceQuery<T>(
  ready: () => boolean,
  resource: () => string | null,
  params: () => Params = () => ({}),
) {
  return liveQuery<T>(() => {
    const trace = store.trace.value;
    if (trace === null || !ready()) return null;
    const path = resource();
    if (path === null) return null;
    const query = params();
    return {
      key: JSON.stringify([trace, path, query]),
      subject: trace,
      fetch: (signal: AbortSignal) => getJson<T>(tracePath(trace, path), query, signal),
    };
  });
}

const summaryQuery = traceQuery<Summary>(
  () => lanesReady.value,
  () => "summary",
);
export const summary = summaryQuery.state;
/** Fetches the summary again, e.g. after its notes were edited. */
export const refetchSummary = summaryQuery.refetch;
/** Whether the open trace can be shown: not while it is read, nor if it cannot be. */
export const isShown = computed(() => {
  const { data, error } = status.value;
  const failed = error ?? summary.value.error ?? data?.stage === "failed";
  return !failed && lanesReady.value && summary.value.data !== null;
});
export const tables = traceQuery<Tables>(
  () => tablesReady.value,
  () => "tables",
).state;
/** All stalls of the trace, including those outside the selection. */
export const stalls = traceQuery<Stalls>(
  () => stallsReady.value,
  () => "stalls",
).state;
/** The explanation of the open stall, or of the selected thread in the selected range. */
export const stallDetail = traceQuery<StallAnswer>(
  () => stallsReady.value,
  () =>
    store.stall.value !== null
      ? `stall/${store.stall.value}`
      : store.canExplain.value
        ? "explain"
        : null,
  (): Record<string, number | null> => {
    const { threads, range } = store.selection.value;
    return store.stall.value !== null || range === null
      ? {}
      : { thread: threads[0] ?? null, from: Math.round(range.from), to: Math.round(range.to) };
  },
).state;
/** Busy CPUs over the whole trace, for the overview. */
export const curve = traceQuery<Curve>(
  () => lanesReady.value,
  () => "curve",
  () => ({ px: 1200 }),
).state;

/** Maximum switches of a trace whose CPU use is summed for the overview: 72 bytes each. */
const MAX_SUMMED = 1_000_000;
/** CPU use over the whole trace by process, for the overview; not of a huge trace. */
export const cpuUse = traceQuery<Series>(
  () =>
    tablesReady.value &&
    !isNewest.value &&
    (summary.value.data?.switches ?? Infinity) <= MAX_SUMMED,
  () => "series",
  () => ({ table: "switches", by: "process", measure: "sum:ran for", px: 600, groups: 4 }),
).state;

// The trace's extent comes with its summary.
effect(() => {
  const data = summary.value.data;
  if (data) store.extent.value = range(data.from, data.from + Math.max(1, data.duration_ns));
});

/** A thread or a process: what it is called, and its tid or pid. */
interface Named {
  readonly name: string;
  readonly id: number;
}

/** By `t` + thread or `p` + process. Lanes are fetched for them only if the selection needs one. */
const known = signal(new Map<string, Named>());

export function rememberName(who: Who | null | undefined): void {
  if (!who) return;
  known.peek().set(`t${who.thread}`, { name: whoText(who), id: who.tid });
  known.peek().set(`p${who.process_id}`, { name: `${who.process} ${who.pid}`, id: who.pid });
}

const unnamed = computed(() => {
  const { threads, process } = store.selection.value;
  return (
    threads.some((thread) => !known.value.has(`t${thread}`)) ||
    (process !== null && !known.value.has(`p${process}`))
  );
});
const lanes = traceQuery<Lanes>(
  () => lanesReady.value && unnamed.value,
  () => "lanes",
  // Threads that never ran have no lane, unless they are selected.
  () => ({
    thread: store.selection.value.threads.map(String),
    process: store.selection.value.process,
  }),
).state;

effect(() => {
  const data = lanes.value.data;
  if (!data) return;
  const names = new Map(known.peek());
  for (const process of data.processes) {
    const { pid, name: called } = process;
    names.set(`p${process.process}`, { name: `${called} ${pid}`, id: pid });
    for (const { thread, tid, name } of process.threads) {
      const who = { thread, tid, name, pid, process: called, process_id: process.process };
      names.set(`t${thread}`, { name: whoText(who), id: tid });
    }
  }
  known.value = names;
});
effect(() => {
  void store.trace.value;
  known.value = new Map();
});

export function threadName(ix: number): string {
  return known.value.get(`t${ix}`)?.name ?? `thread #${ix}`;
}

export function processName(ix: number): string {
  return known.value.get(`p${ix}`)?.name ?? `process #${ix}`;
}

/** A tid or pid of the server; `null` if it was not recorded, which the server writes as -1. */
export const recordedId = (id: number | undefined): number | null =>
  id === undefined || id < 0 ? null : id;

/** The tid or pid, by which filters know a thread or a process; `null` if it is not known yet. */
export const knownId = (key: `t${number}` | `p${number}`): number | null =>
  recordedId(known.peek().get(key)?.id);

/** Whether a stall overlaps the selected range and involves the selected thread and process. */
export function matchesSelection(entry: StallEntry, selection: store.Selection): boolean {
  const r: Range | null = selection.range;
  if (r !== null && (entry.to <= r.from || entry.from >= r.to)) return false;
  const involves = (thread: ThreadIx) =>
    entry.victim?.thread === thread || entry.culprit?.thread === thread;
  if (selection.threads.length > 0 && !selection.threads.some(involves)) return false;
  if (
    selection.process !== null &&
    entry.victim?.process_id !== selection.process &&
    entry.culprit?.process_id !== selection.process
  )
    return false;
  return true;
}
