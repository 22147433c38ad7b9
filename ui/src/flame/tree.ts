/**
 * Lays out a flame graph: each frame a box, its width a share of the root's, one row per depth, in
 * the server's order.
 */

/** One frame as the server sends it: parents before children, siblings in the order to draw. */
export interface Frame {
  /** Index of the parent in the same list; -1 for the root. */
  readonly parent: number;
  readonly name: string;
  readonly module: string;
  /** Nanoseconds of waits, or number of samples. The children's sum is at most this. */
  readonly value: number;
  /** The part of `value` for which this was the innermost frame. */
  readonly self: number;
  /** Number of stacks that contain it. */
  readonly count: number;
  /** The server's key for this frame below its parent; -1 for `others`. */
  readonly key: number;
  /** Stands for all frames too narrow to send. */
  readonly others: boolean;
  readonly kernel: boolean;
}

export interface Box {
  readonly frame: Frame;
  /** Index in the list of frames and in the list of boxes. */
  readonly index: number;
  readonly depth: number;
  /** Left edge and width, as shares of the root's width. */
  readonly left: number;
  readonly width: number;
  readonly parent: number;
  readonly children: number[];
}

export interface Tree {
  readonly boxes: readonly Box[];
  readonly depth: number;
  readonly total: number;
}

/** Lays out the frames. One that follows no parent, or is too wide for it, is clipped. */
export function lay(frames: readonly Frame[]): Tree {
  const boxes: Box[] = [];
  const filled: number[] = [];
  let deepest = 0;
  const total = frames[0]?.value ?? 0;
  frames.forEach((frame, index) => {
    const above = boxes[frame.parent];
    const depth = above ? above.depth + 1 : 0;
    const used = filled[frame.parent] ?? 0;
    const free = above ? above.width - used : index === 0 ? 1 : 0;
    const width = Math.max(0, Math.min(total > 0 ? frame.value / total : 0, free));
    const left = above ? above.left + used : 0;
    boxes.push({
      frame,
      index,
      depth,
      left,
      width,
      parent: above ? frame.parent : -1,
      children: [],
    });
    filled.push(0);
    if (above) {
      filled[frame.parent] = used + width;
      above.children.push(index);
    }
    deepest = Math.max(deepest, depth);
  });
  return { boxes, depth: boxes.length > 0 ? deepest + 1 : 0, total };
}

/** The part of the tree that fills the width: the chosen frame's. Its ancestors fill it, too. */
export interface Zoom {
  readonly left: number;
  readonly width: number;
}

export function zoomTo(tree: Tree, root: number): Zoom {
  const box = tree.boxes[root];
  return box && box.width > 0 ? { left: box.left, width: box.width } : { left: 0, width: 1 };
}

/** Left edge and width in pixels, clipped to the screen. */
export function onScreen(box: Box, zoom: Zoom, screen: number): { x: number; width: number } {
  const x = Math.max(0, ((box.left - zoom.left) / zoom.width) * screen);
  const right = Math.min(screen, ((box.left + box.width - zoom.left) / zoom.width) * screen);
  return { x, width: right - x };
}

/** Top of a depth's row: flame graphs grow upwards, icicles downwards. */
export const rowTop = (depth: number, tree: Tree, rowHeight: number, up: boolean): number =>
  (up ? tree.depth - 1 - depth : depth) * rowHeight;

/** The box under a point, or -1. */
export function boxAt(
  tree: Tree,
  zoom: Zoom,
  screen: number,
  rowHeight: number,
  up: boolean,
  x: number,
  y: number,
): number {
  const row = Math.floor(y / rowHeight);
  const depth = up ? tree.depth - 1 - row : row;
  const at = zoom.left + (x / screen) * zoom.width;
  return tree.boxes.findIndex((b) => b.depth === depth && at >= b.left && at < b.left + b.width);
}

/** The boxes from the root to this one. */
export function path(tree: Tree, index: number): Box[] {
  const out: Box[] = [];
  for (let box = tree.boxes[index]; box; box = tree.boxes[box.parent]) out.push(box);
  return out.reverse();
}

/** The box that a key moves to. Whether up means caller or callee is up to the caller. */
export function step(tree: Tree, from: number, to: "caller" | "callee" | "left" | "right"): number {
  const box = tree.boxes[from];
  if (!box) return tree.boxes.length > 0 ? 0 : -1;
  switch (to) {
    case "caller":
      return box.parent >= 0 ? box.parent : from;
    case "callee":
      return widest(tree, box.children) ?? from;
    default: {
      // Along the row, across parents: the eye sees a row, not siblings.
      const row = tree.boxes.filter((b) => b.depth === box.depth).sort((a, b) => a.left - b.left);
      const place = row.findIndex((b) => b.index === from) + (to === "left" ? -1 : 1);
      return row[place]?.index ?? from;
    }
  }
}

function widest(tree: Tree, children: readonly number[]): number | null {
  let best: number | null = null;
  for (const child of children) {
    const width = tree.boxes[child]?.width ?? 0;
    if (best === null || width > (tree.boxes[best]?.width ?? 0)) best = child;
  }
  return best;
}

/** Follows a path of names from the root: the box reached, and how many names were found. */
export function findPath(tree: Tree, names: readonly string[]): { index: number; found: number } {
  let index = 0;
  let found = 0;
  for (const name of names) {
    const next = tree.boxes[index]?.children.find(
      (child) => tree.boxes[child]?.frame.name === name && !tree.boxes[child].frame.others,
    );
    if (next === undefined) break;
    index = next;
    found++;
  }
  return { index, found };
}

/** The names from below the root to a box, as in the store. */
export const namesTo = (tree: Tree, index: number): string[] =>
  path(tree, index)
    .slice(1)
    .map((box) => box.frame.name);

/** The keys from below the root to a box, as sent to the server. */
export const keysTo = (tree: Tree, index: number): string =>
  path(tree, index)
    .slice(1)
    .map((box) => box.frame.key)
    .join(".");
