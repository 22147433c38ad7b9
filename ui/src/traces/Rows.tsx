/**
 * The traces as dense rows: each with its verdict, sorted by any column. Notes and what is wrong with
 * a file are in a second line.
 */
import { type Signal, useSignal } from "@preact/signals";
import type { TraceEntry } from "../api/types";
import { openMenu } from "../parts/MenuHost";
import { openWithStart } from "../startView";
import * as store from "../state/store";
import { order } from "../table/arrange";
import { bytesText, count, durationText } from "../units";
import { Notes, storesNotes } from "./Notes";

export type Key = "name" | "modified" | "length" | "verdict" | "victim" | "cause" | "host" | "size";

interface Column {
  readonly key: Key;
  readonly title: string;
  /** What a filter calls it, besides its key. */
  readonly alias?: string;
  /** What rows are sorted by; null is last, whatever the direction. */
  readonly value: (entry: TraceEntry) => string | number | null;
  /** What is shown, if it is not the value. */
  readonly text?: (entry: TraceEntry) => string;
  readonly number: boolean;
}

const COLUMNS: readonly Column[] = [
  {
    key: "name",
    title: "Trace",
    alias: "trace",
    value: (e) => e.name,
    number: false,
  },
  {
    key: "modified",
    title: "Date",
    alias: "date",
    value: (e) => e.modified,
    text: (e) => dateText(e.modified),
    number: false,
  },
  { key: "length", title: "Length", value: (e) => e.duration_ns, number: true },
  {
    key: "verdict",
    title: "Worst stall",
    alias: "stall",
    value: (e) => (e.first_answer ? (e.first_answer.duration_ns ?? 0) : null),
    number: true,
  },
  { key: "victim", title: "Victim", value: (e) => e.first_answer?.victim ?? null, number: false },
  { key: "cause", title: "Cause", value: (e) => e.first_answer?.cause ?? null, number: false },
  { key: "host", title: "Host", value: (e) => e.host, number: false },
  { key: "size", title: "Size", value: (e) => e.bytes, number: true },
];

/** Sorted by a column, whatever the case of its texts; entries without a value come last. */
export function sorted(entries: readonly TraceEntry[], sort: string): TraceEntry[] {
  const { what, down } = order(sort);
  const column = COLUMNS.find(({ key }) => key === what);
  const value = (entry: TraceEntry) => {
    const of = column?.value(entry) ?? null;
    return typeof of === "string" ? of.toLowerCase() : of;
  };
  return [...entries].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    const up = x < y ? -1 : x > y ? 1 : 0;
    return (down ? -up : up) || a.name.localeCompare(b.name);
  });
}

/** The two selected entries, the older one first. */
export function pair(entries: readonly TraceEntry[], chosen: readonly string[]): string[] {
  return entries
    .filter((entry) => chosen.includes(entry.name))
    .sort((a, b) => a.modified.localeCompare(b.modified) || a.name.localeCompare(b.name))
    .map((entry) => entry.name);
}

/** All texts of an entry that a word of the filter looks for, each in lines of its own. */
export function textsOf(entry: TraceEntry): string {
  const { name, host, notes, error, first_answer: first } = entry;
  return [name, host, notes, error, first?.text, first?.pattern?.replaceAll("_", " ")]
    .filter(Boolean)
    .join("\n")
    .toLowerCase();
}

/** Nanoseconds of a unit of time; bytes of a unit of size. */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  ms: 1e6,
  s: 1e9,
  min: 60e9,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
};

