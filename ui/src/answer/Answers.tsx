/** The Answers view, which the page opens with: the list of stalls and the open stall's answer. */
import { batch, effect } from "@preact/signals";
import { getText, tracePath } from "../api/client";
import { rememberName, stallDetail, stalls, summary } from "../api/data";
import { asApiError } from "../api/query";
import type { ChainLink, StallAnswer } from "../api/types";
import { whoText } from "../api/who";
import { copy, download, svgToPng } from "../copy";
import { navigateTo } from "../navigate";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { openMenu } from "../parts/MenuHost";
import { svgText } from "../parts/svg";
import * as store from "../state/store";
import { replacing } from "../state/url";
import { durationText, plural, timeText } from "../units";
import { Clauses } from "./Clauses";
import { Compare } from "./Compare";
import { Partition } from "./Partition";
import { StallList } from "./StallList";
import { tenthsOf, toldShare } from "./shares";
import { markdown } from "./spans";
import "./answer.css";

/**
 * The trace whose worst stall was opened automatically, so that the view starts with an answer; or
 * the stall that it was opened for.
 */
let openedFor: string | null = null;
let lastView = store.view.peek();
effect(() => {
  const wanted = store.unplaced.peek();
  const first = stalls.value.data?.stalls.find(({ id }) => wanted === null || id === wanted);
  const trace = store.trace.value;
  const view = store.view.value;
  const cameHere = view !== lastView;
  lastView = view;
  if (trace === null) openedFor = null;
  // The trace's extent, which places the stall, comes with the summary.
  if (!first || trace === null || summary.value.data === null || openedFor === trace) return;
  if (view !== "answers") return;
  openedFor = trace;
  const untouched =
    store.stall.peek() === wanted &&
    store.shown.peek() === null &&
    // A stall closes the event that an address names.
    (cameHere || store.event.peek() === null) &&
    !store.isSelecting(store.selection.peek());
  if (!untouched) return;
  const open = () => store.openStall(first.id, first);
  // From another view, it is part of what the user did: Back leads to that view.
  if (cameHere) open();
  else replacing(open);
});

export function Answers() {
  return (
    <div class="answers">
      {/* Without stalls, it has nothing that can be focused, but may need to be scrolled. */}
      <nav
        class="answers-list"
        aria-label="Stalls"
        tabIndex={stalls.value.data?.stalls.length ? undefined : 0}
      >
        <StallList />
      </nav>
      <div class="answers-text" tabIndex={-1}>
        <Open />
      </div>
    </div>
  );
}

function Open() {
  const { data, error, loading } = stallDetail.value;
  const { threads, range } = store.selection.value;
  if (store.stall.value === null && threads.length > 1 && range !== null) return <Compare />;
  if (store.stall.value === null && !store.canExplain.value) {
    const none = stalls.value.data?.stalls.length === 0;
    if (none && summary.value.data?.switches === 0)
      return (
        <div class="empty">
          <h1>No answer</h1>
          <p>
            This recording holds no context switches, so nothing shows who waited for whom. Tables
            and Stacks show what it does hold.
          </p>
        </div>
      );
    return (
      <div class="empty">
        <h1>{none ? "No stall was found" : "No stall is open"}</h1>
        {store.selection.value.threads.length > 1 && store.selection.value.range === null && (
          <p>Drag in the timeline to select a time: then the selected threads are compared here.</p>
        )}
        {none ? (
          <>
            <p>Nothing hung long enough to report. Still, any wait can be explained:</p>
            <ol>
              <li>Click a thread in the timeline below.</li>
              <li>Drag over the time in question, on its lane.</li>
              <li>
                Press <kbd>E</kbd>, or choose <em>Explain</em> in the box that appears.
              </li>
            </ol>
            <p>Tables and Stacks show what all threads did.</p>
          </>
        ) : (
          <p>Choose a stall on the left or in the overview above.</p>
        )}
      </div>
    );
  }
  if (error || !data)
    return (
      <>
        <h1 class="sr-only">Answer</h1>
        {error ? <ErrorMessage error={error} /> : <Busy what="Following the wait chain …" />}
      </>
    );
  return <Answer answer={data} stale={loading} />;
}

function Answer({ answer, stale }: { answer: StallAnswer; stale: boolean }) {
  for (const lane of answer.lanes) rememberName(lane.who);
  const { clauses } = answer;
  const chain = clauses.filter((clause) => clause.kind === "chain");
  return (
    <article class="answer" data-answer={answer.id} aria-busy={stale} aria-labelledby="answer-head">
      <header class="answer-head">
        <h1 id="answer-head">
          <Clauses clauses={clauses} kinds={["headline"]} />
        </h1>
        <button
          type="button"
          class="btn"
          aria-haspopup="menu"
          onClick={(event) => openMenu("Copy the answer", copies(answer), event.currentTarget)}
        >
          Copy ▾
        </button>
      </header>
      <div class="cause-box">
        <Clauses clauses={clauses} kinds={["cause"]} />
        <Clauses clauses={clauses} kinds={["evidence"]} />
        <Clauses clauses={clauses} kinds={["remedy"]} />
      </div>
      <Partition answer={answer}>
        <div class="story">
          <Clauses clauses={clauses} kinds={["story", "groups", "machine", "input"]} />
        </div>
      </Partition>
      {chain.length > 0 && (
        <section aria-label="Wait chain">
          <h2 class="section-title">
            Wait chain
            <ChainButtons answer={answer} stale={stale} />
          </h2>
          <LinkDetails answer={answer} />
          <div class="chain">
            <Clauses clauses={chain} kinds={["chain"]} />
          </div>
        </section>
      )}
    </article>
  );
}

