/**
 * Draws the overlay that follows pointer and keyboard: cursor, selected range, marks, highlights.
 * Cheap enough for every move of the pointer.
 */

import { RAN } from "../../draw/states";
import { durationText, timeText } from "../../units";
import type { Row } from "../data/layout";
import {
  clipped,
  lanesHeight,
  type Pointing,
  panes,
  plotWidth,
  rowTop,
  type Scene,
} from "../data/scene";
import { firstEndingAfter } from "../data/sorted";

/** How much of what is outside the selected range is covered. */
export const OUTSIDE_DIM = 0.6;
/** Height of the grips on the edges of the selected range. */
const GRIP_PX = 14;

export function drawOver(ctx: CanvasRenderingContext2D, scene: Scene, pointing: Pointing): void {
  const { geometry: g, theme } = scene;
  ctx.clearRect(0, 0, g.width, g.height);
  ctx.font = `11px ${theme.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const plot = { left: g.labels, top: 0, width: g.width - g.labels, height: g.height };
  clipped(ctx, plot, () => dimOutside(ctx, scene, pointing));
  const parts = panes(scene);
  for (const { rows, ...pane } of parts) {
    clipped(ctx, { left: 0, width: g.width, ...pane }, () => {
      for (const row of rows) highlight(ctx, scene, pointing, row);
    });
  }
  const rows = parts.flatMap((pane) => pane.rows);
  clipped(ctx, { left: 0, top: g.head, width: g.width, height: lanesHeight(g) }, () =>
    wakeArrow(ctx, scene, pointing, rows),
  );
  clipped(ctx, plot, () => {
    selected(ctx, scene, pointing);
    for (const [index, mark] of scene.pageMarks.entries())
      pageMark(ctx, scene, mark.from, mark.to, mark.kept ? String(index + 1) : "M");
    cursor(ctx, scene, pointing);
  });
}

/**
 * Dims what is outside the selected range. *Why not tint the inside:* the selected states must have
 * the colours of the legend.
 */
function dimOutside(ctx: CanvasRenderingContext2D, scene: Scene, pointing: Pointing): void {
  const { geometry: g, theme, scale } = scene;
  if (!pointing.range) return;
  const left = Math.max(g.labels, g.labels + scale.x(pointing.range.from));
  const right = Math.min(g.width, Math.max(g.labels, g.labels + scale.x(pointing.range.to)));
  ctx.fillStyle = theme.panel;
  ctx.globalAlpha = OUTSIDE_DIM;
  ctx.fillRect(g.labels, g.axis.height, left - g.labels, g.height);
  ctx.fillRect(right, g.axis.height, g.width - right, g.height);
  ctx.globalAlpha = 1;
}

function highlight(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  pointing: Pointing,
  row: Row,
): void {
  const { geometry: g, theme, scale } = scene;
  const top = rowTop(scene, row);
  if (row.key === pointing.row) {
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 2;
    ctx.strokeRect(1, top + 1, g.width - 2, row.height - 3);
  }
  if (row.kind !== "lane") return;
  const { thread } = pointing.hovered;
  if (row.lane.kind === "thread" && thread === row.lane.number) {
    // Its name alone: what the lane shows keeps the colours of the legend.
    ctx.fillStyle = theme.select;
    ctx.fillRect(0, top, g.labels, row.height - 1);
  }
  const view = scene.views.get(row.lane.id);
  // On CPU lanes, where the hovered (or selected) thread ran.
  const wanted = thread === null ? scene.selected.threads : [thread];
  if (view && row.lane.kind === "cpu" && wanted.length > 0) {
    ctx.fillStyle = theme.text;
    for (let n = firstEndingAfter(view.end, scale.window.from); n < view.start.length; n++) {
      const left = Math.max(0, scale.x(view.start[n] as number));
      if (left > plotWidth(g)) break;
      if (!wanted.includes(view.thread[n] as number) || view.state[n] !== RAN) continue;
      const width = Math.max(1, Math.min(scale.x(view.end[n] as number), plotWidth(g)) - left);
      ctx.fillRect(g.labels + left, top, width, 2);
      ctx.fillRect(g.labels + left, top + row.height - 3, width, 2);
    }
    const columnPx = view.columnNs * scale.pxPerNs;
    for (let n = 0; n < view.cellColumn.length; n++) {
      if (!wanted.includes(view.cellThread[n] as number)) continue;
      const x = scale.x(view.from) + (view.cellColumn[n] as number) * columnPx;
      if (x >= 0 && x <= plotWidth(g)) ctx.fillRect(g.labels + x, top, Math.max(1, columnPx), 2);
    }
  }
  const { focus } = pointing;
  if (focus && focus.lane === row.lane.id) {
    const left = Math.max(-3, scale.x(focus.from));
    const right = Math.min(plotWidth(g) + 3, scale.x(focus.to));
    if (right >= 0 && left <= plotWidth(g)) {
      ctx.strokeStyle = theme.text;
      ctx.lineWidth = 2;
      ctx.strokeRect(g.labels + left, top + 1, Math.max(right - left, 3), row.height - 3);
    }
  }
}

/** An arrow from the waker's row, the nearest one on the screen, to the current slice. */
function wakeArrow(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  pointing: Pointing,
  rows: readonly Row[],
): void {
  const { geometry: g, theme, scale } = scene;
  const { focus } = pointing;
  if (!focus?.wake) return;
  const x = Math.round(g.labels + scale.x(focus.wake.at)) + 0.5;
  if (x < g.labels || x > g.width) return;
  const middles = (lane: string | null) =>
    rows.flatMap((r) =>
      r.kind === "lane" && r.lane.id === lane ? [rowTop(scene, r) + r.height / 2] : [],
    );
  const to = middles(focus.lane)[0];
  if (to === undefined) return;
  const from =
    middles(focus.wake.lane).sort((a, b) => Math.abs(a - to) - Math.abs(b - to))[0] ?? to + 22;
  const down = to > from;
  const tip = to + (down ? -4 : 4);
  ctx.strokeStyle = theme.accent;
  ctx.fillStyle = theme.accent;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.moveTo(x, from);
  ctx.lineTo(x, tip);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x, tip);
  ctx.lineTo(x - 4, tip + (down ? -7 : 7));
  ctx.lineTo(x + 4, tip + (down ? -7 : 7));
  ctx.closePath();
  ctx.fill();
  plate(
    ctx,
    scene,
    x + 8 + (ctx.measureText(focus.wake.text).width + 8) / 2,
    (from + to) / 2,
    focus.wake.text,
  );
}

function selected(ctx: CanvasRenderingContext2D, scene: Scene, pointing: Pointing): void {
  const { geometry: g, theme, scale } = scene;
  if (!pointing.range) return;
  const left = g.labels + scale.x(pointing.range.from);
  const right = g.labels + scale.x(pointing.range.to);
  ctx.fillStyle = theme.accent;
  for (const edge of [left, right]) {
    ctx.fillRect(Math.round(edge), 0, 1, g.height);
    // A grip: the edge can be dragged.
    ctx.fillRect(Math.round(edge) - 2, g.axis.height + 2, 5, GRIP_PX);
  }
  const text = durationText(pointing.range.to - pointing.range.from);
  plate(
    ctx,
    scene,
    (Math.max(left, g.labels) + Math.min(right, g.width)) / 2,
    g.curve.top + 9,
    text,
  );
}

function pageMark(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  from: number,
  to: number,
  label: string,
): void {
  const { geometry: g, theme, scale } = scene;
  const left = g.labels + scale.x(from);
  const right = g.labels + scale.x(to);
  if (right < g.labels || left > g.width) return;
  ctx.fillStyle = theme.warn;
  ctx.fillRect(Math.round(left), 0, 1, g.height);
  if (right - left > 1) {
    ctx.fillRect(Math.round(right), 0, 1, g.height);
    ctx.fillRect(left, g.axis.height - 3, right - left, 3);
  }
  const text = right - left > 1 ? `${label}  ${durationText(to - from)}` : label;
  plate(
    ctx,
    scene,
    (Math.max(left, g.labels) + Math.min(right, g.width)) / 2,
    g.marks.top + g.marks.height / 2,
    text,
  );
}

function cursor(ctx: CanvasRenderingContext2D, scene: Scene, pointing: Pointing): void {
  const { geometry: g, theme, scale } = scene;
  if (pointing.x === null || pointing.x < g.labels) return;
  ctx.fillStyle = theme.dim;
  ctx.fillRect(Math.round(pointing.x), 0, 1, g.height);
  const at = scale.at(pointing.x - g.labels);
  plate(ctx, scene, pointing.x, g.axis.top + g.axis.height / 2, timeText(at, 1 / scale.pxPerNs));
}

/** Text on a plate, within the plot. */
function plate(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  x: number,
  y: number,
  text: string,
): void {
  const { geometry: g, theme } = scene;
  const width = ctx.measureText(text).width + 8;
  const left = Math.min(Math.max(x - width / 2, g.labels), g.width - width);
  ctx.fillStyle = theme.raised;
  ctx.fillRect(left, y - 8, width, 16);
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  ctx.strokeRect(left + 0.5, y - 7.5, width - 1, 15);
  ctx.fillStyle = theme.text;
  ctx.fillText(text, left + 4, y);
}