/** The words of a filter, with their quotes. One that is not closed yet ends with the filter. */
export function wordsOf(filter: string): string[] {
  return filter.match(/(?:"[^"]*"?|\S)+/g) ?? [];
}

/**
 * Whether an entry passes a word of the filter: `host:box`, `date:2026-11` and so on look at one
 * column, `stall>1s`, `size<10MB` compare it; any other word is looked for everywhere. What is in
 * quotes, as in `cause:"lock starvation"`, is looked for as it is, with its spaces.
 */
export function passes(entry: TraceEntry, word: string): boolean {
  const bare = (text: string) => text.toLowerCase().replaceAll('"', "");
  const parts = /^(\w+)([:<>])(.+)$/.exec(word);
  const column = COLUMNS.find(({ key, alias }) => [key, alias].includes(parts?.[1]?.toLowerCase()));
  if (!parts || !column) return textsOf(entry).includes(bare(word));
  const value = column.value(entry);
  const operator = parts[2];
  const operand = bare(parts[3] ?? "");
  if (operator === ":")
    return String(column.text?.(entry) ?? value ?? "")
      .toLowerCase()
      .includes(operand);
  const number = /^([\d.]+)([a-zµ]*)$/.exec(operand);
  const limit = Number(number?.[1]) * (UNITS[number?.[2] || "ns"] ?? Number.NaN);
  if (typeof value !== "number" || Number.isNaN(limit)) return false;
  return operator === ">" ? value > limit : value < limit;
}

interface RowsProps {
  entries: readonly TraceEntry[];
  editable: boolean;
  openDialog: (kind: "rename" | "delete", entry: TraceEntry) => void;
  changed: () => void;
}

export function Rows({ entries, editable, openDialog, changed }: RowsProps) {
  const chosen = useSignal<readonly string[]>([]);
  return (
    <div class="trace-table-box">
      <Chosen names={pair(entries, chosen.value)} clear={() => (chosen.value = [])} />
      <table class="trace-table">
        <thead>
          <tr>
            <th>
              <span class="sr-only">Select</span>
            </th>
            {COLUMNS.map((column) => (
              <Head key={column.key} column={column} />
            ))}
            <th>
              <span class="sr-only">More</span>
            </th>
          </tr>
        </thead>
        {sorted(entries, store.list.value.sort).map((entry) => (
          <Row
            key={entry.name}
            entry={entry}
            editable={editable}
            openDialog={(kind) => openDialog(kind, entry)}
            changed={changed}
            chosen={chosen}
          />
        ))}
      </table>
    </div>
  );
}

/** What can be done with the selected traces. */
function Chosen({ names, clear }: { names: readonly string[]; clear: () => void }) {
  const [before, after] = names;
  if (before === undefined) return null;
  return (
    <p class="trace-chosen" role="status">
      {after === undefined ? (
        <>Select a second trace to compare it with {before}.</>
      ) : (
        <button
          type="button"
          class="btn primary"
          onClick={() => store.compareTraces(before, after)}
        >
          Compare {before} with {after}
        </button>
      )}{" "}
      <button type="button" class="btn small" onClick={clear}>
        Clear
      </button>
    </p>
  );
}

function Head({ column }: { column: Column }) {
  const list = store.list.value;
  const { what, down } = order(list.sort);
  const here = what === column.key;
  const next = (here ? !down : column.number) ? "desc" : "asc";
  return (
    <th
      scope="col"
      class={column.number ? "num" : ""}
      aria-sort={here ? (down ? "descending" : "ascending") : undefined}
    >
      <button
        type="button"
        class="head-sort"
        onClick={() => (store.list.value = { ...list, sort: `${column.key}:${next}` })}
      >
        {column.title}
        <span aria-hidden="true">{here ? (down ? " ▾" : " ▴") : ""}</span>
      </button>
    </th>
  );
}

interface RowProps {
  entry: TraceEntry;
  editable: boolean;
  openDialog: (kind: "rename" | "delete") => void;
  changed: () => void;
  chosen: Signal<readonly string[]>;
}

function Row({ entry, editable, openDialog, changed, chosen }: RowProps) {
  const isChosen = chosen.value.includes(entry.name);
  const menu = (at: Element | { x: number; y: number }) =>
    openMenu(
      entry.name,
      [
        { title: "Open", disabled: entry.error !== null, run: () => openWithStart(entry.name) },
        { title: "Rename …", run: () => openDialog("rename") },
        { title: "Delete …", run: () => openDialog("delete") },
      ],
      at,
    );
  return (
    <tbody
      class="trace-card"
      data-trace={entry.name}
      onContextMenu={(event) => {
        if (!editable || event.target instanceof HTMLTextAreaElement) return;
        event.preventDefault();
        menu({ x: event.clientX, y: event.clientY });
      }}
    >
      <tr>
        <td>
          <input
            type="checkbox"
            aria-label={`Select ${entry.name}`}
            disabled={entry.error !== null}
            checked={isChosen}
            onChange={() => {
              const others = chosen.value.filter((name) => name !== entry.name);
              // Of three, the one selected first is let go: two are compared.
              chosen.value = isChosen ? others : [...others.slice(-1), entry.name];
            }}
          />
        </td>
        <td>
          <button
            type="button"
            class="trace-open"
            disabled={entry.error !== null}
            onClick={() => openWithStart(entry.name)}
          >
            {entry.name}
          </button>
        </td>
        <td class="dim">{dateText(entry.modified)}</td>
        <td class="num">{entry.duration_ns === null ? "" : durationText(entry.duration_ns)}</td>
        <Verdict entry={entry} />
        <td class="dim">{entry.host ?? ""}</td>
        <td class="num dim">{bytesText(entry.bytes)}</td>
        <td>
          {editable && (
            <button
              type="button"
              class="btn small"
              aria-haspopup="menu"
              aria-label={`More for ${entry.name}`}
              onClick={(event) => menu(event.currentTarget)}
            >
              ⋯
            </button>
          )}
        </td>
      </tr>
      {(entry.error !== null || storesNotes(entry.format)) && (
        <tr class="trace-notes">
          <td />
          <td colSpan={COLUMNS.length + 1}>
            {entry.error !== null ? (
              <p class="trace-error">
                <strong>Cannot be opened:</strong> {entry.error}. {entry.hint}
              </p>
            ) : (
              <Notes
                name={entry.name}
                format={entry.format}
                notes={entry.notes}
                changed={changed}
              />
            )}
          </td>
        </tr>
      )}
    </tbody>
  );
}

/** In local time, as short as it sorts: `2026-11-24 13:18`. */
function dateText(utc: string): string {
  const at = new Date(utc);
  if (Number.isNaN(at.getTime())) return "";
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** The cells of the worst stall; across all three if there is none. */
function Verdict({ entry }: { entry: TraceEntry }) {
  const first = entry.first_answer;
  if (entry.error !== null) return <td colSpan={3} />;
  if (first?.duration_ns === undefined) {
    return (
      <td colSpan={3} class="dim first-answer">
        {first
          ? (first.text ?? "No stall was found.")
          : entry.judging
            ? "Being analysed …"
            : entry.too_large
              ? "Too large to judge before it is opened."
              : "Not analysed yet."}
      </td>
    );
  }
  const more = (first.stalls ?? 1) - 1;
  return (
    <>
      <td class="num">
        <strong>{durationText(first.duration_ns)}</strong>
        {more > 0 && <span class="dim"> +{count(more)}</span>}
      </td>
      <td class="victim">{first.victim}</td>
      <td class="first-answer" title={first.text ?? ""}>
        {first.cause}
      </td>
    </>
  );
}
