/** Draws a flame graph: labelled boxes, search hits, the hovered and the focused frame. */
import { css, inkOn } from "../draw/colour";
import { cutFunction, type Measure } from "../draw/text";
import { colourOf } from "./palette";
import { onScreen, rowTop, type Tree, type Zoom } from "./tree";

export interface FlameScene {
  readonly tree: Tree;
  readonly zoom: Zoom;
  readonly width: number;
  readonly height: number;
  /** Vertical scroll offset in pixels. */
  readonly scroll: number;
  readonly rowHeight: number;
  /** True for a flame graph, which grows upwards; false for an icicle. */
  readonly up: boolean;
  readonly dark: boolean;
  readonly found: ReadonlySet<number>;
  readonly searching: boolean;
  readonly focus: number;
  readonly hovered: number;
  readonly font: string;
  readonly ground: string;
  readonly text: string;
  readonly accent: string;
}

/** Boxes narrower than this are invisible and not drawn. */
const MIN_BOX_PX = 0.4;
const MIN_LABEL_PX = 22;

/** Height of the whole graph in CSS pixels; a flame graph fills the view at least. */
export const treeHeight = (tree: Tree, rowHeight: number, view: number, up: boolean): number =>
  up ? Math.max(tree.depth * rowHeight, view) : tree.depth * rowHeight;

/** Top of the tree's first row within that height. */
export const treeTop = (tree: Tree, rowHeight: number, view: number, up: boolean): number =>
  treeHeight(tree, rowHeight, view, up) - tree.depth * rowHeight;

export function drawFlame(
  ctx: CanvasRenderingContext2D,
  scene: FlameScene,
  measure: Measure,
): void {
  const { tree, width, height, rowHeight } = scene;
  ctx.fillStyle = scene.ground;
  ctx.fillRect(0, 0, width, height);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const origin = treeTop(tree, rowHeight, height, scene.up) - scene.scroll;
  for (const box of tree.boxes) {
    const y = origin + rowTop(box.depth, tree, rowHeight, scene.up);
    if (y + rowHeight < 0 || y > height) continue;
    const { x, width: w } = onScreen(box, scene.zoom, width);
    if (w < MIN_BOX_PX) continue;
    const colour = colourOf(box.frame, box.parent < 0, scene.dark);
    const dimmed = scene.searching && !scene.found.has(box.index);
    ctx.globalAlpha = dimmed ? 0.4 : 1;
    ctx.fillStyle = css(colour);
    ctx.fillRect(x, y, Math.max(w - (w > 3 ? 1 : 0), MIN_BOX_PX), rowHeight - 1);
    if (w >= MIN_LABEL_PX) {
      const text = cutFunction(box.frame.name, w - 7, measure);
      if (text !== "") {
        ctx.fillStyle = inkOn(colour);
        ctx.fillText(text, x + 3, y + rowHeight / 2);
      }
    }
    ctx.globalAlpha = 1;
    // Search hits also get an outline: brightness is not the only cue.
    if (scene.searching && !dimmed) outline(ctx, scene.text, x, y, w, rowHeight, 1);
  }
  for (const [index, colour] of [
    [scene.hovered, scene.text],
    [scene.focus, scene.accent],
  ] as const) {
    const box = tree.boxes[index];
    if (!box) continue;
    const { x, width: w } = onScreen(box, scene.zoom, width);
    if (w > 0)
      outline(
        ctx,
        colour,
        x,
        origin + rowTop(box.depth, tree, rowHeight, scene.up),
        w,
        rowHeight,
        2,
      );
  }
}

function outline(
  ctx: CanvasRenderingContext2D,
  colour: string,
  x: number,
  y: number,
  width: number,
  height: number,
  line: number,
): void {
  ctx.strokeStyle = colour;
  ctx.lineWidth = line;
  ctx.strokeRect(x + line / 2, y + line / 2, Math.max(width - line - 1, 1), height - line - 1);
}