/** Buttons for what `[` and `]` do: step along the chain; not if it is about to be another one. */
function ChainButtons({ answer, stale }: { answer: StallAnswer; stale: boolean }) {
  const at = store.chainLink.value;
  const go = (to: number) => {
    const link = answer.chain[to];
    if (!link) return;
    batch(() => {
      store.chainLink.value = to;
      navigateTo({ lane: link.lane, from: link.from, to: link.to });
    });
  };
  const last = answer.chain.length - 1;
  return (
    <span class="walk">
      <button
        type="button"
        class="btn small"
        disabled={stale || at === 0}
        onClick={() => go(at === null ? last : at - 1)}
        title="Earlier ( [ )"
      >
        ‹ earlier
      </button>
      <button
        type="button"
        class="btn small"
        disabled={stale || at === last}
        onClick={() => go(at === null ? 0 : at + 1)}
        title="Later ( ] )"
      >
        later ›
      </button>
      <span class="dim" data-link={at ?? ""}>
        {at === null
          ? plural(answer.chain.length, "link")
          : `link ${at + 1} of ${answer.chain.length}`}
      </span>
    </span>
  );
}

function LinkDetails({ answer }: { answer: StallAnswer }) {
  const link = store.chainLink.value === null ? undefined : answer.chain[store.chainLink.value];
  if (!link) return null;
  return (
    <div class="link-details">
      <p>
        <strong>{whoText(link.who)}</strong> {doing(link)} for {durationText(link.ns)} from{" "}
        {timeText(link.from, 1000)}
        {link.wake && (
          <>
            , until{" "}
            <button
              type="button"
              class="text-link"
              onClick={() =>
                link.wake &&
                navigateTo({
                  lane: link.wake.by_lane,
                  from: link.wake.at,
                  to: null,
                  event: link.wake.waking === null ? null : { waking: link.wake.waking },
                })
              }
            >
              {link.wake.by ? whoText(link.wake.by) : "an interrupt"}
            </button>{" "}
            woke it ({link.wake.context.replaceAll("_", " ")}
            {link.wake.source && `, ${link.wake.source}`}; {link.wake.evidence} evidence)
          </>
        )}
        .
      </p>
      {link.stack && <p class="clause quoted">{link.stack.told}</p>}
      {link.wake?.stack && <p class="clause quoted">woken from {link.wake.stack.told}</p>}
    </div>
  );
}

function doing(link: ChainLink): string {
  if (link.state === "running") return "ran";
  if (link.state === "runnable") return "waited for a CPU";
  return link.class ? `waited (${link.class.replaceAll("_", " ")})` : "slept";
}

/** Downloads the file that `unhitch report` writes. */
function fetchReport(): void {
  const trace = store.trace.peek();
  if (trace === null) return;
  store.notify("Writing the report …");
  void getText(tracePath(trace, "report")).then(
    (html) => download(`${trace}.html`, new Blob([html], { type: "text/html" })),
    (error: unknown) => store.notify(asApiError(error).message),
  );
}

function copies(answer: StallAnswer) {
  const headline =
    answer.clauses.find((clause) => clause.kind === "headline")?.text.trim() ?? answer.headline;
  const tenths = tenthsOf(answer.partition);
  const parts = answer.partition.map((part) => ({
    label: part.label,
    who: part.who ? whoText(part.who) : "",
    time: durationText(part.ns),
    share: toldShare([part], tenths),
  }));
  const pictures = () => {
    const found = ["overview-picture", "partition-picture"].map((id) =>
      document.getElementById(id),
    );
    return svgText(
      found.filter(
        (element): element is SVGSVGElement & HTMLElement => element instanceof SVGSVGElement,
      ),
      headline,
    );
  };
  const name = `${store.trace.value ?? "trace"}-stall-${answer.id}`;
  return [
    { title: "Answer as text", run: () => void copy(answer.text, "the answer as text") },
    {
      title: "Answer as Markdown",
      run: () => void copy(markdown(headline, answer.clauses, parts), "the answer as Markdown"),
    },
    {
      title: "Answer as JSON",
      run: () => void copy(JSON.stringify(answer, null, 2), "the answer as JSON"),
    },
    { title: "Report on the trace as one HTML file", run: () => fetchReport() },
    { title: "Link to this view", run: () => void copy(location.href, "the link") },
    {
      title: "Picture as SVG",
      run: () => download(`${name}.svg`, new Blob([pictures().svg], { type: "image/svg+xml" })),
    },
    {
      title: "Picture as PNG",
      run: () => {
        const { svg, width, height } = pictures();
        void svgToPng(svg, width, height).then(
          (blob) => download(`${name}.png`, blob),
          () => store.notify("The picture could not be rendered."),
        );
      },
    },
  ];
}
