/**
 * Draws the lanes: one blit for all slices and cells on the screen, then labels on slices with room
 * for one.
 */

import { mix, parse } from "../../draw/colour";
import { RAN, STATES, stateOf } from "../../draw/states";
import { cutEnd, type Measure } from "../../draw/text";
import type { Theme } from "../../draw/theme";
import type { LaneView } from "../data/decode";
import { NONE } from "../data/decode";
import type { Row } from "../data/layout";
import {
  clipped,
  lanesHeight,
  type Pane,
  panes,
  plotWidth,
  rowTop,
  type Scene,
} from "../data/scene";
import { firstEndingAfter } from "../data/sorted";
import { hatch } from "./head";
import { buildTable, isLabelled } from "./looks";
import { blit, keysOf, samplesInto } from "./raster";
import { drawTrack } from "./track";

/** A narrower slice has no room for a label. */
const MIN_LABEL_PX = 34;

export class LanePainter {
  private tables = new Map<number, Uint32Array>();
  private theme: Theme | null = null;
  private readonly buffer = document.createElement("canvas");
  private image: ImageData | null = null;
  private keys = new Uint16Array(0);

  /** Draws every row on the screen; `measure` is for the context's font. */
  draw(ctx: CanvasRenderingContext2D, scene: Scene, measure: Measure): void {
    const { geometry: g, theme } = scene;
    const parts = panes(scene);
    ctx.fillStyle = theme.panel;
    ctx.fillRect(0, g.head, g.width, lanesHeight(g));
    for (const { rows, ...pane } of parts) {
      clipped(ctx, { left: 0, width: g.width, ...pane }, () => {
        for (const row of rows) this.ground(ctx, scene, row);
      });
    }
    this.blitAll(ctx, scene, parts);
    ctx.font = `11px ${theme.font}`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const { rows, ...pane } of parts) {
      clipped(ctx, { left: 0, width: g.width, ...pane }, () => {
        for (const row of rows) {
          const view = row.kind === "lane" ? scene.views.get(row.lane.id) : undefined;
          if (row.kind === "lane" && row.lane.kind === "track") drawTrack(ctx, scene, row, measure);
          if (view && row.height >= 14) texts(ctx, scene, row, view, measure);
          if (row.kind === "lane" && row.lane.kind === "cpu") losses(ctx, scene, row);
        }
      });
    }
    if (scene.layout.fixed > 0) {
      ctx.fillStyle = theme.dim;
      ctx.fillRect(0, g.head + scene.layout.fixed - 1, g.width, 2);
    }
  }

  private ground(ctx: CanvasRenderingContext2D, scene: Scene, row: Row): void {
    const { geometry: g, theme } = scene;
    const top = rowTop(scene, row);
    if (row.kind === "header") {
      ctx.fillStyle = theme.raised;
      ctx.fillRect(g.labels, top, g.width - g.labels, row.height - 1);
      if (row.process) lifetime(ctx, scene, top, row.height, row.process);
      return;
    }
    ctx.fillStyle = theme.line;
    ctx.globalAlpha = 0.5;
    ctx.fillRect(g.labels, top + row.height - 1, g.width - g.labels, 1);
    ctx.globalAlpha = 1;
  }

  private blitAll(ctx: CanvasRenderingContext2D, scene: Scene, parts: readonly Pane[]): void {
    const { geometry: g, theme } = scene;
    const width = plotWidth(g);
    const height = Math.ceil(lanesHeight(g));
    if (width < 1 || height < 1) return;
    if (this.theme !== theme) {
      this.tables.clear();
      this.theme = theme;
    }
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.buffer.width = width;
      this.buffer.height = height;
      this.image = new ImageData(width, height);
      this.keys = new Uint16Array(width);
    }
    const pixels = new Uint32Array(this.image.data.buffer);
    pixels.fill(0);
    for (const { rows } of parts) {
      // The pinned rows, which are last, cover what scrolls under them.
      if (rows[0]?.fixed) pixels.fill(0, 0, width * Math.min(height, scene.layout.fixed));
      this.blitRows(scene, rows, pixels, width);
    }
    const buffer = this.buffer.getContext("2d");
    if (!buffer) return;
    buffer.putImageData(this.image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(this.buffer, g.labels, g.head);
  }

  private blitRows(scene: Scene, rows: readonly Row[], pixels: Uint32Array, width: number): void {
    const { geometry: g, theme, scale } = scene;
    const hue = (thread: number) => scene.names.get(thread)?.processIndex ?? 0;
    const ink = mix(theme.ground, parse(theme.text) ?? 0xffffffff, 0.55);
    for (const row of rows) {
      if (row.kind !== "lane") continue;
      const top = Math.round(rowTop(scene, row) - g.head);
      const tall = row.height - 3;
      const view = scene.views.get(row.lane.id);
      if (view && keysOf(view, scale, hue, this.keys))
        blit(this.keys, this.table(theme, tall), tall, pixels, width, top + 1);
      const samples = scene.views.get(`s${row.lane.id}`);
      if (samples) samplesInto(samples, scale, ink, pixels, width, width, top + row.height - 1);
    }
  }

  private table(theme: Theme, height: number): Uint32Array {
    const known = this.tables.get(height);
    if (known) return known;
    const table = buildTable(theme, height);
    this.tables.set(height, table);
    return table;
  }
}

