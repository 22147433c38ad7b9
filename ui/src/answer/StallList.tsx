/**
 * The stalls, worst first, each with its cause; those outside the selection are listed separately.
 */
import { tableOf, threadItems } from "../actions";
import { matchesSelection, stalls, status } from "../api/data";
import type { StallEntry } from "../api/types";
import { whoText } from "../api/who";
import { copy } from "../copy";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { type MenuItem, openMenu } from "../parts/MenuHost";
import * as store from "../state/store";
import { durationText, plural, range, timeText } from "../units";

/** Short names of the kinds of stall. */
const KINDS: Readonly<Record<string, string>> = {
  event_loop: "did not respond",
  unwanted_wait: "unwanted wait",
  cpu_starvation: "got no CPU",
  lock_starvation: "never got its lock",
  machine: "whole machine",
  mark: "at a mark",
  ui_delay: "UI delay",
  input: "input",
};

/** Maximum stalls listed; the Tables view has all of them. */
const MAX_STALLS = 200;

export function StallList() {
  const { data, error } = stalls.value;
  if (error) return <ErrorMessage error={error} />;
  if (!data)
    return (
      <Busy
        what={`Analysing the waits … ${Math.round((status.value.data?.progress ?? 0) * 100)} %`}
      />
    );
  if (data.stalls.length === 0)
    return (
      <div class="empty">
        <p>{data.nothing}</p>
        {data.advice && <p class="dim">{data.advice}</p>}
      </div>
    );
  const selection = store.selection.value;
  // An open stall selects its own time, which must not shorten the list.
  const restricts =
    selection.threads.length > 0 ||
    selection.process !== null ||
    (selection.range !== null && store.stall.value === null);
  const inside = restricts
    ? data.stalls.filter((entry) => matchesSelection(entry, selection))
    : data.stalls;
  const outside = restricts
    ? data.stalls.filter((entry) => !matchesSelection(entry, selection))
    : [];
  return (
    <>
      <h2 class="side-title">{plural(inside.length, "stall")}</h2>
      <ol class="stalls">
        {inside.slice(0, MAX_STALLS).map((entry) => (
          <Row key={entry.id} entry={entry} />
        ))}
      </ol>
      {inside.length > MAX_STALLS && (
        <p class="note">
          The {MAX_STALLS} worst.{" "}
          <button type="button" class="text-link" onClick={() => tableOf("stalls", {})}>
            All {plural(inside.length, "stall")} as a table
          </button>
        </p>
      )}
      {outside.length > 0 && (
        <>
          <h2 class="side-title dim">{plural(outside.length, "stall")} outside the selection</h2>
          <ol class="stalls outside">
            {outside.slice(0, MAX_STALLS).map((entry) => (
              <Row key={entry.id} entry={entry} />
            ))}
          </ol>
        </>
      )}
    </>
  );
}

function stallItems(entry: StallEntry): MenuItem[] {
  const time = range(entry.from, entry.to);
  const text = `${durationText(entry.duration_ns)} from ${timeText(entry.from)}: ${entry.cause}`;
  return [
    { title: "Open it", run: () => store.openStall(entry.id, entry) },
    { title: "Select its time range", run: () => store.select({ range: time }) },
    ...(entry.victim ? threadItems(entry.victim.thread, time) : []),
    { title: "Copy the line", run: () => void copy(text, "the line") },
  ];
}

function Row({ entry }: { entry: StallEntry }) {
  const open = store.stall.value === entry.id;
  const others = entry.victims > 1 ? ` +${entry.victims - 1}` : "";
  return (
    <li>
      <button
        type="button"
        class={open ? "stall open" : "stall"}
        aria-current={open ? "true" : undefined}
        data-stall-row={entry.id}
        onClick={() => store.openStall(entry.id, entry)}
        onContextMenu={(event) => {
          event.preventDefault();
          openMenu(`Stall ${entry.id}`, stallItems(entry), { x: event.clientX, y: event.clientY });
        }}
      >
        <span class="stall-head">
          <span class="severity" aria-hidden="true">
            <span style={{ height: `${Math.max(8, entry.severity * 100)}%` }} />
          </span>
          <strong>{durationText(entry.duration_ns)}</strong>
          <span class="stall-who">
            {entry.victim ? whoText(entry.victim) + others : "whole machine"}
          </span>
        </span>
        <span class="stall-cause">{entry.cause}</span>
        <span class="stall-meta">
          #{entry.id} · {KINDS[entry.kind] ?? entry.kind.replaceAll("_", " ")} · at{" "}
          {timeText(entry.from)}
          {entry.evidence !== "direct" && <em class="tag"> {entry.evidence}</em>}
        </span>
      </button>
    </li>
  );
}
