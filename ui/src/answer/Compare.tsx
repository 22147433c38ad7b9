/** Several threads in the same time range: where the time of each went, side by side. */
import { useEffect, useMemo } from "preact/hooks";
import { getJson, tracePath } from "../api/client";
import { rememberName, status, threadName } from "../api/data";
import { asApiError, liveQuery } from "../api/query";
import type { StallAnswer } from "../api/types";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import * as store from "../state/store";
import { durationText, percent, type Range, type ThreadIx, timeText } from "../units";
import { type Column, rowsOf } from "./compareRows";
import { PartsBar } from "./PartsBar";

/** Maximum threads that are compared: more columns cannot be read. */
const MAX_THREADS = 8;

/** A thread's answer, or why there is none: it may not have lived in that time. */
interface Compared {
  readonly thread: ThreadIx;
  readonly answer: StallAnswer | null;
  readonly problem: string;
}

function useAnswers() {
  const query = useMemo(
    () =>
      liveQuery<Compared[]>(() => {
        const trace = store.trace.value;
        const { threads, range } = store.selection.value;
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
): Promise<Compared> {
  const params = { thread, from: Math.round(range.from), to: Math.round(range.to) };
  try {
    const answer = await getJson<StallAnswer>(tracePath(trace, "explain"), params, signal);
    return { thread, answer, problem: "" };
  } catch (error) {
    if (signal.aborted) throw error;
    return { thread, answer: null, problem: asApiError(error).message };
  }
}

export function Compare() {
  const { data, error, loading } = useAnswers();
  const { threads, range } = store.selection.value;
  if (error || !data || range === null)
    return (
      <>
        <h1 class="sr-only">Comparison</h1>
        {error ? <ErrorMessage error={error} /> : <Busy what="Explaining each thread …" />}
      </>
    );
  const columns = data.flatMap(({ answer }) => (answer ? [answer] : []));
  for (const answer of columns) for (const lane of answer.lanes) rememberName(lane.who);
  return (
    <article class="compare" data-compare={columns.length} aria-busy={loading}>
      <h1>
        {threads.length} threads from {timeText(range.from)} to {timeText(range.to)}
      </h1>
      {threads.length > MAX_THREADS && <p class="note">The first {MAX_THREADS} are compared.</p>}
      {data.map(({ thread, answer, problem }) => (
        <section key={thread} class="compare-row">
          <button
            type="button"
            class="text-link"
            title="Explain this thread alone"
            onClick={() => store.select({ threads: [thread] })}
          >
            {threadName(thread)}
          </button>
          {answer ? (
            <PartsBar id={`compare-${thread}`} parts={answer.partition} of={answer.duration_ns} />
          ) : (
            <span class="dim">{problem}</span>
          )}
        </section>
      ))}
      <Figures columns={columns} />
    </article>
  );
}

function Figures({ columns }: { columns: readonly StallAnswer[] }) {
  const list: Column[] = columns.map((answer) => ({ parts: answer.partition }));
  return (
    <table class="parts compare-figures">
      <thead>
        <tr>
          <th scope="col">where the time went</th>
          {columns.map((answer) => (
            <th scope="col" class="num" key={answer.victim?.thread ?? 0}>
              {answer.victim ? threadName(answer.victim.thread) : ""}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rowsOf(list).map((row) => (
          <tr key={row.label}>
            <th scope="row">{row.label}</th>
            {row.ns.map((ns, i) => (
              <td class="num" key={i}>
                {ns === 0
                  ? "–"
                  : `${durationText(ns)}  ${percent(ns, columns[i]?.duration_ns ?? 0)}`}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
