/** What every view shares of the open trace: its state, summary, stalls, the open stall, and the tables there are. */
import { computed, effect, signal } from "@preact/signals";
import * as store from "../state/store";
import { type Range, range } from "../units";
import { getJson, isAbort, tracePath } from "./client";
import { type Answer, asApiError, ask } from "./query";
import type {
  Curve,
  Lanes,
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

/** Milliseconds between two questions while the server works. */
const POLL = 300;

export const server = ask<ServerInfo>(() => ({
  key: "server",
  ask: (signal) => getJson("/api/server", {}, signal),
})).answer;

/** How far the server is with the open trace. */
export const status = signal<Answer<Status>>({ data: null, error: null, loading: false });

/** Asks again and again until the trace is ready or has failed; call once. */
export function watchStatus(): void {
  effect(() => {
    const trace = store.trace.value;
    status.value = { data: null, error: null, loading: trace !== null };
    if (trace === null) return;
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const poll = async () => {
      try {
        const data = await getJson<Status>(tracePath(trace, "status"), {}, controller.signal);
        const done = data.stage === "ready" || data.stage === "failed";
        status.value = { data, error: null, loading: !done };
        if (!done) timer = setTimeout(() => void poll(), POLL);
      } catch (error) {
        if (isAbort(error)) return;
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

// Computed, so that what depends on them is asked when they turn, and not at each poll.
const lanesReady = computed(() => status.value.data?.ready.lanes ?? false);
const tablesReady = computed(() => status.value.data?.ready.tables ?? false);
const stallsReady = computed(() => status.value.data?.ready.stalls ?? false);

/** A question about the open trace that waits until `ready`. */
function ofTrace<T>(
  ready: () => boolean,
  resource: () => string | null,
  params: () => Record<string, string | number | null> = () => ({}),
) {
  return ask<T>(() => {
    const trace = store.trace.value;
    if (trace === null || !ready()) return null;
    const path = resource();
    if (path === null) return null;
    const asked = params();
    return {
      key: JSON.stringify([trace, path, asked]),
      subject: trace,
      ask: (signal: AbortSignal) => getJson<T>(tracePath(trace, path), asked, signal),
    };
  });
}

const summarised = ofTrace<Summary>(
  () => lanesReady.value,
  () => "summary",
);
export const summary = summarised.answer;
/** Asks for it again, as after its notes were changed. */
export const summariseAgain = summarised.again;
export const tables = ofTrace<Tables>(
  () => tablesReady.value,
  () => "tables",
).answer;
/** All stalls of the trace; views tell those outside of the selection apart. */
export const stalls = ofTrace<Stalls>(
  () => stallsReady.value,
  () => "stalls",
).answer;
/** The open stall, or the selected stretch of the selected thread: its chain, partition, clauses. */
export const stallDetail = ofTrace<StallAnswer>(
  () => stallsReady.value,
  () =>
    store.stall.value !== null
      ? `stall/${store.stall.value}`
      : store.canExplain.value
        ? "explain"
        : null,
  (): Record<string, number | null> => {
    const { thread, range } = store.selection.value;
    return store.stall.value !== null || range === null
      ? {}
      : { thread, from: Math.round(range.from), to: Math.round(range.to) };
  },
).answer;
/** Busy CPUs over the whole trace, for the strip on top. */
export const curve = ofTrace<Curve>(
  () => lanesReady.value,
  () => "curve",
  () => ({ px: 1200 }),
).answer;

/** The trace's extent follows its summary. */
effect(() => {
  const data = summary.value.data;
  if (data) store.extent.value = range(data.from, data.from + Math.max(1, data.duration_ns));
});

/** The threads' and processes' names are asked for only when something selected has none yet. */
const known = signal(new Map<string, string>());

export function remember(who: Who | null | undefined): void {
  if (!who) return;
  known.peek().set(`t${who.thread}`, whoText(who));
  known.peek().set(`p${who.process_id}`, `${who.process} ${who.pid}`);
}

const unnamed = computed(() => {
  const { thread, process } = store.selection.value;
  return (
    (thread !== null && !known.value.has(`t${thread}`)) ||
    (process !== null && !known.value.has(`p${process}`))
  );
});
const lanes = ofTrace<Lanes>(
  () => lanesReady.value && unnamed.value,
  () => "lanes",
).answer;

effect(() => {
  const data = lanes.value.data;
  if (!data) return;
  const names = new Map(known.peek());
  for (const process of data.processes) {
    names.set(`p${process.process}`, `${process.name} ${process.pid}`);
    for (const { thread, tid, name } of process.threads)
      names.set(
        `t${thread}`,
        whoText({
          thread,
          tid,
          name,
          pid: process.pid,
          process: process.name,
          process_id: process.process,
        }),
      );
  }
  known.value = names;
});
effect(() => {
  void store.trace.value;
  known.value = new Map();
});

export function threadName(ix: number): string {
  return known.value.get(`t${ix}`) ?? `thread #${ix}`;
}

export function processName(ix: number): string {
  return known.value.get(`p${ix}`) ?? `process #${ix}`;
}

/** Whether a stall has to do with the selection. */
export function concerns(entry: StallEntry, selection: store.Selection): boolean {
  const r: Range | null = selection.range;
  if (r !== null && (entry.to <= r.from || entry.from >= r.to)) return false;
  if (
    selection.thread !== null &&
    entry.victim?.thread !== selection.thread &&
    entry.culprit?.thread !== selection.thread
  )
    return false;
  if (
    selection.process !== null &&
    entry.victim?.process_id !== selection.process &&
    entry.culprit?.process_id !== selection.process
  )
    return false;
  return true;
}
