/** The differential flame graph of two traces, with its choices. */
import { useEffect, useMemo } from "preact/hooks";
import { getJson } from "../api/client";
import type { DiffAnswer, FlameDiffAnswer } from "../api/diff";
import { stacksParams } from "../api/params";
import { liveQuery } from "../api/query";
import type { StallAnswer } from "../api/types";
import { DiffTree, type Sides } from "../flame/DiffTree";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import * as store from "../state/store";
import { threadIx } from "../units";

const TRACES: Sides = { before: "before", after: "after", onlyBefore: "gone", onlyAfter: "new" };

const KINDS: Readonly<Record<store.StackKind, string>> = {
  wait: "Waits",
  wake: "Wakes",
  sample: "Samples",
};

/** The idle thread, which has no stacks of its own. */
const NOBODY = threadIx(0);

/** A side's part of the request: the victim's time in its stall, or the whole recording. */
function sideParams(side: "before" | "after", answer: StallAnswer | null) {
  if (store.diff.value?.within !== "stall") return {};
  // Where the thread did not wait, nothing is compared, rather than everything.
  if (answer === null) return { [`${side}_thread`]: NOBODY };
  return {
    [`${side}_from`]: answer.from,
    [`${side}_to`]: answer.to,
    [`${side}_thread`]: answer.victim === null ? null : threadIx(answer.victim.thread),
  };
}

export function DiffFlame({ answer }: { answer: DiffAnswer }) {
  const query = useMemo(
    () =>
      liveQuery<FlameDiffAnswer>(() => {
        const diff = store.diff.value;
        if (diff === null) return null;
        const params = {
          before: diff.before,
          after: diff.after,
          of: diff.of,
          where: stacksParams(store.NO_SELECTION, diff.of, false, null).where,
          ...sideParams("before", answer.before),
          ...sideParams("after", answer.after),
        };
        return {
          key: JSON.stringify(params),
          subject: `${diff.before} ${diff.after}`,
          fetch: (signal) => getJson("/api/diff/flame", params, signal),
        };
      }),
    [answer],
  );
  useEffect(() => query.stop, [query]);
  const { data, error, loading } = query.state.value;
  return (
    <section class="diff-flame" aria-label="Flame graph of both" data-ready={!loading}>
      <h2 class="section-title">Where the time went, as a flame graph</h2>
      <Choices />
      {error && <ErrorMessage error={error} retry={query.refetch} />}
      {!data && !error && <Busy what="Adding up the stacks of both …" />}
      {data && (
        <DiffTree
          answer={data}
          sides={TRACES}
          widths={store.diff.value?.widths ?? "after"}
          perSecond={store.diff.value?.within === "all"}
        />
      )}
    </section>
  );
}

function Choices() {
  const diff = store.diff.value;
  if (diff === null) return null;
  const set = (change: Partial<store.DiffState>) => (store.diff.value = { ...diff, ...change });
  const choice = (title: string, on: boolean, change: Partial<store.DiffState>) => (
    <button type="button" class="btn small" aria-pressed={on} onClick={() => set(change)}>
      {title}
    </button>
  );
  return (
    <p class="diff-choices">
      <span role="group" aria-label="Stacks">
        {store.STACK_KINDS.map((kind) => choice(KINDS[kind], diff.of === kind, { of: kind }))}
      </span>
      <span role="group" aria-label="Direction">
        {choice("Widths of before", diff.widths === "before", { widths: "before" })}
        {choice("Widths of after", diff.widths === "after", { widths: "after" })}
      </span>
      <span role="group" aria-label="Time">
        {choice("The victim's stall", diff.within === "stall", { within: "stall" })}
        {choice("Whole recordings", diff.within === "all", { within: "all" })}
      </span>
    </p>
  );
}
