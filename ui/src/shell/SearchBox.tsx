/**
 * The search box. Typing highlights; a hit can be selected, which filters, or opened as a
 * butterfly.
 */
import {
  batch,
  effect,
  type ReadonlySignal,
  type Signal,
  useSignal,
  useSignalEffect,
} from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { getJson, tracePath } from "../api/client";
import { rememberName } from "../api/data";
import { liveQuery, type QueryState } from "../api/query";
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

/** The request is sent this long after the last key. */
const SEARCH_DELAY_MS = 150;
const MAX_HITS = 30;
/** A shorter text would match nearly everything. */
const MIN_LENGTH = 2;

interface Search {
  readonly state: ReadonlySignal<QueryState<SearchResult>>;
  /** The text that was sent to the server. */
  readonly sent: Signal<string>;
}

/** Searches the open trace for the search text, once the user pauses. */
function useSearch(): Search {
  const sent = useSignal(store.search.value);
  const query = useMemo(
    () =>
      liveQuery<SearchResult>(() => {
        const trace = store.trace.value;
        const text = sent.value;
        if (trace === null || text.length < MIN_LENGTH) return null;
        const regex = /^\/(.+)\/$/.exec(text)?.[1];
        const params = {
          q: regex ?? text,
          regex: regex === undefined ? 0 : 1,
          limit: MAX_HITS,
        };
        return {
          key: JSON.stringify([trace, params]),
          subject: trace,
          fetch: (signal) => getJson(tracePath(trace, "search"), params, signal),
        };
      }),
    [],
  );
  useEffect(() => query.stop, []);
  useSignalEffect(() => {
    const text = store.search.value;
    const timer = setTimeout(() => {
      sent.value = text;
    }, SEARCH_DELAY_MS);
    return () => clearTimeout(timer);
  });
  return { state: query.state, sent };
}

/** Focuses the field on request. */
function useFocusRequests(field: RefObject<HTMLInputElement | null>): void {
  // A signal's effect, because a component's waits for a frame: letters typed meanwhile would run
  // commands.
  useEffect(
    () =>
      effect(() => {
        if (searchFocus.value === 0) return;
        field.current?.focus();
        field.current?.select();
      }),
    [],
  );
}

const totalOf = ({ total }: SearchResult): number =>
  total.threads + total.processes + total.functions;

export function SearchBox() {
  const field = useRef<HTMLInputElement>(null);
  const open = useSignal(false);
  const at = useSignal(0);
  const enterPending = useSignal(false);
  const { state, sent } = useSearch();
  const { data, error, loading } = state.value;
  useFocusRequests(field);

  // The hits shown may be those of an earlier text.
  const stale = loading || sent.value !== store.search.value;
  // Leaves the field, so that the page's keys work again.
  const leave = () => {
    open.value = false;
    field.current?.blur();
  };
  const hits = data ? hitsOf(data, leave) : [];
  // If Enter was pressed before the answer arrived, it takes the first hit of that answer.
  useEffect(() => {
    if (!enterPending.value || stale) return;
    enterPending.value = false;
    hits[0]?.go();
  });
  const current = Math.min(at.value, Math.max(0, hits.length - 1));

  const onKeyDown = (event: KeyboardEvent) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move !== undefined && hits.length > 0)
      at.value = (current + move + hits.length) % hits.length;
    else if (event.key === "Enter") {
      if (stale) {
        sent.value = store.search.value;
        enterPending.value = true;
      } else hits[current]?.go();
    } else if (event.key === "Escape") {
      if (open.value) open.value = false;
      else store.search.value = "";
      if (!open.value) field.current?.blur();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const searching = store.search.value.length >= MIN_LENGTH;
  return (
    <div
      class="search"
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) open.value = false;
      }}
    >
      <input
        ref={field}
        role="combobox"
        aria-label="Search threads, processes and functions; /…/ for a regular expression"
        aria-expanded={open.value && hits.length > 0}
        aria-controls="search-hits"
        aria-activedescendant={open.value ? hits[current]?.id : undefined}
        aria-invalid={error !== null}
        placeholder="Search  ( / )"
        spellcheck={false}
        value={store.search.value}
        onFocus={() => {
          open.value = true;
        }}
        onInput={(event) => {
          store.search.value = event.currentTarget.value;
          open.value = true;
          at.value = 0;
          enterPending.value = false;
        }}
        onKeyDown={onKeyDown}
      />
      {searching && (
        <span
          class="search-count"
          aria-live="polite"
          data-found={stale || !data ? "" : totalOf(data)}
        >
          {error ? "!" : loading && !data ? "…" : count(data ? totalOf(data) : 0)}
        </span>
      )}
      {open.value && searching && (data !== null || error !== null) && (
        <div class="search-hits">
          {error && <p class="search-note bad">{error.message}</p>}
          <HitList hits={hits} current={current} />
          {data && <HitNote shown={hits.length} total={totalOf(data)} text={sent.value} />}
        </div>
      )}
    </div>
  );
}

function HitList({ hits, current }: { hits: readonly SearchEntry[]; current: number }) {
  return (
    <ul id="search-hits" role="listbox" aria-label="Search results">
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
  );
}

function HitNote({ shown, total, text }: { shown: number; total: number; text: string }) {
  const extent =
    total === 0
      ? "No name matches."
      : shown < total
        ? `The first ${shown} of ${count(total)}.`
        : "All of them.";
  const regex = /^\/.*\/$/.test(text) ? "Regular expression." : "/…/ is a regular expression.";
  return (
    <p class="search-note dim">
      {extent} {regex} Enter selects a hit, which filters; typing only highlights.
    </p>
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
        store.select({ threads: [thread.who.thread], process: null });
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
        store.select({ process: process.process, threads: [] });
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
        batch(() => {
          store.stacks.value = {
            ...store.stacks.value,
            of,
            form: "butterfly",
            by: "function",
            function: f.name,
            // A function that is searched for is shown wherever it is.
            idle: true,
            scope: "all",
          };
          store.showView("stacks");
        });
        close();
      },
    });
  });
  return hits;
}
