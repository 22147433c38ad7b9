/** What the threads did whose lanes the last drag crossed, in the time that it selected. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { threadItems } from "../actions";
import { MAX_THREADS, useExplained } from "../answer/explained";
import { PartsBar } from "../answer/PartsBar";
import { shareText, shownShares, tenthsOf, toldShare } from "../answer/shares";
import { threadName } from "../api/data";
import type { StallAnswer } from "../api/types";
import { menuOf } from "../parts/MenuHost";
import * as store from "../state/store";
import { durationText, lengthOf, plural } from "../units";

export function Swept() {
  return store.sweptAlone.value.length > 0 ? <Card /> : null;
}

function Card() {
  const card = useRef<HTMLElement>(null);
  // Many of its buttons remove it: the keyboard's user goes on at the lanes.
  useLayoutEffect(() => {
    const element = card.current;
    return () => {
      if (element?.querySelector(":focus-visible"))
        element.parentElement?.querySelector<HTMLElement>(".tl-tree")?.focus();
    };
  }, []);
  const { data, error, loading } = useExplained(() => ({
    threads: store.sweptAlone.value,
    range: store.selection.value.range,
  }));
  const threads = store.sweptAlone.value;
  const { range } = store.selection.value;
  if (range === null) return null;
  // One thread has room for more.
  const lines = threads.length === 1 ? 5 : 2;
  return (
    <section ref={card} class="tl-swept" aria-label="The lanes of the drag" aria-busy={loading}>
      <header>
        <h2>
          {threads.length === 1 ? "" : `${plural(threads.length, "thread")}, `}
          {durationText(lengthOf(range))}
          {threads.length > MAX_THREADS && <span class="dim"> (the first {MAX_THREADS})</span>}
        </h2>
        <button
          type="button"
          class="btn small"
          title="The whole answer, with the wait chain (E)"
          onClick={store.explain}
        >
          {threads.length === 1 ? "Explain" : "Compare"}
        </button>
        <button
          type="button"
          class="btn small"
          aria-label="Close the lanes of the drag"
          onClick={() => (store.swept.value = [])}
        >
          ✕
        </button>
      </header>
      {error && <p role="alert">{error.message}</p>}
      <dl aria-label="Where the time went">
        {(data ?? []).map(({ thread, answer, problem }) => (
          <div key={thread} data-swept={thread}>
            <dt>
              <button
                type="button"
                class="text-link"
                title="Filter all views by this thread"
                onClick={() => store.select({ threads: [thread] })}
                onContextMenu={menuOf(threadName(thread), () => threadItems(thread, range))}
              >
                {threadName(thread)}
              </button>
            </dt>
            <dd>
              {answer ? (
                <>
                  <PartsBar
                    id={`swept-${thread}`}
                    parts={answer.partition}
                    of={answer.duration_ns}
                  />
                  <Lines answer={answer} max={lines} />
                </>
              ) : (
                problem
              )}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Lines({ answer, max }: { answer: StallAnswer; max: number }) {
  const tenths = tenthsOf(answer.partition);
  return (
    <ul>
      {shownShares(answer.partition, max)
        .slice(0, max)
        .map((share) => (
          <li key={shareText(share)}>
            <span class="num">{toldShare(share.members, tenths)}</span> {shareText(share)}
          </li>
        ))}
    </ul>
  );
}
