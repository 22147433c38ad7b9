/** A differential flame graph of two of the selected threads: the stacks of one, by how the other differs. */
import { useEffect, useMemo } from "preact/hooks";
import { getJson } from "../api/client";
import { status, threadName } from "../api/data";
import type { FlameDiffAnswer } from "../api/diff";
import { stacksParams } from "../api/params";
import { liveQuery } from "../api/query";
import { DiffTree } from "../flame/DiffTree";
import { functionMenu } from "../functionMenu";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import * as store from "../state/store";
import { type ThreadIx, threadIx } from "../units";

/** The first two selected threads, the one whose times are the widths last; `null` if there is one. */
function pair() {
  const [before, after] = store.selection.value.threads;
  return before === undefined || after === undefined ? null : { before, after };
}

/** Moves a selected thread to the first or second place; the one that was there takes its place. */
function place(thread: ThreadIx, at: 0 | 1): void {
  const threads = [...store.selection.peek().threads];
  const from = threads.indexOf(thread);
  const there = threads[at];
  if (from < 0 || there === undefined) return;
  threads[at] = thread;
  threads[from] = there;
  store.select({ threads });
}

/** The thread in the first or second place: a choice where there are more than two. */
function Choice({ at, label }: { at: 0 | 1; label: string }) {
  const { threads } = store.selection.value;
  const [chosen] = threads.slice(at);
  if (chosen === undefined) return null;
  if (threads.length === 2) return <strong>{threadName(chosen)}</strong>;
  return (
    <select
      aria-label={label}
      value={chosen}
      onChange={(event) => place(threadIx(Number(event.currentTarget.value)), at)}
    >
      {threads.map((thread) => (
        <option key={thread} value={thread}>
          {threadName(thread)}
        </option>
      ))}
    </select>
  );
}

export function CompareStacks() {
  const query = useMemo(
    () =>
      liveQuery<FlameDiffAnswer>(() => {
        const trace = store.trace.value;
        const threads = pair();
        if (trace === null || threads === null || !status.value.data?.ready.tables) return null;
        const { of, idle, where } = store.stacks.value;
        const params = {
          ...stacksParams(
            { ...store.selection.value, threads: [], process: null },
            of,
            idle,
            null,
            where,
          ),
          before: trace,
          after: trace,
          of,
          before_thread: threads.before,
          after_thread: threads.after,
        };
        return {
          key: JSON.stringify(params),
          subject: `${trace} ${of} ${threads.before} ${threads.after}`,
          fetch: (signal) => getJson("/api/diff/flame", params, signal),
        };
      }),
    [],
  );
  useEffect(() => query.stop, []);
  const threads = pair();
  if (threads === null)
    return (
      <p class="empty">
        Here, threads are compared, two at a time. Click on the name of one in the timeline, and on
        others with <kbd>Ctrl</kbd>.
      </p>
    );
  const { data, error, loading } = query.state.value;
  const [before, after] = [threadName(threads.before), threadName(threads.after)];
  const sides = {
    before: `in ${before}`,
    after: `in ${after}`,
    onlyBefore: `not in ${after}`,
    onlyAfter: `not in ${before}`,
  };
  const selected = store.selection.value.threads.length;
  const label = `Flame graph of ${selected === 2 ? "both" : `two of ${selected}`} threads`;
  return (
    <section class="stacks-compare" aria-label={label} data-ready={!loading}>
      <p>
        The widths are the times of <Choice at={1} label="Thread of the widths" />; ▲ takes longer
        there than in <Choice at={0} label="Thread to compare with" />, ▼ shorter.{" "}
        <button type="button" class="btn small" onClick={() => place(threads.before, 1)}>
          Swap both
        </button>
      </p>
      {error && <ErrorMessage error={error} retry={query.refetch} />}
      {!data && !error && <Busy what="Adding up the stacks of both …" />}
      {data && (
        <DiffTree
          answer={data}
          sides={sides}
          widths="after"
          menu={(name) => functionMenu(name, store.stacks.peek().of)}
        />
      )}
    </section>
  );
}
