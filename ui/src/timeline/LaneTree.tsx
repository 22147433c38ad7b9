/**
 * The timeline as a text tree, for screen readers and the keyboard. The canvas frames its current
 * row.
 *
 * One element has the focus (`aria-activedescendant`), so that a thousand lanes are one tab stop.
 */

import * as store from "../state/store";
import { plural, threadIx, timeText } from "../units";
import type { LaneRow, Row } from "./data/layout";
import * as model from "./data/model";
import { lookAt, scrollToRow, stepEvent } from "./input/actions";
import { openRowMenu } from "./input/menu";
import { sliceLines, sumsText } from "./input/tooltipText";

const domId = (key: string): string => `lane-${key.replace(/[^\w-]/g, "_")}`;

/** Describes a lane: its name, its role in the stall, its totals in the selected time range. */
export function laneText(row: LaneRow): string {
  const sums = row.lane.sums;
  const parts = [row.lane.name];
  if (row.lane.role) parts.push(row.lane.role);
  if (sums) parts.push(sumsText(sums));
  return parts.join(", ");
}

function goTo(row: Row | undefined): void {
  if (!row) return;
  model.row.value = row.key;
  scrollToRow(row);
}

async function look(row: LaneRow, at: number, step: number): Promise<void> {
  const slice = await lookAt(row.lane.id, at, step);
  if (slice)
    model.announcement.value = `${sliceLines(row, slice).join(". ")}. At ${timeText(slice.from)}.`;
}

function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = model.rowLayout.peek().rows;
  const index = Math.max(
    0,
    rows.findIndex((r) => r.key === model.row.peek()),
  );
  const row = rows[index];
  if (!row) return;
  const focus = model.focus.peek();
  const window = store.window.peek();
  const on = row.kind === "lane" && focus?.lane === row.lane.id ? focus : null;
  const act = (): boolean => {
    switch (event.key) {
      case "ArrowDown":
        goTo(rows[index + 1]);
        return true;
      case "ArrowUp":
        goTo(rows[index - 1]);
        return true;
      case "PageDown":
        goTo(rows[Math.min(rows.length - 1, index + 15)]);
        return true;
      case "PageUp":
        goTo(rows[Math.max(0, index - 15)]);
        return true;
      case "Home":
        goTo(rows[0]);
        return true;
      case "End":
        goTo(rows.at(-1));
        return true;
      case "ArrowRight":
      case "ArrowLeft": {
        const right = event.key === "ArrowRight";
        if (row.kind === "header") {
          if (row.open !== right) model.toggle(row.key);
        } else if (row.lane.kind === "track") return false;
        else if (on) void stepEvent(right ? 1 : -1);
        else void look(row, (window.from + window.to) / 2, 0);
        return true;
      }
      case "Enter":
        if (row.kind === "header") model.toggle(row.key);
        else if (row.lane.kind === "track") return false;
        else if (on) pin(row);
        else void look(row, (window.from + window.to) / 2, 0);
        return true;
      case " ":
        if (row.kind === "lane" && row.lane.kind === "thread")
          store.toggleThread(threadIx(row.lane.number));
        return true;
      default:
        return false;
    }
  };
  if (act()) event.preventDefault();
}

/** Pins the current slice's tooltip below its lane. */
function pin(row: LaneRow): void {
  const focus = model.focus.peek();
  if (!focus) return;
  const geometry = model.canvasGeometry.peek();
  const x =
    geometry.labels +
    Math.min(Math.max(model.scale.peek().x(focus.from), 0), geometry.width - geometry.labels);
  const y = geometry.head + row.top + row.height - model.scroll.peek();
  model.tooltip.value = { x, y, lines: sliceLines(row, focus.slice), pinned: true };
}

const LABEL =
  "Lanes of the timeline. Up and down: previous and next lane. Right and left: events of a lane, " +
  "or open and close a section. Enter: details. Space: filter by the thread. Shift+F10: menu.";

export function LaneTree() {
  const rows = model.rowLayout.value.rows;
  const current = model.row.value;
  const selected = store.selection.value.threads as readonly number[];
  const active = rows.find((r) => r.key === current);
  return (
    <>
      <div
        class="tl-tree"
        role="tree"
        tabIndex={0}
        aria-label={LABEL}
        aria-activedescendant={active ? domId(active.key) : undefined}
        onKeyDown={onKey}
        onContextMenu={(event) => {
          event.preventDefault();
          const canvas = event.currentTarget.parentElement?.getBoundingClientRect();
          if (active && canvas) openRowMenu(active, canvas);
        }}
        onFocus={() => (model.row.value ??= rows[0]?.key ?? null)}
        onBlur={() => (model.row.value = null)}
      >
        {rows.map((row) =>
          row.kind === "header" ? (
            <div
              key={row.key}
              id={domId(row.key)}
              role="treeitem"
              aria-level={1}
              aria-expanded={row.open}
              aria-selected={row.key === current}
              data-section={row.key}
              data-top={row.top}
            >
              {row.name}, {plural(row.lanes, "lane")}
            </div>
          ) : (
            <div
              key={row.key}
              id={domId(row.key)}
              role="treeitem"
              aria-level={2}
              aria-selected={row.lane.kind === "thread" && selected.includes(row.lane.number)}
              data-lane={row.lane.id}
              data-in={row.section}
              data-top={row.top}
            >
              {laneText(row)}
            </div>
          ),
        )}
      </div>
      <p class="tl-announcement" aria-live="polite">
        {model.announcement.value}
      </p>
    </>
  );
}
