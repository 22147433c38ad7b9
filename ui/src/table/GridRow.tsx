/** A row of the grid. */
import type { Cell } from "../api/types";
import * as store from "../state/store";
import { timeText } from "../units";
import { type Arrangement, kindOf, spec } from "./arrange";
import { cellText, isNumeric, isStack } from "./cells";
import * as tree from "./tree";

/** Whether a column of a page is the one that a spec means. */
export function showsColumn(
  column: { column: string; aggregate: string | null },
  text: string,
): boolean {
  const { aggregate, column: name } = spec(text);
  return aggregate === "count"
    ? column.aggregate === "count"
    : column.column === name && column.aggregate === aggregate;
}

/** A row's cell in a column; `undefined` if it has none. */
export function cellOf(
  of: Arrangement,
  entry: tree.VisibleRow,
  text: string,
  at: number,
): Cell | undefined {
  const { row, page } = entry;
  if (!row || !page) return undefined;
  const depth = entry.level.path.length;
  if (at < of.by.length) return at === depth ? row.cells[0] : undefined;
  const leaf = depth === of.by.length;
  const { aggregate, column } = spec(text);
  if (leaf && aggregate === "count") return undefined;
  const index = leaf
    ? page.columns.findIndex((c) => c.column === column)
    : page.columns.findIndex((c) => showsColumn(c, text));
  return index < 0 ? undefined : row.cells[index];
}

interface GridRowProps {
  of: Arrangement;
  /** Index among the visible rows. */
  at: number;
  entry: tree.VisibleRow;
  texts: readonly string[];
  template: string;
  y: number;
  height: number;
  width: number;
  /** The current cell, if this is the current row. */
  active: number | null;
  onClick: (cell: number, event: MouseEvent) => void;
  onMenu: (cell: number, event: MouseEvent) => void;
}

export function GridRow({
  of,
  at,
  entry,
  texts,
  template,
  y,
  height,
  width,
  active,
  onClick,
  onMenu,
}: GridRowProps) {
  const depth = entry.level.path.length;
  const grouped = depth < of.by.length;
  const open = tree.isOpen(entry);
  const { row } = entry;
  return (
    <div
      id={`row-${at}`}
      role="row"
      aria-rowindex={at + 2}
      aria-level={depth + 1}
      aria-expanded={grouped && row ? open : undefined}
      aria-selected={active !== null}
      data-depth={depth}
      class={`grid-row${at % 2 ? " odd" : ""}${active !== null ? " active" : ""}`}
      style={{
        transform: `translateY(${y}px)`,
        gridTemplateColumns: template,
        height: `${height}px`,
        width: `${width}px`,
      }}
    >
      {texts.map((text, i) => (
        <GridCell
          key={text}
          of={of}
          entry={entry}
          text={text}
          at={i}
          current={active === i}
          onClick={(event) => onClick(i, event)}
          onMenu={(event) => onMenu(i, event)}
        />
      ))}
    </div>
  );
}

/** The class of a column at the gold or blue bar. */
function edgeClass(of: Arrangement, at: number): string {
  if (at === of.by.length - 1) return "gold-edge";
  const lastValue = of.by.length + of.show.length - 1;
  return at === lastValue && of.graph.length > 0 ? "blue-edge" : "";
}

interface GridCellProps {
  of: Arrangement;
  entry: tree.VisibleRow;
  text: string;
  at: number;
  current: boolean;
  onClick: (event: MouseEvent) => void;
  onMenu: (event: MouseEvent) => void;
}

function GridCell({ of, entry, text, at, current, onClick, onMenu }: GridCellProps) {
  const { row } = entry;
  const depth = entry.level.path.length;
  const grouped = depth < of.by.length;
  const cell = cellOf(of, entry, text, at);
  const kind = kindOf(of.info, text);
  const isGroup = grouped && at === depth;
  // Single rows below a group have their time in the place of its last column.
  const time = !grouped && at === of.by.length - 1 ? (row?.from ?? null) : null;
  const classes = [
    "cell",
    isNumeric(kind) && !isGroup && time === null ? "num" : "",
    edgeClass(of, at),
    isStack(cell) ? "stack" : "",
    current ? "current" : "",
  ];
  return (
    <span
      role="gridcell"
      class={classes.filter(Boolean).join(" ")}
      title={isStack(cell) ? cell.told : undefined}
      onClick={onClick}
      onContextMenu={(event) => {
        event.preventDefault();
        onMenu(event);
      }}
    >
      {isGroup && row && (
        <span class="twist" aria-hidden="true">
          {tree.isOpen(entry) ? "▾" : "▸"}
        </span>
      )}
      {row === null && at === depth && <span class="dim">…</span>}
      {time !== null && <span class="dim">at {timeText(time, 1000)}</span>}
      {row !== null && time === null && (
        <CellContent cell={cell} text={cellText(cell, kind)} group={isGroup} />
      )}
    </span>
  );
}

/** A cell's text. Stacks are cut at the root, whose functions are the least specific. */
function CellContent({
  cell,
  text,
  group,
}: {
  cell: Cell | undefined;
  text: string;
  group: boolean;
}) {
  if (isStack(cell)) {
    return (
      <span class="stack-text">
        <bdi>{text}</bdi>
      </span>
    );
  }
  if (group && text === "") return <span class="dim">(none)</span>;
  const wanted = store.search.value;
  if (
    wanted.length < 2 ||
    typeof cell !== "string" ||
    !text.toLowerCase().includes(wanted.toLowerCase())
  )
    return <>{text}</>;
  return <mark>{text}</mark>;
}
