/** The virtual grid: only the rows that can be seen exist; a tree of groups opened by click or arrow. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Cell, StackRef } from "../api/types";
import { navigateTo } from "../navigate";
import { openMenu } from "../parts/MenuHost";
import { useSize } from "../parts/useSize";
import * as store from "../state/store";
import { density } from "../state/theme";
import { count, plural, timeText } from "../units";
import { type Arrangement, kindOf, spec } from "./arrange";
import { cellMenu } from "./cellMenu";
import { cellText, isNumeric, isStack } from "./cells";
import { Heads } from "./Heads";
import * as model from "./model";
import * as scroll from "./scroll";
import * as tree from "./tree";
import { columnWidths } from "./widths";

export interface GridProps {
  of: Arrangement;
  onStack: (stack: StackRef) => void;
}

export function Grid({ of, onStack }: GridProps) {
  const ref = useRef<HTMLDivElement>(null);
  const size = useSize(ref);
  const top = useSignal(0);
  const active = useSignal(0);
  const column = useSignal(0);
  void model.version.value;
  const root = model.rows();
  const rowHeight = density.value === "compact" ? 20 : 24;
  const view: scroll.Scrolling = {
    rows: tree.size(root),
    rowHeight,
    viewHeight: Math.max(1, size.value.height - HEAD - rowHeight),
  };
  const seen = scroll.visible(view, top.value);
  const texts = [...of.by, ...of.show, ...of.graph];
  const widths = columnWidths(of, size.value.width);
  const template = widths.map((width) => `${width}px`).join(" ");
  const whole = widths.reduce((sum, width) => sum + width, 0);

  useEffect(() => {
    model.want(seen.first, seen.last);
  });

  const goTo = (index: number) => {
    active.value = Math.max(0, Math.min(view.rows - 1, index));
    const element = ref.current;
    if (element) element.scrollTop = scroll.toShow(view, element.scrollTop, active.value);
  };
  const openRow = (entry: tree.VisibleRow) => {
    if (entry.row === null) return;
    if (entry.level.path.length < of.by.length) model.toggle(entry);
    else if (entry.row.lane !== null || entry.row.from !== null)
      navigateTo({ lane: entry.row.lane, from: entry.row.from, to: entry.row.to });
  };
  const menuFor = (
    entry: tree.VisibleRow,
    at: number,
    where: Element | { x: number; y: number },
  ) => {
    const text = texts[at];
    const cell = text === undefined ? undefined : cellOf(of, entry, text, at);
    if (text === undefined || cell === undefined) return;
    openMenu("This value", cellMenu(of, text, cell, entry.row, onStack), where);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const entry = tree.rowAt(root, active.value);
    const perPage = Math.max(1, Math.floor(view.viewHeight / rowHeight) - 1);
    const depth = entry?.level.path.length ?? 0;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowDown") goTo(active.value + 1);
    else if (event.key === "ArrowUp") goTo(active.value - 1);
    else if (event.key === "PageDown") goTo(active.value + perPage);
    else if (event.key === "PageUp") goTo(active.value - perPage);
    else if (event.key === "Home") goTo(0);
    else if (event.key === "End") goTo(view.rows - 1);
    else if (event.key === "ArrowRight") {
      if (entry && depth < of.by.length && column.value <= depth && !tree.isOpen(entry))
        model.toggle(entry);
      else column.value = Math.min(texts.length - 1, column.value + 1);
    } else if (event.key === "ArrowLeft") {
      if (column.value > depth) column.value -= 1;
      else if (entry && tree.isOpen(entry)) model.toggle(entry);
      else if (entry?.level.parent)
        goTo(tree.visibleIndex(entry.level.parent.level, entry.level.parent.index));
      else column.value = Math.max(0, column.value - 1);
    } else if ((event.key === "Enter" || event.key === " ") && entry) openRow(entry);
    else if ((event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) && entry) {
      const row = document.getElementById(`row-${active.value}`);
      if (row) menuFor(entry, column.value, row);
    } else return;
    event.preventDefault();
  };

  const rows = [];
  for (let at = seen.first; at < seen.last; at++) {
    const entry = tree.rowAt(root, at);
    if (!entry) break;
    rows.push(
      <Row
        key={at}
        of={of}
        at={at}
        entry={entry}
        texts={texts}
        template={template}
        y={HEAD + seen.top + (at - seen.first) * rowHeight}
        height={rowHeight}
        width={whole}
        active={active.value === at ? column.value : null}
        onClick={(cell) => {
          active.value = at;
          column.value = cell;
          const text = texts[cell];
          const value = text === undefined ? undefined : cellOf(of, entry, text, cell);
          if (isStack(value) && entry.level.path.length !== cell) onStack(value);
          else if (cell <= entry.level.path.length || entry.level.path.length === of.by.length)
            openRow(entry);
        }}
        onMenu={(cell, event) => {
          active.value = at;
          column.value = cell;
          menuFor(entry, cell, { x: event.clientX, y: event.clientY });
        }}
      />,
    );
  }

  const first = root.pages.get(0);
  return (
    <div
      ref={ref}
      class="grid"
      role="treegrid"
      aria-label={`${of.info.table}: ${of.info.doc}`}
      aria-rowcount={view.rows + 1}
      aria-colcount={texts.length}
      aria-activedescendant={`row-${active.value}`}
      aria-busy={model.pending.value > 0}
      tabIndex={0}
      onKeyDown={onKeyDown}
      onScroll={(event) => (top.value = event.currentTarget.scrollTop)}
      onWheel={(event) => {
        const factor = scroll.scale(view);
        if (factor === 1 || event.ctrlKey || event.deltaY === 0) return;
        // On a scaled bar a wheel's step would skip thousands of rows.
        event.preventDefault();
        event.currentTarget.scrollTop += event.deltaY / factor;
      }}
    >
      <div
        class="grid-content"
        role="presentation"
        style={{
          height: `${HEAD + scroll.contentHeight(view) + rowHeight}px`,
          width: `${whole}px`,
        }}
      >
        <Heads of={of} widths={widths} />
        {rows}
        {/* Rows are placed over this; it puts the totals at the end of the flow, from where they stick to the bottom. */}
        <div role="presentation" style={{ height: `${scroll.contentHeight(view)}px` }} />
        {first && (
          <div
            class="grid-row totals"
            role="row"
            style={{
              gridTemplateColumns: template,
              height: `${rowHeight}px`,
              width: `${whole}px`,
            }}
          >
            {texts.map((text, i) => {
              const at = first.columns.findIndex((c) => matches(c, text));
              const total = i < of.by.length ? undefined : first.totals[at];
              return (
                <span
                  key={text}
                  role="gridcell"
                  class={
                    isNumeric(kindOf(of.info, text)) && i >= of.by.length ? "cell num" : "cell"
                  }
                >
                  {i === 0
                    ? `${plural(first.total, of.by.length > 0 ? "group" : "row")}${of.by.length > 0 ? ` of ${count(first.matched)} rows` : ""}${first.outside > 0 ? `, ${count(first.outside)} outside the span that all CPUs cover` : ""}`
                    : cellText(total ?? null, kindOf(of.info, text))}
                </span>
              );
            })}
          </div>
        )}
      </div>
      {first && first.total === 0 && (
        <p class="empty grid-empty">No row is left by the selection and the filter.</p>
      )}
    </div>
  );
}

