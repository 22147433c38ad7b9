/** The answers of several threads in the same time range. */
import { useEffect, useMemo } from "preact/hooks";
import { getJson, tracePath } from "../api/client";
import { rememberName, status } from "../api/data";
import { asApiError, liveQuery } from "../api/query";
import type { StallAnswer } from "../api/types";
import * as store from "../state/store";
import type { Range, ThreadIx } from "../units";

/** Maximum threads that are explained at once: more cannot be read. */
export const MAX_THREADS = 8;

/** A thread's answer, or why there is none: it may not have lived in that time. */
export interface Explained {
  readonly thread: ThreadIx;
  readonly answer: StallAnswer | null;
  readonly problem: string;
}

/** Explains the first threads of what `asked` returns, and again when that changes. */
export function useExplained(
  asked: () => { readonly threads: readonly ThreadIx[]; readonly range: Range | null },
) {
  const query = useMemo(
    () =>
      liveQuery<Explained[]>(() => {
        const trace = store.trace.value;
        const { threads, range } = asked();
        if (trace === null || range === null || !status.value.data?.ready.stalls) return null;
        const list = threads.slice(0, MAX_THREADS);
        return {
          key: JSON.stringify([trace, list, range]),
          subject: trace,
          fetch: (signal) => Promise.all(list.map((thread) => one(trace, thread, range, signal))),
        };
      }),
    [],
  );
  useEffect(() => query.stop, []);
  return query.state.value;
}

async function one(
  trace: string,
  thread: ThreadIx,
  range: Range,
  signal: AbortSignal,
): Promise<Explained> {
  const params = { thread, from: Math.round(range.from), to: Math.round(range.to) };
  try {
    const answer = await getJson<StallAnswer>(tracePath(trace, "explain"), params, signal);
    for (const lane of answer.lanes) rememberName(lane.who);
    return { thread, answer, problem: "" };
  } catch (error) {
    if (signal.aborted) throw error;
    return { thread, answer: null, problem: asApiError(error).message };
  }
}
