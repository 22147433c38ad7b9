/** Draws a track: a measure over time, stacked by its groups, and the groups' names beside it. */
import { cutEnd, type Measure } from "../../draw/text";
import { measureOf } from "../../table/arrange";
import { groupName, layersOf, partOf, rateText, scaleText } from "../../table/seriesModel";
import type { LaneRow } from "../data/layout";
import { rowTop, type Scene } from "../data/scene";
import { arrangementOf } from "../data/tracks";

const LINE = 13;

export function drawTrack(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  row: LaneRow,
  measure: Measure,
): void {
  const { geometry: g, scale, theme } = scene;
  const series = scene.tracks.get(row.lane.id);
  const of = arrangementOf(row.lane.id);
  if (!series || !of) return;
  const layers = layersOf(series, theme.groups, theme.dim);
  const part = partOf(series);
  const first = Math.max(0, Math.floor((scale.window.from - series.from) / part));
  const end = Math.min(series.px, Math.ceil((scale.window.to - series.from) / part));
  const top = Math.max(1, ...(layers.at(-1)?.high.slice(first, end) ?? []));
  const foot = rowTop(scene, row) + row.height - 1;
  const room = row.height - 3;
  for (const { colour, low, high } of layers) {
    ctx.fillStyle = colour;
    for (let n = first; n < end; n++) {
      const [from, to] = [low[n] ?? 0, high[n] ?? 0];
      if (to <= from) continue;
      // Whole pixels: next to each other, without a seam.
      const left = Math.max(g.labels, Math.round(g.labels + scale.x(series.from + n * part)));
      const right = Math.round(g.labels + scale.x(series.from + (n + 1) * part));
      const height = ((to - from) / top) * room;
      ctx.fillRect(left, foot - (to / top) * room, right - left, height);
    }
  }
  plate(ctx, scene, row, scaleText(series, measureOf(of), top), measure);
}

/** What the height stands for, on a plate as the labels of slices. */
function plate(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  row: LaneRow,
  text: string,
  measure: Measure,
): void {
  const { geometry: g, theme } = scene;
  const shown = cutEnd(text, g.width - g.labels - 10, measure);
  const top = rowTop(scene, row) + 2;
  ctx.fillStyle = theme.panel;
  ctx.globalAlpha = 0.72;
  ctx.fillRect(g.labels + 2, top, measure(shown) + 6, 13);
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.dim;
  ctx.fillText(shown, g.labels + 5, top + 7);
}

/** The names of the groups below that of the track, as many as fit. */
export function drawLegend(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  row: LaneRow,
  left: number,
  measure: Measure,
): void {
  const { geometry: g, theme } = scene;
  const entries = legend(scene, row);
  const bottom = rowTop(scene, row) + row.height;
  let [x, y] = [left, rowTop(scene, row) + 8 + LINE];
  for (const { name, colour } of entries) {
    const width = 10 + measure(name) + 8;
    if (x > left && x + width > g.labels) [x, y] = [left, y + LINE];
    if (y + LINE / 2 > bottom) return;
    ctx.fillStyle = colour;
    ctx.fillRect(x, y - 4, 7, 7);
    ctx.fillStyle = theme.dim;
    ctx.fillText(cutEnd(name, g.labels - x - 14, measure), x + 10, y);
    x += width;
  }
}

interface Entry {
  readonly name: string;
  readonly colour: string;
  readonly values: readonly number[];
}

function legend({ theme, tracks }: Pick<Scene, "theme" | "tracks">, row: LaneRow): Entry[] {
  const series = tracks.get(row.lane.id);
  const of = arrangementOf(row.lane.id);
  if (!series || !of) return [];
  const entries = series.groups.map(({ cell, values }, i) => ({
    name: groupName(of, cell),
    colour: theme.groups[i % theme.groups.length] ?? theme.dim,
    values,
  }));
  const others = { name: `${series.other_groups} more`, colour: theme.dim, values: series.others };
  return series.other_groups > 0 ? [...entries, others] : entries;
}

/** What a track shows at a time, group by group. */
export function trackLines(scene: Scene, row: LaneRow, at: number): string[] {
  const series = scene.tracks.get(row.lane.id);
  if (!series) return [row.lane.name];
  const part = partOf(series);
  const n = Math.floor((at - series.from) / part);
  return [
    row.lane.name,
    ...legend(scene, row).flatMap(({ name, values }) =>
      values[n] ? [`${name}: ${rateText(series.unit, values[n], part)}`] : [],
    ),
  ];
}
