/** The toolbar above a table: presets, the choice of table, the filter, and menus. */
import type { ColumnInfo, Tables } from "../api/types";
import { type MenuItem, openMenu } from "../parts/MenuHost";
import * as store from "../state/store";
import { type Arrangement, aggregatesOf } from "./arrange";
import { copyMenu } from "./copyTable";
import { FilterField } from "./FilterField";
import { choosePreset } from "./model";

export function Toolbar({ tables, of }: { tables: Tables; of: Arrangement | null }) {
  return (
    <div class="toolbar" role="toolbar" aria-label="Table">
      <div class="presets" role="group" aria-label="Presets">
        {tables.presets.map((preset) => (
          <button
            key={preset.id}
            type="button"
            class="btn small"
            aria-pressed={store.table.value.preset === preset.id}
            onClick={() => choosePreset(preset.id)}
          >
            {preset.name}
          </button>
        ))}
      </div>
      <select
        aria-label="Table"
        value={of?.info.table ?? ""}
        onChange={(event) => choosePreset(event.currentTarget.value)}
      >
        {tables.tables.map((table) => (
          <option key={table.table} value={table.table} title={table.doc}>
            {table.table}
          </option>
        ))}
      </select>
      {of && <FilterField info={of.info} />}
      {of && (
        <button
          type="button"
          class="btn small"
          title="Draw the graph over time, aligned with the timeline"
          aria-pressed={of.overTime}
          onClick={() => {
            store.table.value = {
              ...store.table.value,
              over: of.overTime ? "groups" : "time",
            };
          }}
        >
          Over time
        </button>
      )}
      {of && (
        <button
          type="button"
          class="btn small"
          aria-haspopup="menu"
          onClick={(event) => openMenu("Add a column", additions(of), event.currentTarget)}
        >
          + Column
        </button>
      )}
      <button
        type="button"
        class="btn small"
        aria-haspopup="menu"
        onClick={(event) => openMenu("Copy the table", copyMenu, event.currentTarget)}
      >
        Copy ▾
      </button>
    </div>
  );
}

/** Columns that can be added as values, then those that can be grouped by. */
function additions(of: Arrangement): MenuItem[] {
  const values = of.info.columns.flatMap((column) => valueItem(of, column) ?? []);
  const groups = of.info.columns
    .filter((column) => !of.by.includes(column.name))
    .map((column) => ({
      title: `Group by ${column.name}`,
      hint: column.doc,
      run: () => {
        store.table.value = {
          ...store.table.value,
          by: [...of.by, column.name],
          show: of.show,
          graph: of.graph,
        };
      },
    }));
  return [...values, ...groups];
}

/** Adds a column as a value: as its first unused aggregate if the table is grouped. */
function valueItem(of: Arrangement, column: ColumnInfo): MenuItem | undefined {
  const grouped = of.by.length > 0;
  const specs = grouped
    ? aggregatesOf(column).map((aggregate) => `${aggregate}:${column.name}`)
    : [column.name];
  const spec = specs.find((text) => !of.show.includes(text) && !of.graph.includes(text));
  if (spec === undefined) return undefined;
  return {
    title: spec.replace(":", " "),
    hint: column.doc,
    run: () => {
      store.table.value = {
        ...store.table.value,
        by: grouped ? of.by : ["none"],
        show: [...of.show, spec],
        graph: of.graph,
      };
    },
  };
}
