/** Search: highlights as it is typed; what is found can be walked through, selected (which filters), or opened as a butterfly. */
import { effect, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { getJson, tracePath } from "../api/client";
import { rememberName } from "../api/data";
import { liveQuery } from "../api/query";
import type { SearchResult } from "../api/types";
import { whoText } from "../api/who";
import * as store from "../state/store";
import { count } from "../units";
import { searchFocus } from "./panels";

interface SearchEntry {
  readonly id: string;
  readonly kind: string;
  readonly name: string;
  readonly more: string;
  readonly go: () => void;
}

/** Milliseconds after the last key before the server is asked. */
const SEARCH_DELAY_MS = 150;

export function SearchBox() {
  const field = useRef<HTMLInputElement>(null);
  const open = useSignal(false);
  const at = useSignal(0);
  const enterPending = useSignal(false);
  const asked = useSignal(store.search.value);
  const regex = /^\/.*\/$/.test(asked.value);
  const found = useMemo(
    () =>
      liveQuery<SearchResult>(() => {
        const trace = store.trace.value;
        const text = asked.value;
        if (trace === null || text.length < 2) return null;
        const isRegex = /^\/.+\/$/.test(text);
        const params = {
          q: isRegex ? text.slice(1, -1) : text,
          regex: isRegex ? 1 : 0,
          limit: 30,
        };
        return {
          key: JSON.stringify([trace, params]),
          subject: trace,
          fetch: (signal) => getJson(tracePath(trace, "search"), params, signal),
        };
      }),
    [],
  );
  useEffect(() => found.stop, []);
  // At once: an effect of a component waits for a frame, and the letters typed meanwhile would be commands.
  useEffect(
    () =>
      effect(() => {
        if (searchFocus.value === 0) return;
        field.current?.focus();
        field.current?.select();
      }),
    [],
  );
  useSignalEffect(() => {
    const text = store.search.value;
    const timer = setTimeout(() => (asked.value = text), SEARCH_DELAY_MS);
    return () => clearTimeout(timer);
  });

  const { data, error, loading } = found.state.value;
  // What is shown may still be about the letters before the last one.
  const stale = loading || asked.value !== store.search.value;
  // Afterwards the page's own keys work again.
  const leave = () => {
    open.value = false;
    field.current?.blur();
  };
  const hits = data ? hitsOf(data, leave) : [];
  const total = data ? data.total.threads + data.total.processes + data.total.functions : 0;
  // Enter that came before the answer takes its first line as soon as it is there.
  useEffect(() => {
    if (!enterPending.value || stale) return;
    enterPending.value = false;
    hits[0]?.go();
  });
  const current = Math.min(at.value, Math.max(0, hits.length - 1));

  return (
    <div
      class="search"
      onFocusOut={(event) =>
        !event.currentTarget.contains(event.relatedTarget as Node | null) && (open.value = false)
      }
    >
      <input
        ref={field}
        role="combobox"
        aria-label="Search threads, processes and functions; /…/ for a regular expression"
        aria-expanded={open.value && hits.length > 0}
        aria-controls="search-hits"
        aria-activedescendant={open.value && hits[current] ? hits[current].id : undefined}
        aria-invalid={error !== null}
        placeholder="Search  ( / )"
        spellcheck={false}
        value={store.search.value}
        onFocus={() => (open.value = true)}
        onInput={(event) => {
          store.search.value = event.currentTarget.value;
          open.value = true;
          at.value = 0;
          enterPending.value = false;
        }}
        onKeyDown={(event) => {
          const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (move !== undefined && hits.length > 0)
            at.value = (current + move + hits.length) % hits.length;
          else if (event.key === "Enter") {
            if (stale) {
              asked.value = store.search.value;
              enterPending.value = true;
            } else hits[current]?.go();
          } else if (event.key === "Escape") {
            if (open.value) open.value = false;
            else store.search.value = "";
            if (!open.value) field.current?.blur();
          } else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      {store.search.value.length >= 2 && (
        <span class="search-count" aria-live="polite" data-found={stale ? "" : total}>
          {error ? "!" : loading && !data ? "…" : count(total)}
        </span>
      )}
      {open.value && store.search.value.length >= 2 && (data !== null || error !== null) && (
        <div class="search-hits">
          {error && <p class="search-note bad">{error.message}</p>}
          <ul id="search-hits" role="listbox" aria-label="What was found">
            {hits.map((hit, i) => (
              <li
                key={hit.id}
                id={hit.id}
                role="option"
                aria-selected={i === current}
                class={i === current ? "hit current" : "hit"}
                onPointerDown={(event) => event.preventDefault()}
                onClick={hit.go}
              >
                <span class="hit-kind">{hit.kind}</span>
                <span class="hit-name">{hit.name}</span>
                <span class="dim">{hit.more}</span>
              </li>
            ))}
          </ul>
          {data && (
            <p class="search-note dim">
              {total === 0
                ? "Nothing is called so."
                : hits.length < total
                  ? `The first ${hits.length} of ${count(total)}.`
                  : "All of them."}{" "}
              {regex ? "Regular expression." : "/…/ is a regular expression."} Enter selects, which
              filters; the text itself only highlights.
            </p>
          )}
        </div>
      )}
    </div>
  );
}

function hitsOf(found: SearchResult, close: () => void): SearchEntry[] {
  const hits: SearchEntry[] = [];
  for (const thread of found.threads) {
    hits.push({
      id: `hit-t${thread.who.thread}`,
      kind: "thread",
      name: whoText(thread.who),
      more: "",
      go: () => {
        rememberName(thread.who);
        store.select({ thread: thread.who.thread, process: null });
        store.reveal.value = { lane: thread.lane, at: store.window.value.from };
        close();
      },
    });
  }
  for (const process of found.processes) {
    hits.push({
      id: `hit-p${process.process}`,
      kind: "process",
      name: `${process.name} ${process.pid}`,
      more: process.command_line,
      go: () => {
        store.select({ process: process.process, thread: null });
        close();
      },
    });
  }
  found.functions.forEach((f, i) => {
    const of = f.waits > 0 ? "wait" : f.wakes > 0 ? "wake" : "sample";
    hits.push({
      id: `hit-f${i}`,
      kind: "function",
      name: f.name,
      more:
        "stacks: " +
        [
          f.waits && `${count(f.waits)} wait`,
          f.wakes && `${count(f.wakes)} wake`,
          f.samples && `${count(f.samples)} sample`,
        ]
          .filter(Boolean)
          .join(", "),
      go: () => {
        store.stacks.value = {
          ...store.stacks.value,
          of,
          form: "butterfly",
          by: "function",
          function: f.name,
        };
        store.view.value = "stacks";
        if (store.layout.value === "timeline") store.layout.value = "split";
        close();
      },
    });
  });
  return hits;
}
