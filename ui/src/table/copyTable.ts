/** Copies the table's rows in several formats. */
import type { Command } from "../commands";
import { copy } from "../copy";
import * as store from "../state/store";
import { plural } from "../units";
import { type Copied, jsonTable, markdownTable, tsv } from "./cells";
import * as model from "./model";

/** Maximum rows copied; the copy states how many it omits. */
const MAX_COPIED_ROWS = 5000;

export const copyCommands: readonly Command[] = [
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
];

export const copyMenu = [
  { title: "As TSV (spreadsheets)", run: () => void copyAs(tsv, "TSV") },
  { title: "As Markdown", run: () => void copyAs(markdownTable, "Markdown") },
  { title: "As JSON", run: () => void copyAs(jsonTable, "JSON") },
];

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
      `${plural(page.rows.length, "row")} as ${name}` +
        (more > 0 ? `; ${plural(more, "more row")} omitted` : ""),
    );
  } catch {
    store.notify("Could not load the rows.");
  }
}
