/** The details panel: one event of the trace, with its full stack. */
import { useMemo } from "preact/hooks";
import { threadItems } from "../actions";
import { getJson, tracePath } from "../api/client";
import { isNewest, rememberName } from "../api/data";
import { liveQuery } from "../api/query";
import type { EventAnswer, Who } from "../api/types";
import { whoText } from "../api/who";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { menuOf } from "../parts/MenuHost";
import { StackFrames } from "../stacks/StackFrames";
import * as store from "../state/store";
import { durationText, timeText } from "../units";

export function Details() {
  return store.event.value === null ? null : <Open />;
}

function Open() {
  const { state } = useMemo(
    () =>
      liveQuery<EventAnswer>(() => {
        const trace = store.trace.value;
        const event = store.event.value;
        if (trace === null || event === null) return null;
        // The address names it by its number in the whole trace.
        if (isNewest.value) return null;
        return {
          key: `${trace} ${event.kind} ${event.index}`,
          subject: event.kind,
          fetch: (signal) =>
            getJson(tracePath(trace, "event"), { [event.kind]: event.index }, signal),
        };
      }),
    [],
  );
  const { data, error } = state.value;
  return (
    <aside class="details" aria-label="Event" data-event={data ? `${data.kind}-${data.index}` : ""}>
      <header>
        <h2>{data ? TITLES[data.kind] : "Event"}</h2>
        <button
          type="button"
          class="btn small"
          aria-label="Close the event"
          onClick={() => (store.event.value = null)}
        >
          ✕
        </button>
      </header>
      {error && <ErrorMessage error={error} />}
      {!data && !error && <Busy what="Loading the event …" />}
      {data && <EventFields event={data} />}
    </aside>
  );
}

const TITLES = {
  switch: "Context switch",
  waking: "Wake-up",
  sample: "CPU sample",
  provider: "Provider event",
} as const;

function EventFields({ event }: { event: EventAnswer }) {
  const rows: [string, string | Who][] = [
    ["at", timeText(event.time, 1)],
    ["CPU", String(event.cpu)],
  ];
  if (event.kind === "switch") {
    rows.push(
      ["off CPU", event.prev],
      ["state", event.prev_state],
      ["on CPU", event.next],
      ["priority", `${event.prev_prio} → ${event.next_prio}`],
    );
  } else if (event.kind === "waking") {
    if (event.by) rows.push(["waker", event.by]);
    rows.push(
      ["woken", event.of],
      ["context", event.context.replaceAll("_", " ")],
      ["target CPU", String(event.target_cpu)],
    );
    if (event.ended_sleep_ns !== null)
      rows.push(["ended a wait of", durationText(event.ended_sleep_ns)]);
    if (event.redundant) rows.push(["redundant", "the thread was already awake"]);
  } else if (event.kind === "sample") {
    rows.push(["executing", event.who]);
  } else {
    rows.push(
      ["event", event.name ?? "unknown"],
      ["provider", event.provider ?? "unknown"],
      ["thread", event.who],
    );
    for (const { name, value } of event.fields) rows.push([name || "payload", value]);
  }
  return (
    <>
      <dl class="facts">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{typeof value === "string" ? value : <ThreadButton who={value} />}</dd>
          </div>
        ))}
      </dl>
      {event.stack ? (
        <StackFrames stack={event.stack} />
      ) : (
        <p class="dim">No stack was recorded.</p>
      )}
    </>
  );
}

function ThreadButton({ who }: { who: Who }) {
  // An unknown thread is in no list, so nothing can be filtered by it.
  if (who.tid < 0) return <>{whoText(who)}</>;
  rememberName(who);
  if (who.tid === 0) return <>nobody (idle)</>;
  return (
    <button
      type="button"
      class="text-link"
      title="Filter all views by this thread"
      onClick={() => store.select({ threads: [who.thread] })}
      onContextMenu={menuOf(whoText(who), () => threadItems(who.thread, null))}
    >
      {whoText(who)}
    </button>
  );
}
