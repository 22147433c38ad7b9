/** Tables in WPA's grammar: presets, the filter, the picture of the graphed columns, and the grid. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { tables } from "../api/data";
import { hasStacks } from "../api/params";
import type { StackRef, TablePage } from "../api/types";
import { register } from "../commands";
import { copy } from "../copy";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { openMenu } from "../parts/MenuHost";
import { StackFrames } from "../stacks/StackFrames";
import * as store from "../state/store";
import { plural } from "../units";
import { type Arrangement, aggregatesOf } from "./arrange";
import { type Copied, jsonTable, markdownTable, tsv } from "./cells";
import { Graph } from "./Graph";
import { Grid } from "./Grid";
import * as model from "./model";
import "./table.css";

/** More is cut, and that is said. */
const MAX_COPIED_ROWS = 5000;

/** Each reason once, with the columns that hold nothing for it. */
function byReason(
  lacks: TablePage["not_recorded"],
): { columns: string; why: string; advice: string }[] {
  const whys = [...new Set(lacks.map((lack) => lack.why))];
  return whys.map((why) => {
    const alike = lacks.filter((lack) => lack.why === why);
    return {
      columns: alike
        .map((lack) => lack.column)
        .filter(Boolean)
        .join(", "),
      why,
      advice: alike[0]?.advice ?? "",
    };
  });
}

export function Tables() {
  const peeked = useSignal<StackRef | null>(null);
  useEffect(() => model.watchTable(), []);
  useEffect(
    () =>
      register(
        {
          id: "copy.tsv",
          group: "Copy",
          title: "Copy the table as TSV",
          run: () => void copyAs(tsv, "TSV"),
        },
        {
          id: "copy.markdown",
          group: "Copy",
          title: "Copy the table as Markdown",
          run: () => void copyAs(markdownTable, "Markdown"),
        },
        {
          id: "copy.json",
          group: "Copy",
          title: "Copy the table as JSON",
          run: () => void copyAs(jsonTable, "JSON"),
        },
        {
          id: "table.ungroup",
          group: "Table",
          title: "Single rows: no grouping",
          run: () => (store.table.value = { ...store.table.value, by: ["none"], sort: "" }),
        },
        {
          id: "table.reset",
          group: "Table",
          title: "The preset's columns again",
          run: () => choose(store.table.value.preset),
        },
      ),
    [],
  );
  const { data, error } = tables.value;
  if (error) return <ErrorMessage error={error} />;
  if (!data) return <Busy what="Preparing the tables …" />;
  const of = model.arrangement.value;
  const trouble = model.error.value;
  void model.version.value;
  const first = model.rows().pages.get(0) ?? null;
  const ignored: string[] = [...(first?.ignored ?? [])];
  const lacking = byReason(first?.not_recorded ?? []);
  if (of && store.selection.value.stack !== null && !hasStacks(of.info.table))
    ignored.push("function");
  return (
    <div class="tables" data-ready={first !== null && model.pending.value === 0}>
      <div class="toolbar" role="toolbar" aria-label="Table">
        <div class="presets" role="group" aria-label="Presets">
          {data.presets.map((preset) => (
            <button
              key={preset.id}
              class="btn small"
              aria-pressed={store.table.value.preset === preset.id}
              onClick={() => choose(preset.id)}
            >
              {preset.name}
            </button>
          ))}
        </div>
        <select
          aria-label="Table"
          value={of?.info.table ?? ""}
          onChange={(event) =>
            (store.table.value = {
              preset: event.currentTarget.value,
              table: event.currentTarget.value,
              by: [],
              show: [],
              graph: [],
              where: "",
              sort: "",
            })
          }
        >
          {data.tables.map((table) => (
            <option key={table.table} value={table.table} title={table.doc}>
              {table.table}
            </option>
          ))}
        </select>
        <Where />
        {of && (
          <button
            class="btn small"
            aria-haspopup="menu"
            onClick={(event) => openMenu("Add a column", additions(of), event.currentTarget)}
          >
            + Column
          </button>
        )}
        <button
          class="btn small"
          aria-haspopup="menu"
          onClick={(event) =>
            openMenu(
              "Copy the table",
              [
                {
                  title: "As TSV (spreadsheets)",
                  run: () => void copyAs(tsv, "TSV"),
                },
                {
                  title: "As Markdown",
                  run: () => void copyAs(markdownTable, "Markdown"),
                },
                { title: "As JSON", run: () => void copyAs(jsonTable, "JSON") },
              ],
              event.currentTarget,
            )
          }
        >
          Copy ▾
        </button>
      </div>
      {ignored.length > 0 && (
        <p class="note">
          This table has no column for the selected {ignored.join(" and ")}, so that does not
          restrict it.
        </p>
      )}
      {lacking.map(({ columns, why, advice }) => (
        <p class="note" key={why}>
          Not recorded{columns === "" ? "" : ` (${columns})`}: {why}. {advice}
        </p>
      ))}
      {trouble && <ErrorMessage error={trouble} retry={model.reload} />}
      {of && !trouble && (
        <>
          <Graph of={of} first={first} />
          <div class="table-body">
            <Grid of={of} onStack={(stack) => (peeked.value = stack)} />
            {peeked.value && (
              <aside class="details" aria-label="Stack">
                <header>
                  <h2>Stack</h2>
                  <button
                    class="btn small"
                    aria-label="Close the stack"
                    onClick={() => (peeked.value = null)}
                  >
                    ✕
                  </button>
                </header>
                <StackFrames stack={peeked.value} />
              </aside>
            )}
          </div>
        </>
      )}
    </div>
  );
}

