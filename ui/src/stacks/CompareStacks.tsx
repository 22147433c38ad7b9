/** A differential flame graph of two selected threads: the stacks of one, by how the other differs. */
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

/** The two selected threads, the one whose times are the widths last; `null` if there are not two. */
function pair() {
  const [before, after, ...more] = store.selection.value.threads;
  return before === undefined || after === undefined || more.length > 0 ? null : { before, after };
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
        Here, two threads are compared. Click on the name of one in the timeline, and on the other
        with <kbd>Ctrl</kbd>.
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
  return (
    <section class="stacks-compare" aria-label="Flame graph of both threads" data-ready={!loading}>
      <p>
        The widths are the times of <strong>{after}</strong>; ▲ takes longer there than in {before},
        ▼ shorter.{" "}
        <button
          type="button"
          class="btn small"
          onClick={() => store.select({ threads: [threads.after, threads.before] })}
        >
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
