/** Draws the label column: section headers with a triangle, lanes with their role in the stall. */

import { cutEnd, type Measure } from "../../draw/text";
import { plural } from "../../units";
import type { HeaderRow, LaneRow } from "../data/layout";
import { clipped, lanesHeight, panes, rowTop, type Scene } from "../data/scene";
import { drawLegend } from "./track";

/** A sign and a word per role, so that colour is not the only cue. */
const ROLES: { readonly [role: string]: string } = {
  victim: "● victim",
  culprit: "▲ culprit",
  hop: "│ hop",
};

export function drawLabels(ctx: CanvasRenderingContext2D, scene: Scene, measure: Measure): void {
  const { geometry: g, theme } = scene;
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, g.head, g.labels, lanesHeight(g));
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.font = `11px ${theme.font}`;
  for (const { rows, ...pane } of panes(scene)) {
    clipped(ctx, { left: 0, width: g.labels, ...pane }, () => {
      for (const row of rows) {
        if (row.kind === "header") header(ctx, scene, row, measure);
        else lane(ctx, scene, row, measure);
      }
    });
  }
  ctx.fillStyle = theme.line;
  ctx.fillRect(g.labels - 1, 0, 1, g.height);
}

function header(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  row: HeaderRow,
  measure: Measure,
): void {
  const { geometry: g, theme } = scene;
  const top = rowTop(scene, row);
  const middle = top + row.height / 2;
  ctx.fillStyle = theme.raised;
  ctx.fillRect(0, top, g.labels, row.height - 1);
  if (row.process && scene.selected.process === row.process.process) {
    ctx.fillStyle = theme.accent;
    ctx.fillRect(0, top, 3, row.height - 1);
  }
  ctx.fillStyle = theme.dim;
  ctx.beginPath();
  if (row.open) {
    ctx.moveTo(6, middle - 3);
    ctx.lineTo(14, middle - 3);
    ctx.lineTo(10, middle + 3);
  } else {
    ctx.moveTo(7, middle - 4);
    ctx.lineTo(13, middle);
    ctx.lineTo(7, middle + 4);
  }
  ctx.fill();
  const count =
    row.section === "process"
      ? plural(row.lanes, "thread")
      : row.section === "cpus" || row.section === "tracks"
        ? String(row.lanes)
        : plural(row.lanes, "lane");
  const right = g.labels - 8 - measure(count);
  ctx.fillText(count, right, middle);
  ctx.fillStyle = theme.text;
  ctx.fillText(cutEnd(row.name, right - 18 - 8, measure), 18, middle);
}

function lane(ctx: CanvasRenderingContext2D, scene: Scene, row: LaneRow, measure: Measure): void {
  const { geometry: g, theme } = scene;
  const top = rowTop(scene, row);
  const middle = top + row.height / 2;
  const chosen = row.lane.kind === "thread" && scene.selected.threads.includes(row.lane.number);
  if (chosen) {
    ctx.fillStyle = theme.select;
    ctx.fillRect(0, top, g.labels, row.height - 1);
    ctx.fillStyle = theme.accent;
    ctx.fillRect(0, top, 3, row.height - 1);
  }
  const left = 18 + (row.depth ?? 0) * 6;
  if (row.lane.kind === "track") {
    ctx.fillStyle = theme.text;
    ctx.fillText(cutEnd(row.lane.name, g.labels - left - 8, measure), left, top + 8);
    drawLegend(ctx, scene, row, left, measure);
    return;
  }
  if (row.fixed) pinSign(ctx, middle, theme.dim);
  const role = row.lane.role === null ? "" : (ROLES[row.lane.role] ?? "");
  // Rows of the chain have room for the role below the name.
  const below = role !== "" && row.height >= 26;
  const sign = role !== "" && !below ? (role[0] ?? "") : "";
  ctx.fillStyle = scene.matches(row.lane.name) ? theme.accent : theme.text;
  const room = g.labels - left - 8 - (sign ? 14 : 0);
  ctx.fillText(cutEnd(row.lane.name, room, measure), left, below ? middle - 6 : middle);
  ctx.fillStyle = theme.dim;
  if (below) ctx.fillText(role, left, middle + 7);
  if (sign) ctx.fillText(sign, g.labels - 16, middle);
}

/** A pin, before the name of a pinned lane. */
function pinSign(ctx: CanvasRenderingContext2D, middle: number, colour: string): void {
  ctx.fillStyle = colour;
  ctx.fillRect(6, middle - 4, 7, 3);
  ctx.fillRect(8, middle - 1, 3, 2);
  ctx.fillRect(9, middle + 1, 1, 4);
}
