/** The ranking of the butterfly by thread, where the stacks of several are summed. */
import { getJson, tracePath } from "../api/client";
import { status } from "../api/data";
import { liveQuery } from "../api/query";
import { stacksQuery, summedThreads } from "../api/stacks";
import type { Ranking } from "../api/types";
import * as store from "../state/store";
import type { ThreadIx } from "../units";

/** Maximum threads that have a column each: more leave no room for the names. */
export const MAX_COLUMNS = 4;

/** The maximum of the server: a name that is not in the answer has no time. */
const ALL = 10_000;

/** A thread's times by name. */
export interface ThreadTimes {
  readonly thread: ThreadIx;
  readonly times: ReadonlyMap<string, number>;
}

export const perThreadQuery = () =>
  liveQuery<ThreadTimes[]>(() => {
    const trace = store.trace.value;
    const threads = summedThreads().slice(0, MAX_COLUMNS);
    if (trace === null || threads.length === 0 || !status.value.data?.ready.tables) return null;
    const { of, by } = store.stacks.value;
    const asked = threads.map((thread) => ({ thread, params: { ...paramsOf(thread), of, by } }));
    return {
      key: JSON.stringify([trace, asked]),
      subject: JSON.stringify([trace, of, by, threads]),
      fetch: (signal) =>
        Promise.all(
          asked.map(async ({ thread, params }) => {
            const path = tracePath(trace, "butterfly");
            const { ranking } = await getJson<Ranking>(path, params, signal);
            return { thread, times: new Map(ranking.map((one) => [one.name, one.total_ns])) };
          }),
        ),
    };
  });

const paramsOf = (thread: ThreadIx) => ({
  ...stacksQuery(store.stacks.value.of, { ...store.selection.value, threads: [thread] }),
  limit: ALL,
});
