/**
 * The stalls, worst first, each with its cause; those outside the selection are listed separately.
 */
import { matchesSelection, stalls, status } from "../api/data";
import type { StallEntry } from "../api/types";
import { whoText } from "../api/who";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import * as store from "../state/store";
import { durationText, plural, timeText } from "../units";

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

/** Why there is nothing. Where the page can do what a command line would, it leaves that out. */
function nothingText(nothing: string | null | undefined): string {
  const text = nothing ?? "No stall was found.";
  const at = text.indexOf(" If something did hang");
  return at < 0 ? text : text.slice(0, at);
}

export function StallList() {
  const { data, error } = stalls.value;
  if (error) return <ErrorMessage error={error} />;
  if (!data)
    return (
      <Busy
        what={`Analysing the waits … ${Math.round((status.value.data?.progress ?? 0) * 100)} %`}
      />
    );
  if (data.stalls.length === 0) return <p class="empty">{nothingText(data.nothing)}</p>;
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
          <button
            type="button"
            class="text-link"
            onClick={() => {
              store.table.value = { ...store.NO_TABLE, preset: "stalls", table: "stalls" };
              store.view.value = "tables";
            }}
          >
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
