/** Draws the columns right of the blue bar: groups as bars, single rows over time. */
import { useRef } from "preact/hooks";
import type { TablePage } from "../api/types";
import { useSize } from "../parts/useSize";
import * as store from "../state/store";
import { plural } from "../units";
import { type Arrangement, kindOf, spec, title } from "./arrange";
import { cellText, isStack } from "./cells";

const HEIGHT = 58;
/** Maximum groups drawn. */
const MAX_ENTRIES = 60;
const COLORS = ["--blue", "--gold", "--lock", "--memory"];

export function Graph({ of, first }: { of: Arrangement; first: TablePage | null }) {
  const ref = useRef<HTMLDivElement>(null);
  const width = useSize(ref).value.width;
  if (of.graph.length === 0) return null;
  return (
    <div ref={ref} class="graph" aria-hidden="true">
      {width > 0 &&
        first &&
        (of.by.length > 0 ? (
          <Bars of={of} page={first} width={width} />
        ) : (
          <Dots of={of} page={first} width={width} />
        ))}
    </div>
  );
}

/** Approximate width of a character of a bar's name. */
const CHAR_PX = 6;

/** Maximum width of the bars of a group. */
const MAX_BARS = 90;

/** The width of a group: as much as the longest name needs, if there is room for that. */
export function slotWidth(width: number, names: readonly string[]): number {
  const longest = Math.max(0, ...names.map((name) => name.length));
  return Math.min(Math.max(MAX_BARS, (longest + 1) * CHAR_PX), width / Math.max(1, names.length));
}

/** Cuts a name at its end, or a stack at its root. */
export function shorten(name: string, length: number, stack: boolean): string {
  if (name.length <= length) return name;
  return stack ? `…${name.slice(1 - length).trim()}` : `${name.slice(0, length - 1).trim()}…`;
}

/** Index of a graphed column in a page's cells. */
function columnIndex(page: TablePage, text: string): number {
  const { aggregate, column } = spec(text);
  return page.columns.findIndex((c) =>
    aggregate === "count"
      ? c.aggregate === "count"
      : c.column === column && c.aggregate === aggregate,
  );
}

function Bars({ of, page, width }: { of: Arrangement; page: TablePage; width: number }) {
  const rows = page.rows.slice(0, MAX_ENTRIES);
  const names = rows.map(({ cells: [cell = null] }) => ({
    text: (isStack(cell) ? cell.told : cellText(cell, page.columns[0]?.kind ?? "text")) || "(none)",
    stack: isStack(cell),
  }));
  const slot = slotWidth(
    width,
    names.map((name) => name.text),
  );
  const bar = Math.max(1, (Math.min(MAX_BARS, slot) - 4) / of.graph.length);
  return (
    <svg width={width} height={HEIGHT}>
      {of.graph.map((text, series) => {
        const index = columnIndex(page, text);
        const values = rows.map((row) => Number(row.cells[index] ?? 0));
        const top = Math.max(1, ...values);
        const kind = kindOf(of.info, text);
        const { tag, name: column } = title(text);
        return values.map((value, i) => {
          const height = (value / top) * (HEIGHT - 22);
          const { text: name, stack } = names[i] ?? { text: "", stack: false };
          return (
            <g key={`${text} ${i}`}>
              <title>{`${name}: ${tag} ${column} ${cellText(value, kind)}`}</title>
              <rect
                x={i * slot + 2 + series * bar}
                y={HEIGHT - 14 - height}
                width={Math.max(1, bar - 1)}
                height={Math.max(1, height)}
                fill={`var(${COLORS[series % COLORS.length]})`}
              />
              {series === 0 && slot >= 44 && (
                <text x={i * slot + 2} y={HEIGHT - 3} font-size="10" fill="var(--dim)">
                  {shorten(name, Math.floor(slot / CHAR_PX), stack)}
                </text>
              )}
            </g>
          );
        });
      })}
      <Legend of={of} width={width} more={page.total - rows.length} what="group" />
    </svg>
  );
}

function Dots({ of, page, width }: { of: Arrangement; page: TablePage; width: number }) {
  const range = store.selection.value.range ?? store.extent.value;
  const rows = page.rows.filter((row) => row.from !== null);
  return (
    <svg width={width} height={HEIGHT}>
      {of.graph.map((text, series) => {
        const index = columnIndex(page, text);
        const top = Math.max(1, ...rows.map((row) => Number(row.cells[index] ?? 0)));
        return rows.map((row, i) => {
          const x = (((row.from ?? 0) - range.from) / (range.to - range.from)) * width;
          const height = (Number(row.cells[index] ?? 0) / top) * (HEIGHT - 22);
          // As wide as the row is long; overlaps are darker.
          const span =
            row.to === null || row.from === null
              ? 0
              : ((row.to - row.from) / (range.to - range.from)) * width;
          return (
            <rect
              key={`${text} ${i}`}
              x={x}
              y={HEIGHT - 10 - height}
              width={Math.max(2, span)}
              height={Math.max(1, height)}
              fill={`var(${COLORS[series % COLORS.length]})`}
              fill-opacity="0.45"
            />
          );
        });
      })}
      <Legend of={of} width={width} more={page.total - page.rows.length} what="row" />
    </svg>
  );
}

function Legend({
  of,
  width,
  more,
  what,
}: {
  of: Arrangement;
  width: number;
  more: number;
  what: string;
}) {
  const names = of.graph.map((text) => `${title(text).tag} ${title(text).name}`.trim()).join(", ");
  return (
    <text x={width - 6} y="12" font-size="11" text-anchor="end" fill="var(--dim)">
      {more > 0 ? `${names}; ${plural(more, `more ${what}`)} not drawn` : names}
    </text>
  );
}