function choose(preset: string): void {
  store.table.value = { preset, table: preset, by: [], show: [], graph: [], where: "", sort: "" };
}

/** The filter as text: what the menus of cells write, and what can be typed. */
function Where() {
  const text = useSignal(store.table.value.where);
  const last = useSignal(store.table.value.where);
  if (last.value !== store.table.value.where) {
    last.value = store.table.value.where;
    text.value = store.table.value.where;
  }
  return (
    <form
      class="where"
      onSubmit={(event) => {
        event.preventDefault();
        store.table.value = { ...store.table.value, where: text.value.trim() };
      }}
    >
      <input
        aria-label="Filter"
        placeholder="Filter: waited > 5ms and not reason = idle"
        spellcheck={false}
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onBlur={(event) => event.currentTarget.form?.requestSubmit()}
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
    </form>
  );
}

function additions(of: Arrangement) {
  const grouped = of.by.length > 0;
  const list = of.info.columns.flatMap((column) => {
    const forms = grouped
      ? aggregatesOf(column).map((aggregate) => `${aggregate}:${column.name}`)
      : [column.name];
    return [
      ...(of.by.includes(column.name)
        ? []
        : [
            {
              title: `Group by ${column.name}`,
              hint: column.doc,
              run: () =>
                (store.table.value = {
                  ...store.table.value,
                  by: [...of.by, column.name],
                  show: of.show,
                  graph: of.graph,
                }),
            },
          ]),
      ...forms
        .filter((form) => !of.show.includes(form) && !of.graph.includes(form))
        .slice(0, 1)
        .map((form) => ({
          title: form.replace(":", " "),
          hint: column.doc,
          run: () =>
            (store.table.value = {
              ...store.table.value,
              by: grouped ? of.by : ["none"],
              show: [...of.show, form],
              graph: of.graph,
            }),
        })),
    ];
  });
  return [
    ...list.filter((item) => !item.title.startsWith("Group")),
    ...list.filter((item) => item.title.startsWith("Group")),
  ];
}

async function copyAs(form: (table: Copied) => string, name: string): Promise<void> {
  try {
    const page = await model.everything(MAX_COPIED_ROWS);
    if (!page) return;
    const more = page.total - page.rows.length;
    const copied: Copied = {
      titles: page.columns.map((column) => column.title),
      kinds: page.columns.map((column) => column.kind),
      rows: page.rows.map((row) => row.cells),
      more,
    };
    await copy(
      form(copied),
      `${plural(page.rows.length, "row")} as ${name}${more > 0 ? `; ${plural(more, "row")} more were cut` : ""}`,
    );
  } catch {
    store.notify("The rows could not be fetched.");
  }
}
