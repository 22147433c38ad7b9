/** Draws the head above the lanes: time axis, curve of busy CPUs, row of marks and losses. */
import { percent, plural } from "../../units";
import { type Geometry, plotWidth, type Scene } from "../data/scene";
import { ticks } from "./ticks";

export function drawHead(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry: g, theme } = scene;
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, 0, g.width, g.head);
  drawCurve(ctx, scene);
  drawAxis(ctx, scene);
  drawMarks(ctx, scene);
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, g.head - 1, g.width, 1);
}

function drawAxis(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry: g, theme, scale } = scene;
  const { base, labelled, small } = ticks(scale.window, plotWidth(g));
  const foot = g.axis.top + g.axis.height;
  ctx.font = `11px ${theme.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.fillStyle = theme.line;
  for (const at of small) ctx.fillRect(Math.round(g.labels + scale.x(at)), foot - 4, 1, 4);
  for (const tick of labelled) {
    const x = Math.round(g.labels + scale.x(tick.at));
    ctx.fillStyle = theme.dim;
    ctx.fillRect(x, foot - 9, 1, 9);
    // A label that the edge would cut is omitted.
    if (x + 4 + ctx.measureText(tick.label).width <= g.width)
      ctx.fillText(tick.label, x + 4, g.axis.top + g.axis.height / 2 - 1);
  }
  ctx.textAlign = "right";
  ctx.fillStyle = theme.dim;
  ctx.fillText(
    base ? `time, from ${base.label}` : "time",
    g.labels - 8,
    g.axis.top + g.axis.height / 2,
  );
  ctx.textAlign = "left";
}

function drawCurve(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry: g, theme, scale, curve } = scene;
  const { top, height } = g.curve;
  ctx.font = `11px ${theme.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  ctx.fillStyle = theme.dim;
  ctx.fillText(curve ? `busy CPUs of ${curve.cpus}` : "busy CPUs", g.labels - 8, top + height / 2);
  ctx.textAlign = "left";
  if (!curve || curve.busy.length === 0 || curve.cpus === 0) return;
  const columnNs = (curve.to - curve.from) / curve.busy.length;
  const y = (busy: number) =>
    top + height - 1 - (Math.min(busy, curve.cpus) / curve.cpus) * (height - 4);
  ctx.save();
  ctx.beginPath();
  ctx.rect(g.labels, top, g.width - g.labels, height);
  ctx.clip();
  ctx.beginPath();
  ctx.moveTo(g.labels + scale.x(curve.from), top + height);
  curve.busy.forEach((busy, n) => {
    ctx.lineTo(g.labels + scale.x(curve.from + n * columnNs), y(busy));
    ctx.lineTo(g.labels + scale.x(curve.from + (n + 1) * columnNs), y(busy));
  });
  ctx.lineTo(g.labels + scale.x(curve.to), top + height);
  ctx.closePath();
  ctx.fillStyle = theme.accent;
  ctx.globalAlpha = 0.35;
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.restore();
}

/** The number of busy CPUs at a time, for the tooltip. */
export function curveText(scene: Scene, at: number): string | null {
  const curve = scene.curve;
  if (!curve || at < curve.from || at >= curve.to) return null;
  const busy =
    curve.busy[Math.floor(((at - curve.from) / (curve.to - curve.from)) * curve.busy.length)];
  return busy === undefined
    ? null
    : `${busy.toFixed(1)} of ${plural(curve.cpus, "CPU")} busy (${percent(busy, curve.cpus)})`;
}

function drawMarks(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry: g, theme, scale } = scene;
  const { top, height } = g.marks;
  ctx.font = `11px ${theme.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  ctx.fillStyle = theme.dim;
  ctx.fillText(scene.losses.length > 0 ? "marks, losses" : "marks", g.labels - 8, top + height / 2);
  ctx.textAlign = "left";
  ctx.save();
  ctx.beginPath();
  ctx.rect(g.labels, top, g.width - g.labels, height);
  ctx.clip();
  for (const loss of scene.losses)
    hatch(
      ctx,
      g.labels + scale.x(loss.from),
      top + 2,
      Math.max(3, (loss.to - loss.from) * scale.pxPerNs),
      height - 4,
      theme.lost,
    );
  let free = -Infinity;
  for (const mark of scene.recordedMarks) {
    const x = g.labels + scale.x(mark.time);
    const right = mark.to === null ? x : g.labels + scale.x(mark.to);
    if (right < g.labels - 200 || x > g.width) continue;
    ctx.fillStyle = mark.kind === "input" ? theme.accent : theme.warn;
    if (mark.kind === "input") {
      ctx.fillRect(Math.round(x), top + 2, 2, height - 4);
      continue;
    }
    if (right - x > 2) ctx.fillRect(x, top + height - 4, right - x, 2);
    flag(ctx, x, top + 2, height - 4);
    if (mark.label !== "" && x + 9 > free) {
      ctx.fillStyle = theme.text;
      ctx.fillText(mark.label, x + 9, top + height / 2);
      free = x + 9 + ctx.measureText(mark.label).width + 8;
    }
  }
  ctx.restore();
}

function flag(ctx: CanvasRenderingContext2D, x: number, top: number, height: number): void {
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x + 7, top + height * 0.3);
  ctx.lineTo(x + 1.5, top + height * 0.6);
  ctx.lineTo(x + 1.5, top + height);
  ctx.lineTo(x, top + height);
  ctx.closePath();
  ctx.fill();
}

/** Hatches an area where records are lost. */
export function hatch(
  ctx: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  colour: string,
): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1;
  ctx.beginPath();
  // The lines keep to a fixed grid; only those on the screen are drawn.
  const first = Math.floor((Math.max(x, 0) - height) / 5) * 5;
  const last = Math.min(x + width, Math.max(x, 0) + 8192);
  for (let left = first; left < last; left += 5) {
    ctx.moveTo(left, y + height);
    ctx.lineTo(left + height, y);
  }
  ctx.stroke();
  ctx.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1, 1), height - 1);
  ctx.restore();
}

/** Describes the mark or loss at a position of the marks row; null if there is none. */
export function markAt(scene: Scene, x: number): string | null {
  const { scale } = scene;
  const at = scale.at(x);
  const slack = 5 / scale.pxPerNs;
  const loss = scene.losses.find((l) => at >= l.from - slack && at <= l.to + slack);
  if (loss)
    return `${loss.events ? plural(loss.events, "event") : "an unknown number of events"} of CPU ${loss.cpu} lost here`;
  const mark = scene.recordedMarks.find(
    (m) => at >= m.time - slack && at <= (m.to ?? m.time) + slack,
  );
  return mark ? `${mark.kind.replace("_", " ")}${mark.label ? `: ${mark.label}` : ""}` : null;
}

export const inHead = (g: Geometry, y: number): boolean => y < g.head;
