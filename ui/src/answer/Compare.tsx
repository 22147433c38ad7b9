/** Several threads in the same time range: where the time of each went, side by side. */
import { threadItems } from "../actions";
import { threadName } from "../api/data";
import type { StallAnswer } from "../api/types";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { menuOf } from "../parts/MenuHost";
import * as store from "../state/store";
import { durationText, tenthsText, timeText } from "../units";
import { type Column, rowsOf } from "./compareRows";
import { MAX_THREADS, useExplained } from "./explained";
import { PartsBar } from "./PartsBar";

export function Compare() {
  const { data, error, loading } = useExplained(() => store.selection.value);
  const { threads, range } = store.selection.value;
  if (error || !data || range === null)
    return (
      <>
        <h1 class="sr-only">Comparison</h1>
        {error ? <ErrorMessage error={error} /> : <Busy what="Explaining each thread …" />}
      </>
    );
  const columns = data.flatMap(({ answer }) => (answer ? [answer] : []));
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
            onContextMenu={menuOf(threadName(thread), () => threadItems(thread, range))}
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
                {ns === 0 ? "–" : `${durationText(ns)}  ${tenthsText(row.tenths[i] ?? 0)}`}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
