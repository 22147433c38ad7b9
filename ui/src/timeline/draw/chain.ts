/** Draws the wait chain over its lanes: a frame per link, an arrow per wake-up. */

import type { StallAnswer } from "../../api/types";
import type { Measure } from "../../draw/text";
import type { LaneRow } from "../data/layout";
import { laneNumber } from "../data/protocol";
import { plotWidth, rowTop, type Scene } from "../data/scene";
import { type Arrow, route, type Wake } from "./arrows";

/** The chain's rows by lane. */
function chainRows(scene: Scene): Map<string, LaneRow> {
  const rows = new Map<string, LaneRow>();
  for (const row of scene.layout.rows) {
    if (row.kind === "lane" && row.depth !== null && !row.fixed && !rows.has(row.lane.id))
      rows.set(row.lane.id, row);
  }
  return rows;
}

const middleOf = (scene: Scene, row: LaneRow): number => rowTop(scene, row) + row.height / 2;

/** The chain's arrows, routed for the current scene. */
export function chainArrows(
  scene: Scene,
  measure: Measure,
): { arrows: Arrow[]; sources: readonly StallAnswer["arrows"][number][] } {
  const chain = scene.chain;
  if (!chain) return { arrows: [], sources: [] };
  const rows = chainRows(scene);
  const victim = chain.lanes[0]?.lane;
  const sources = chain.arrows.filter((arrow) => rows.has(arrow.to_lane));
  const wakes = sources.map((arrow): Wake => {
    const [from, to] = [rows.get(arrow.from_lane), rows.get(arrow.to_lane)];
    return {
      at: arrow.at,
      fromY: from ? middleOf(scene, from) : null,
      toY: to ? middleOf(scene, to) : 0,
      label: wakerText(scene, arrow),
      evidence: arrow.evidence,
      strong: arrow.to_lane === victim || arrow.link === scene.chainLink,
    };
  });
  return { arrows: route(wakes, scene.scale, measure), sources };
}

/** By whom an arrow says that the thread was woken, and how that is known if it was not seen. */
export function wakerText(
  scene: Pick<Scene, "names">,
  arrow: Pick<StallAnswer["arrows"][number], "from_lane" | "context" | "evidence">,
): string {
  const waker = scene.names.get(laneNumber(arrow.from_lane));
  const who = waker && arrow.context === "task" ? `${waker.name} ${waker.tid}` : arrow.context;
  return `by ${who.replaceAll("_", " ")}${arrow.evidence === "direct" ? "" : `, ${arrow.evidence}`}`;
}

export function drawChain(ctx: CanvasRenderingContext2D, scene: Scene, measure: Measure): void {
  const chain = scene.chain;
  if (!chain) return;
  const { geometry: g, theme } = scene;
  const rows = chainRows(scene);
  if (rows.size === 0) return;
  ctx.save();
  ctx.beginPath();
  const top = g.head + scene.layout.fixed;
  ctx.rect(g.labels, top, g.width - g.labels, Math.max(0, g.height - top));
  ctx.clip();
  drawLinks(ctx, scene, rows);
  ctx.font = `11px ${theme.font}`;
  ctx.textBaseline = "middle";
  const { arrows } = chainArrows(scene, measure);
  for (const arrow of arrows) if (!arrow.strong) drawArrow(ctx, scene, arrow);
  for (const arrow of arrows) if (arrow.strong) drawArrow(ctx, scene, arrow);
  for (const arrow of arrows) drawLabel(ctx, scene, arrow);
  ctx.restore();
}

function drawLinks(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  rows: ReadonlyMap<string, LaneRow>,
): void {
  const { geometry: g, theme, scale } = scene;
  const width = plotWidth(g);
  scene.chain?.chain.forEach((link, index) => {
    const row = rows.get(link.lane);
    if (!row) return;
    const left = Math.max(-2, scale.x(link.from));
    const right = Math.min(width + 2, scale.x(link.to));
    if (right < 0 || left > width) return;
    const here = scene.chainLink === index;
    if (!here && right - left < 3) return;
    ctx.strokeStyle = here ? theme.accent : theme.text;
    ctx.lineWidth = here ? 2.5 : 1;
    ctx.globalAlpha = here ? 1 : 0.7;
    ctx.strokeRect(
      g.labels + left + 0.5,
      rowTop(scene, row) + 1.5,
      Math.max(right - left - 1, 2),
      row.height - 4,
    );
  });
  ctx.globalAlpha = 1;
}

function drawArrow(ctx: CanvasRenderingContext2D, scene: Scene, arrow: Arrow): void {
  const { geometry: g, theme } = scene;
  const x = Math.round(g.labels + arrow.x) + 0.5;
  const down = arrow.toY > arrow.fromY;
  const tip = arrow.toY + (down ? -2 : 2);
  ctx.strokeStyle = arrow.strong ? theme.text : theme.dim;
  ctx.fillStyle = ctx.strokeStyle;
  if (arrow.x - arrow.fromX > 3) {
    // A run of wake-ups is a band from the first to the last.
    ctx.globalAlpha = arrow.strong ? 0.25 : 0.1;
    ctx.fillRect(
      g.labels + arrow.fromX,
      Math.min(arrow.fromY, arrow.toY),
      arrow.x - arrow.fromX,
      Math.abs(arrow.toY - arrow.fromY),
    );
    ctx.globalAlpha = 1;
    ctx.fillRect(
      Math.round(g.labels + arrow.fromX),
      Math.min(arrow.fromY, arrow.toY),
      1,
      Math.abs(arrow.toY - arrow.fromY),
    );
  }
  ctx.globalAlpha = arrow.strong ? 1 : 0.35;
  ctx.lineWidth = arrow.count > 1 && arrow.strong ? 2 : 1.25;
  // Solid: observed. Dashed: inferred. Dotted: records lost.
  ctx.setLineDash(
    arrow.evidence === "direct" ? [] : arrow.evidence === "inferred" ? [5, 3] : [1, 3],
  );
  ctx.beginPath();
  ctx.moveTo(x, arrow.fromY);
  ctx.lineTo(x, tip);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath();
  ctx.arc(x, arrow.fromY, 2.5, 0, 2 * Math.PI);
  ctx.fill();
  const wing = down ? -7 : 7;
  ctx.beginPath();
  ctx.moveTo(x, tip);
  ctx.lineTo(x - 4, tip + wing);
  ctx.lineTo(x + 4, tip + wing);
  ctx.closePath();
  ctx.fill();
  ctx.globalAlpha = 1;
}

function drawLabel(ctx: CanvasRenderingContext2D, scene: Scene, arrow: Arrow): void {
  const { geometry: g, theme } = scene;
  if (!arrow.label) return;
  const { text, y, width } = arrow.label;
  ctx.fillStyle = theme.raised;
  ctx.globalAlpha = 0.92;
  ctx.fillRect(g.labels + arrow.label.x - 2, y - 7, width + 4, 14);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.text;
  ctx.fillText(text, g.labels + arrow.label.x, y);
}
