/** The page: the list of traces, or one trace with its view above and the timeline below. */
import { useEffect } from "preact/hooks";
import { Answers } from "../answer/Answers";
import { Overview } from "../answer/Overview";
import { isShown, server, status, summary } from "../api/data";
import { Diff } from "../diff/Diff";
import { ErrorMessage } from "../parts/ErrorMessage";
import { MenuHost } from "../parts/MenuHost";
import { Stacks } from "../stacks/Stacks";
import { openWithStart } from "../startView";
import * as store from "../state/store";
import { replacing } from "../state/url";
import { Tables } from "../table/Tables";
import { Timeline } from "../timeline/Timeline";
import { Traces } from "../traces/Traces";
import { durationText } from "../units";
import { Details } from "./Details";
import { Header } from "./Header";
import { Help } from "./Help";
import { Notices } from "./Notices";
import { Palette } from "./Palette";
import { SelectionBar } from "./SelectionBar";
import { Split } from "./Split";
import { TraceNotes } from "./TraceNotes";
import "./commands";

export function App() {
  const single = server.value.data?.single ?? null;
  useEffect(() => {
    if (single === null || store.trace.value !== null) return;
    replacing(() => {
      if (location.search === "") openWithStart(single);
      else store.trace.value = single;
    });
  }, [single]);
  return (
    <>
      <Header />
      {store.trace.value === null && store.diff.value !== null ? (
        <Diff />
      ) : store.trace.value === null ? (
        single === null && server.value.data !== null ? (
          <Traces />
        ) : (
          <ServerGone />
        )
      ) : (
        <OneTrace key={store.trace.value} />
      )}
      <Palette />
      <Help />
      <TraceNotes />
      <MenuHost />
      <Notices />
    </>
  );
}

function ServerGone() {
  const { error } = server.value;
  return (
    <main class="page-main">
      <h1 class="sr-only">Traces</h1>
      {error && <ErrorMessage error={error} />}
    </main>
  );
}

const VIEWS = { answers: Answers, tables: Tables, stacks: Stacks } as const;

function OneTrace() {
  const { data, error } = status.value;
  const failed = error ?? summary.value.error;
  if (failed) {
    return (
      <main class="page-main">
        <h1 class="page-title">{store.trace.value} cannot be shown</h1>
        <ErrorMessage error={failed} />
        <Leave />
      </main>
    );
  }
  if (data?.stage === "failed") {
    return (
      <main class="page-main">
        <h1 class="page-title">{store.trace.value} cannot be opened</h1>
        <div class="error-box" role="alert">
          <p class="error-message">{data.error}</p>
          <p class="dim">{data.hint}</p>
        </div>
        <Leave />
      </main>
    );
  }
  if (!isShown.value) return <Loading />;
  const View = VIEWS[store.view.value];
  return (
    <main class="page-main" aria-label="Trace">
      <Overview />
      <Gone />
      <Newest />
      <SelectionBar />
      <Split
        upper={
          <section
            class="view"
            id="view"
            role="tabpanel"
            aria-labelledby={`tab-${store.view.value}`}
          >
            <View />
            <Details />
          </section>
        }
        lower={
          <section class="lower" aria-label="Timeline">
            {store.layout.value === "timeline" && <h1 class="sr-only">Timeline</h1>}
            <Timeline />
          </section>
        }
      />
    </main>
  );
}

/** The file has vanished; what was read of it is still in the server. */
function Gone() {
  if (!status.value.data?.gone) return null;
  return (
    <p class="gone" role="status">
      The file of this trace was deleted, moved or renamed. What is loaded stays usable until you
      close it: copy what you need.
    </p>
  );
}

const percent = (share: number): number => Math.round(share * 100);

/** Of a long recording, the newest part is shown while the rest is read. */
function Newest() {
  const { data } = status.value;
  const whole = summary.value.data;
  if (data?.stage !== "newest" || !whole) return null;
  const shown = durationText(whole.duration_ns);
  const all = durationText(whole.from + whole.duration_ns);
  return (
    <p class="gone">
      <span role="status">
        The last {shown} of {all}. The rest is being read:
      </span>{" "}
      {/* No part of the status, which a screen reader says again at each change. */}
      {percent(data.progress)} %{" "}
      <progress max={100} value={percent(data.progress)} aria-label="The rest is being read" />
    </p>
  );
}

function Leave() {
  if (server.value.data?.single !== null) return null;
  return (
    <p class="leave">
      <button type="button" class="btn" onClick={() => store.openTrace(null)}>
        All traces
      </button>
    </p>
  );
}

const STAGES: Readonly<Record<string, string>> = {
  unopened: "Opening",
  reading: "Reading the file",
  indexing: "Indexing switches and wake-ups",
  newest: "Opening",
  judging: "Analysing the waits",
  ready: "Opening",
};

function Loading() {
  const { data } = status.value;
  const share = percent(data?.progress ?? 0);
  return (
    <main class="page-main loading">
      <h1>
        {STAGES[data?.stage ?? "unopened"]} … {share} %
      </h1>
      <progress max={100} value={share} aria-label="Progress" />
      <button type="button" class="btn" onClick={() => store.openTrace(null)}>
        Cancel
      </button>
    </main>
  );
}
