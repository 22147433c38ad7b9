/**
 * The filter of a table: an expression that is completed while it is typed, and marked where it is
 * wrong.
 */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { getJson, tracePath } from "../api/client";
import { quoted } from "../api/params";
import type { ColumnInfo, TableInfo, TablePage } from "../api/types";
import * as store from "../state/store";
import { plural } from "../units";
import { isStack } from "./cells";
import { operatorsOf, sampleValues, type Wanted, wantedAt } from "./complete";
import * as model from "./model";

const MAX_CHOICES = 12;

interface Choice {
  readonly text: string;
  readonly hint: string;
}

export function FilterField({ info }: { info: TableInfo }) {
  const text = useSignal(store.table.value.where);
  const last = useSignal(store.table.value.where);
  const input = useRef<HTMLInputElement>(null);
  const list = useCompletion(info);
  if (last.value !== store.table.value.where) {
    last.value = store.table.value.where;
    text.value = store.table.value.where;
  }
  const submit = () => {
    list.close();
    store.table.value = { ...store.table.value, where: text.value.trim() };
  };
  const update = () => {
    text.value = input.current?.value ?? "";
    list.open(text.value, input.current?.selectionStart ?? text.value.length);
  };
  const choose = (choice: Choice) => {
    const field = input.current;
    const wanted = list.wanted.peek();
    if (!field || !wanted) return;
    const place = field.selectionStart ?? text.value.length;
    const begin = `${text.value.slice(0, wanted.from)}${choice.text} `;
    text.value = begin + text.value.slice(place).trimStart();
    field.value = text.value;
    field.setSelectionRange(begin.length, begin.length);
    field.focus();
    list.open(text.value, begin.length);
  };
  const problem = model.error.value;
  const wrong = problem !== null && problem.at !== null ? problem : null;
  const current = list.choices.value[list.at.value];
  return (
    <form
      class={wrong ? "where wrong" : "where"}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <input
        ref={input}
        aria-label="Filter"
        role="combobox"
        aria-autocomplete="list"
        aria-expanded={list.choices.value.length > 0}
        aria-controls="filter-choices"
        aria-activedescendant={current ? `filter-choice-${list.at.value}` : undefined}
        aria-invalid={wrong !== null}
        aria-describedby={wrong ? "filter-problem" : undefined}
        placeholder="Filter: waited > 5ms and not reason = idle"
        spellcheck={false}
        autocomplete="off"
        value={text.value}
        onInput={update}
        onClick={update}
        onKeyDown={(event) => {
          if (!list.key(event, choose) && event.key === "Escape") event.currentTarget.blur();
        }}
        onBlur={submit}
      />
      {store.table.value.where !== "" && (
        <button
          type="button"
          class="clear"
          aria-label="Remove the filter"
          onClick={() => (store.table.value = { ...store.table.value, where: "" })}
        >
          ✕
        </button>
      )}
      {wrong && (
        <Problem
          text={store.table.value.where}
          at={wrong.at ?? 0}
          why={wrong.message.replace(/^where: /, "")}
        />
      )}
      {!wrong && list.choices.value.length > 0 && (
        <Choices choices={list.choices.value} at={list.at} choose={choose} />
      )}
    </form>
  );
}

/** Marks where the filter is wrong, and says why. The table still shows the last rows. */
function Problem({ text, at, why }: { text: string; at: number; why: string }) {
  return (
    <p class="filter-problem" id="filter-problem" role="alert">
      <code>
        {text.slice(0, at)}
        <mark>{text.slice(at) || "…"}</mark>
      </code>{" "}
      {why}. The table shows what it showed before.
    </p>
  );
}

interface ChoicesProps {
  choices: readonly Choice[];
  at: Signal<number>;
  choose: (choice: Choice) => void;
}

function Choices({ choices, at, choose }: ChoicesProps) {
  return (
    <ul class="filter-choices" id="filter-choices" role="listbox" aria-label="Completions">
      {choices.map((choice, i) => (
        <li
          key={choice.text}
          id={`filter-choice-${i}`}
          role="option"
          aria-selected={i === at.value}
          // Before the field loses the focus, which submits it.
          onPointerDown={(event) => {
            event.preventDefault();
            choose(choice);
          }}
        >
          <span>{choice.text}</span>
          <span class="dim">{choice.hint}</span>
        </li>
      ))}
    </ul>
  );
}

/** The list of completions: what is expected, and the values of a column from the server. */
function useCompletion(info: TableInfo) {
  const choices = useSignal<readonly Choice[]>([]);
  const wanted = useSignal<Wanted | null>(null);
  const at = useSignal(-1);
  const request = useRef<AbortController | null>(null);
  useEffect(() => () => request.current?.abort(), []);
  const close = () => {
    request.current?.abort();
    choices.value = [];
    at.value = -1;
  };
  const open = (text: string, place: number) => {
    const next = wantedAt(text, place, info.columns);
    wanted.value = next;
    at.value = -1;
    request.current?.abort();
    choices.value = fitting(known(info, next), next.typed);
    const { column } = next;
    if (next.what !== "value" || column === null || sampleValues(column).length > 0) return;
    const controller = new AbortController();
    request.current = controller;
    values(info, column, controller.signal).then(
      (list) => {
        if (request.current === controller) choices.value = fitting(list, next.typed);
      },
      // Without values, the user types one.
      () => undefined,
    );
  };
  const key = (event: KeyboardEvent, choose: (choice: Choice) => void): boolean => {
    const count = choices.value.length;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && count > 0) at.value = (at.value + step + count) % count;
    else if ((event.key === "Enter" || event.key === "Tab") && choices.value[at.value])
      choose(choices.value[at.value] as Choice);
    else if (event.key === "Escape" && count > 0) close();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };
  return { choices, wanted, at, open, close, key };
}

function known(info: TableInfo, { what, column }: Wanted): Choice[] {
  if (what === "column")
    return info.columns.map((one) => ({ text: one.name, hint: one.doc.slice(0, 60) }));
  if (what === "operator" && column)
    return operatorsOf(column).map((text) => ({ text, hint: text === "~" ? "contains" : "" }));
  if (what === "value" && column) return sampleValues(column).map((text) => ({ text, hint: "" }));
  if (what === "join") return ["and", "or"].map((text) => ({ text, hint: "" }));
  return [];
}

/** The choices that contain what is typed, those that begin with it first. */
function fitting(choices: readonly Choice[], typed: string): Choice[] {
  const wanted = typed.replace(/^['"]/, "").toLowerCase();
  const begins = (choice: Choice) =>
    choice.text.replace(/^['"]/, "").toLowerCase().startsWith(wanted);
  return choices
    .filter((choice) => choice.text.toLowerCase().includes(wanted))
    .sort((a, b) => Number(begins(b)) - Number(begins(a)))
    .slice(0, MAX_CHOICES);
}

/** The most frequent values of a column, from the server. */
async function values(info: TableInfo, column: ColumnInfo, signal: AbortSignal): Promise<Choice[]> {
  const page = await getJson<TablePage>(
    tracePath(store.trace.peek() ?? "", "table"),
    { table: info.table, by: column.name, show: "count", sort: "count:desc", limit: 100 },
    signal,
  );
  return page.rows.flatMap((row) => {
    const cell = row.cells[0] ?? null;
    const text = isStack(cell) ? (cell.told.split(" → ").at(-1) ?? "") : String(cell ?? "");
    return text === ""
      ? []
      : [
          {
            text: /^[\w.:-]+$/.test(text) ? text : quoted(text),
            hint: plural(Number(row.cells[1]), "row"),
          },
        ];
  });
}
