/** The virtual grid: renders only visible rows of the tree of groups. */

import { type Signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { narrow } from "../actions";
import type { Members } from "../api/members";
import type { StackRef, TablePage } from "../api/types";
import { navigateTo } from "../navigate";
import { openMenu } from "../parts/MenuHost";
import { useSize } from "../parts/useSize";
import * as store from "../state/store";
import { density } from "../state/theme";
import { count, plural } from "../units";
import { type Arrangement, kindOf } from "./arrange";
import { cellMenu, groupFilter, onlyFilter } from "./cellMenu";
import { cellText, isNumeric, isStack } from "./cells";
import { cellOf, GridRow, showsColumn } from "./GridRow";
import { Heads } from "./Heads";
import * as model from "./model";
import * as scroll from "./scroll";
import * as tree from "./tree";
import { columnWidths } from "./widths";

/** Height of the column heads in pixels, as `--grid-head` in the style sheet. */
const headHeight = (): number => (density.value === "compact" ? 24 : 30);

export interface GridProps {
  of: Arrangement;
  onStack: (stack: StackRef) => void;
}

/** What the keyboard and the pointer act on. */
interface GridState {
  readonly of: Arrangement;
  /** The column specs, left to right. */
  readonly texts: readonly string[];
  readonly root: tree.Level;
  readonly view: scroll.Scrolling;
  /** The current cell. */
  readonly row: Signal<number>;
  readonly column: Signal<number>;
  readonly goTo: (row: number) => void;
  readonly onStack: (stack: StackRef) => void;
}

export function Grid({ of, onStack }: GridProps) {
  const ref = useRef<HTMLDivElement>(null);
  const size = useSize(ref);
  const top = useSignal(0);
  const row = useSignal(0);
  const column = useSignal(0);
  void model.version.value;
  const root = model.rows();
  const rowHeight = density.value === "compact" ? 20 : 24;
  const head = headHeight();
  const view: scroll.Scrolling = {
    rows: tree.size(root),
    rowHeight,
    viewHeight: Math.max(1, size.value.height - head - rowHeight),
  };
  const visible = scroll.visible(view, top.value);
  const texts = [...of.by, ...of.show, ...of.graph];
  const widths = columnWidths(of, size.value.width);
  const template = widths.map((width) => `${width}px`).join(" ");
  const whole = widths.reduce((sum, width) => sum + width, 0);

  // Before the frame is shown: no row is ever seen as missing that is not asked for, too.
  useLayoutEffect(() => {
    model.requestRows(visible.first, visible.last);
  });

  const goTo = (index: number) => {
    row.value = Math.max(0, Math.min(view.rows - 1, index));
    const element = ref.current;
    if (element) element.scrollTop = scroll.toShow(view, element.scrollTop, row.value);
  };
  const state: GridState = { of, texts, root, view, row, column, goTo, onStack };
  const first = root.pages.get(0);
  return (
    <div
      ref={ref}
      class="grid"
      role="treegrid"
      aria-label={`${of.info.table}: ${of.info.doc}`}
      aria-rowcount={view.rows + 1}
      aria-colcount={texts.length}
      aria-activedescendant={
        row.value >= visible.first && row.value < Math.min(visible.last, view.rows)
          ? `row-${row.value}`
          : undefined
      }
      aria-busy={model.pending.value > 0}
      tabIndex={0}
      onKeyDown={(event) => onKeyDown(event, state)}
      onScroll={(event) => {
        top.value = event.currentTarget.scrollTop;
      }}
      onWheel={(event) => {
        const factor = scroll.scale(view);
        if (factor === 1 || event.ctrlKey || event.deltaY === 0) return;
        // With a scaled scroll bar, a wheel step would skip thousands of rows.
        event.preventDefault();
        event.currentTarget.scrollTop += event.deltaY / factor;
      }}
    >
      <div
        class="grid-content"
        role="presentation"
        style={{
          height: `${head + scroll.contentHeight(view) + rowHeight}px`,
          width: `${whole}px`,
        }}
      >
        <Heads of={of} widths={widths} />
        {visibleRows(state, visible, template, whole)}
        {/* Rows are drawn over this. It puts the totals last, where they stick to the bottom. */}
        <div role="presentation" style={{ height: `${scroll.contentHeight(view)}px` }} />
        {first && (
          <Totals
            of={of}
            texts={texts}
            page={first}
            style={{
              gridTemplateColumns: template,
              height: `${rowHeight}px`,
              width: `${whole}px`,
            }}
          />
        )}
      </div>
      {first && first.total === 0 && (
        <p class="empty grid-empty">No row matches the selection and the filter.</p>
      )}
    </div>
  );
}

function visibleRows(
  state: GridState,
  visible: ReturnType<typeof scroll.visible>,
  template: string,
  width: number,
) {
  const { of, texts, root, row, column } = state;
  const { rowHeight } = state.view;
  const rows = [];
  for (let at = visible.first; at < visible.last; at++) {
    const entry = tree.rowAt(root, at);
    if (!entry) break;
    rows.push(
      <GridRow
        key={at}
        of={of}
        at={at}
        entry={entry}
        texts={texts}
        template={template}
        y={headHeight() + visible.top + (at - visible.first) * rowHeight}
        height={rowHeight}
        width={width}
        active={row.value === at ? column.value : null}
        onClick={(cell, event) => {
          row.value = at;
          column.value = cell;
          if (event.altKey) onlyCell(state, entry, cell);
          else clickCell(state, entry, cell);
        }}
        onMenu={(cell, event) => {
          row.value = at;
          column.value = cell;
          openCellMenu(state, entry, cell, { x: event.clientX, y: event.clientY });
        }}
      />,
    );
  }
  return rows;
}

/** Opens or closes a group; shows a single row on the timeline. */
function openRow(of: Arrangement, entry: tree.VisibleRow): void {
  if (entry.row === null) return;
  if (entry.level.path.length < of.by.length) model.toggle(entry);
  else if (entry.row.lane !== null || entry.row.from !== null)
    navigateTo({ lane: entry.row.lane, from: entry.row.from, to: entry.row.to });
}

function clickCell({ of, texts, onStack }: GridState, entry: tree.VisibleRow, at: number): void {
  const text = texts[at];
  const cell = text === undefined ? undefined : cellOf(of, entry, text, at);
  const depth = entry.level.path.length;
  if (isStack(cell) && depth !== at) onStack(cell);
  else if (at <= depth || depth === of.by.length) openRow(of, entry);
}

/** Filters the table by a cell's value: the short way to the first item of its menu. */
function onlyCell({ of, texts }: GridState, entry: tree.VisibleRow, at: number): void {
  // Its row is still on the way.
  if (entry.row == null) return;
  const text = texts[at] ?? "";
  const cell = cellOf(of, entry, text, at);
  const filter = cell === undefined ? null : onlyFilter(of, text, cell);
  if (filter === null) store.notify("There is no single value to filter by.");
  else narrow(filter);
}

function openCellMenu(
  { of, texts, onStack }: GridState,
  entry: tree.VisibleRow,
  at: number,
  where: Element | { x: number; y: number },
): void {
  const text = texts[at];
  const cell = text === undefined ? undefined : cellOf(of, entry, text, at);
  if (text === undefined || cell === undefined) return;
  const open = (members: Members | null) =>
    openMenu(
      "This value",
      cellMenu(of, text, cell, entry.row, onStack, members, groupFilter(of, entry)),
      where,
    );
  if (entry.row?.key == null) open(null);
  else void model.members(of, entry).then(open);
}

function onKeyDown(event: KeyboardEvent, state: GridState): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { of, root, view, row, column, goTo } = state;
  const entry = tree.rowAt(root, row.value);
  const perPage = Math.max(1, Math.floor(view.viewHeight / view.rowHeight) - 1);
  if (event.key === "ArrowDown") goTo(row.value + 1);
  else if (event.key === "ArrowUp") goTo(row.value - 1);
  else if (event.key === "PageDown") goTo(row.value + perPage);
  else if (event.key === "PageUp") goTo(row.value - perPage);
  else if (event.key === "Home") goTo(0);
  else if (event.key === "End") goTo(view.rows - 1);
  else if (event.key === "ArrowRight") goRight(state, entry);
  else if (event.key === "ArrowLeft") goLeft(state, entry);
  else if ((event.key === "Enter" || event.key === " ") && entry) openRow(of, entry);
  else if ((event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) && entry) {
    const element = document.getElementById(`row-${row.value}`);
    if (element) openCellMenu(state, entry, column.value, element);
  } else return;
  event.preventDefault();
}

