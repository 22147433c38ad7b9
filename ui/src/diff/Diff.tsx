/** Two traces side by side: both answers, both partitions with their difference, both flame graphs. */
import { batch } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Clauses } from "../answer/Clauses";
import { PartsBar } from "../answer/PartsBar";
import { getJson } from "../api/client";
import type { DiffAnswer, PartDiff } from "../api/diff";
import { liveQuery } from "../api/query";
import type { StallAnswer } from "../api/types";
import { copy } from "../copy";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import * as store from "../state/store";
import { durationText, signed, stallId, timeText } from "../units";
import { DiffFlame } from "./DiffFlame";
import { nameOf } from "./words";
import "./diff.css";

export function Diff() {
  const query = useMemo(
    () =>
      liveQuery<DiffAnswer>(() => {
        const diff = store.diff.value;
        if (diff === null) return null;
        const { before, after } = diff;
        return {
          key: JSON.stringify([before, after]),
          fetch: (signal) => getJson("/api/diff", { before, after }, signal),
        };
      }),
    [],
  );
  useEffect(() => query.stop, []);
  const { data, error } = query.state.value;
  const diff = store.diff.value;
  if (diff === null) return null;
  return (
    <main class="page-main diff" aria-label="Comparison" data-ready={data !== null}>
      <header class="diff-head">
        <h1>What differs</h1>
        <button type="button" class="btn small" onClick={swap}>
          Swap before and after
        </button>
        {data && (
          <button
            type="button"
            class="btn small"
            onClick={() => void copy(data.text, "the comparison as text")}
          >
            Copy as text
          </button>
        )}
        <button type="button" class="btn small" onClick={() => (store.diff.value = null)}>
          All traces
        </button>
      </header>
      {error && <ErrorMessage error={error} retry={query.refetch} />}
      {!data && !error && <Busy what="Reading both traces …" />}
      {data && <Both answer={data} before={diff.before} after={diff.after} />}
    </main>
  );
}

function swap(): void {
  const diff = store.diff.peek();
  if (diff) store.diff.value = { ...diff, before: diff.after, after: diff.before };
}

interface BothProps {
  answer: DiffAnswer;
  before: string;
  after: string;
}

function Both({ answer, before, after }: BothProps) {
  const longest = Math.max(answer.before?.duration_ns ?? 0, answer.after?.duration_ns ?? 0);
  return (
    <>
      <p class="diff-verdict">{verdict(answer)}</p>
      {answer.diff.incomparable.map((line) => (
        <p key={line} class="note">
          Caution: {line}.
        </p>
      ))}
      <div class="diff-sides">
        <Side title="Before" name={before} answer={answer.before} longest={longest} />
        <Side title="After" name={after} answer={answer.after} longest={longest} />
      </div>
      <Parts answer={answer} />
      <DiffFlame answer={answer} />
    </>
  );
}

/** The first line of what `unhitch diff` prints, without its label. */
function verdict({ text }: DiffAnswer): string {
  const line = text.split("\n")[0] ?? "";
  return line.replace(/^DIFFERENCE\s+/, "");
}

interface SideProps {
  title: string;
  name: string;
  answer: StallAnswer | null;
  /** The longer of both stalls: both bars have its scale. */
  longest: number;
}

function Side({ title, name, answer, longest }: SideProps) {
  const open = () =>
    batch(() => {
      store.openTrace(name);
      if (answer && answer.id > 0) store.openStall(stallId(answer.id), answer);
    });
  // Links lead to the timeline of an open trace; here is none.
  const clauses = answer?.clauses.map((clause) => ({ ...clause, links: [] })) ?? [];
  return (
    <section class="diff-side" aria-label={title}>
      <h2>
        {title}:{" "}
        <button type="button" class="text-link" title="Open this trace" onClick={open}>
          {name}
        </button>
      </h2>
      {answer === null ? (
        <p class="dim">The same thread did not wait here.</p>
      ) : (
        <>
          <Clauses clauses={clauses} kinds={["headline"]} />
          <p class="dim">
            {durationText(answer.duration_ns)} from {timeText(answer.from)}
          </p>
          <PartsBar
            id={`diff-${title}`}
            parts={answer.partition}
            of={longest}
            label={`Where the time went ${title.toLowerCase()}`}
          />
          <Clauses clauses={clauses} kinds={["cause", "evidence"]} />
        </>
      )}
    </section>
  );
}

function Parts({ answer }: { answer: DiffAnswer }) {
  const { partition, difference_ns } = answer.diff.stall;
  const sum = (of: (part: PartDiff) => number) => partition.reduce((ns, part) => ns + of(part), 0);
  const whole = sum((part) => part.difference_ns);
  return (
    <section aria-label="Where the difference is">
      <h2 class="section-title">Where the difference is</h2>
      <table class="parts diff-parts">
        <thead>
          <tr>
            {["before", "after", "difference"].map((head) => (
              <th scope="col" class="num" key={head}>
                {head}
              </th>
            ))}
            <th scope="col">what the time went to</th>
          </tr>
        </thead>
        <tbody>
          {partition.map((part) => (
            <tr key={`${part.label} ${nameOf(part.who)}`}>
              <td class="num">{durationText(part.before_ns)}</td>
              <td class="num">{durationText(part.after_ns)}</td>
              <td class={`num ${part.difference_ns > 0 ? "worse" : "better"}`}>
                {signed(part.difference_ns)}
              </td>
              <td>
                {part.label} {nameOf(part.who)}
              </td>
            </tr>
          ))}
          <tr class="sum" data-sum={whole} data-difference={difference_ns}>
            <td class="num">{durationText(sum((part) => part.before_ns))}</td>
            <td class="num">{durationText(sum((part) => part.after_ns))}</td>
            <td class="num">{signed(whole)}</td>
            <td>
              {whole === difference_ns
                ? "the difference of both lengths, to the nanosecond"
                : "WARNING: not the whole difference. That is a bug."}
            </td>
          </tr>
        </tbody>
      </table>
    </section>
  );
}