/** Draws a process's lifetime as a line; a start or exit within the recording has a cap. */
function lifetime(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  top: number,
  height: number,
  life: { from: number; to: number; started: boolean; ended: boolean },
): void {
  const { geometry: g, theme, scale } = scene;
  const left = Math.max(g.labels, g.labels + scale.x(life.from));
  const right = Math.min(g.width, g.labels + scale.x(life.to));
  if (right <= left) return;
  const middle = Math.round(top + height / 2);
  ctx.fillStyle = theme.dim;
  ctx.globalAlpha = 0.6;
  ctx.fillRect(left, middle - 1, right - left, 2);
  if (life.started && left > g.labels) ctx.fillRect(left, middle - 5, 2, 10);
  if (life.ended && right < g.width) ctx.fillRect(right - 2, middle - 5, 2, 10);
  ctx.globalAlpha = 1;
}

function losses(ctx: CanvasRenderingContext2D, scene: Scene, row: Row): void {
  if (row.kind !== "lane") return;
  const { geometry: g, scale, theme } = scene;
  for (const loss of scene.losses) {
    if (loss.cpu !== row.lane.number || loss.to < scale.window.from || loss.from > scale.window.to)
      continue;
    const x = Math.max(g.labels, g.labels + scale.x(loss.from));
    hatch(
      ctx,
      x,
      rowTop(scene, row) + 1,
      Math.max(3, g.labels + scale.x(loss.to) - x),
      row.height - 2,
      theme.lost,
    );
  }
}

function texts(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  row: Row,
  view: LaneView,
  measure: Measure,
): void {
  const { geometry: g, scale, theme } = scene;
  const width = plotWidth(g);
  const middle = rowTop(scene, row) + row.height / 2;
  for (let n = firstEndingAfter(view.end, scale.window.from); n < view.start.length; n++) {
    const left = Math.max(0, scale.x(view.start[n] as number));
    if (left >= width) break;
    const right = Math.min(width, scale.x(view.end[n] as number));
    const state = view.state[n] as number;
    if (right - left < MIN_LABEL_PX || !isLabelled(state)) continue;
    const text = cutEnd(sliceLabel(scene, view, n), right - left - 8, measure);
    if (text === "") continue;
    // On a plate, since patterns make text hard to read.
    const w = measure(text);
    const x = g.labels + left + 3;
    ctx.fillStyle = theme.panel;
    ctx.globalAlpha = 0.72;
    ctx.fillRect(x - 1, middle - 6.5, w + 4, 12);
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme.text;
    ctx.fillText(text, x + 1, middle);
  }
}

/**
 * A slice's label: on a CPU the thread that ran; on a thread its state and the other thread
 * involved.
 */
export function sliceLabel(scene: Pick<Scene, "names">, view: LaneView, index: number): string {
  const code = view.state[index] as number;
  const thread = view.thread[index] as number;
  const name = thread === NONE ? undefined : scene.names.get(thread);
  const who = name ? `${name.name} ${name.tid}` : "";
  if (view.kind === "cpu") return code === RAN ? who || "?" : stateOf(code).name;
  const state = stateOf(code);
  if (who === "" || code === RAN) return state.name;
  return state === STATES[2] ? `runnable, ${who} ran` : `${state.name}, until ${who}`;
}