/** Opens the group if the cell is part of its name, else goes to the next cell. */
function goRight({ of, texts, column }: GridState, entry: tree.VisibleRow | null): void {
  const depth = entry?.level.path.length ?? 0;
  if (entry && depth < of.by.length && column.value <= depth && !tree.isOpen(entry))
    model.toggle(entry);
  else column.value = Math.min(texts.length - 1, column.value + 1);
}

/**
 * Goes to the previous cell; from the group's name, closes the group or goes to the group above.
 */
function goLeft({ column, goTo }: GridState, entry: tree.VisibleRow | null): void {
  const depth = entry?.level.path.length ?? 0;
  if (column.value > depth) column.value -= 1;
  else if (entry && tree.isOpen(entry)) model.toggle(entry);
  else if (entry?.level.parent)
    goTo(tree.visibleIndex(entry.level.parent.level, entry.level.parent.index));
  else column.value = Math.max(0, column.value - 1);
}

interface TotalsProps {
  of: Arrangement;
  texts: readonly string[];
  page: TablePage;
  style: preact.CSSProperties;
}

/** The last row: the number of rows, and the totals of the values. */
function Totals({ of, texts, page, style }: TotalsProps) {
  return (
    <div class="grid-row totals" role="row" style={style}>
      {texts.map((text, i) => {
        const isValue = i >= of.by.length;
        const kind = kindOf(of.info, text);
        const total = isValue
          ? page.totals[page.columns.findIndex((column) => showsColumn(column, text))]
          : null;
        return (
          <span key={text} role="gridcell" class={isValue && isNumeric(kind) ? "cell num" : "cell"}>
            {i === 0 ? sizeText(page, of.by.length > 0) : cellText(total ?? null, kind)}
          </span>
        );
      })}
    </div>
  );
}

function sizeText({ total, matched, outside }: TablePage, grouped: boolean): string {
  const rows = grouped
    ? `${plural(total, "group")} of ${plural(matched, "row")}`
    : plural(total, "row");
  if (outside === 0) return rows;
  return `${rows}, ${count(outside)} outside the span that was recorded on every CPU`;
}