/** Height of the column heads in pixels. */
export const HEAD = 30;

function matches(column: { column: string; aggregate: string | null }, text: string): boolean {
  const { aggregate, column: name } = spec(text);
  return aggregate === "count"
    ? column.aggregate === "count"
    : column.column === name && column.aggregate === aggregate;
}

/** The cell of a row under a column; `undefined` where the row has none. */
function cellOf(
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
    : page.columns.findIndex((c) => matches(c, text));
  return index < 0 ? undefined : row.cells[index];
}

interface RowProps {
  of: Arrangement;
  at: number;
  entry: tree.VisibleRow;
  texts: readonly string[];
  template: string;
  y: number;
  height: number;
  width: number;
  active: number | null;
  onClick: (cell: number) => void;
  onMenu: (cell: number, event: MouseEvent) => void;
}

function Row({
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
}: RowProps) {
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
      {texts.map((text, i) => {
        const cell = cellOf(of, entry, text, i);
        const kind = kindOf(of.info, text);
        const group = i === depth && grouped;
        const moment = !grouped && i === of.by.length - 1 && row?.from != null;
        const bar =
          i === of.by.length - 1
            ? " gold-edge"
            : i === of.by.length + of.show.length - 1 && of.graph.length > 0
              ? " blue-edge"
              : "";
        return (
          <span
            key={text}
            role="gridcell"
            class={`cell${isNumeric(kind) && !group && !moment ? " num" : ""}${bar}${isStack(cell) ? " stack" : ""}${active === i ? " current" : ""}`}
            title={isStack(cell) ? cell.told : undefined}
            onClick={() => onClick(i)}
            onContextMenu={(event) => {
              event.preventDefault();
              onMenu(i, event);
            }}
          >
            {group && row && (
              <span class="twist" aria-hidden="true">
                {open ? "▾" : "▸"}
              </span>
            )}
            {row === null ? (
              i === depth ? (
                <span class="dim">…</span>
              ) : null
            ) : moment && row.from !== null ? (
              <span class="dim">at {timeText(row.from, 1000)}</span>
            ) : (
              <Text cell={cell} text={cellText(cell, kind)} group={group} />
            )}
          </span>
        );
      })}
    </div>
  );
}

/** Stacks are cut at the root, whose functions say least. */
function Text({ cell, text, group }: { cell: Cell | undefined; text: string; group: boolean }) {
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
