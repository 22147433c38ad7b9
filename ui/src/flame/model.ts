/** The flame graph's state: the server's answer as a tree; the hovered and the focused frame. */
import { computed, signal } from "@preact/signals";
import { getJson, tracePath } from "../api/client";
import { status } from "../api/data";
import { liveQuery } from "../api/query";
import { stacksQuery } from "../api/stacks";
import * as store from "../state/store";
import { find } from "./find";
import { type FlameAnswer, frames, NO_STACK } from "./frames";
import { findPath, keysTo, lay, namesTo, type Tree, zoomTo } from "./tree";

export const size = signal({ width: 0, height: 0 });
export const scroll = signal(0);
export const hovered = signal(-1);
export const focus = signal(-1);

/**
 * The keys of the frame that fills the width, for the server. A name too deep for the first answer
 * is found step by step.
 */
const rootKeys = signal("");

/** Widths are requested in steps, so that resizing does not send a request per pixel. */
const px = computed(() => Math.ceil(Math.max(size.value.width, 1) / 200) * 200);

const shape = computed(() =>
  store.view.value === "stacks" &&
  (store.stacks.value.form === "flame" || store.stacks.value.form === "icicle")
    ? store.stacks.value.of
    : null,
);

export const query = liveQuery<FlameAnswer>(() => {
  const trace = store.trace.value;
  const of = shape.value;
  if (
    trace === null ||
    of === null ||
    size.value.width === 0 ||
    !(status.value.data?.ready.tables ?? false)
  )
    return null;
  const params = {
    of,
    px: px.value,
    root: rootKeys.value,
    ...stacksQuery(of),
  };
  return {
    key: JSON.stringify([trace, params]),
    subject: `${trace} ${of}`,
    fetch: (signal) => getJson<FlameAnswer>(tracePath(trace, "flame"), params, signal),
  };
});

const NO_TREE: Tree = { boxes: [], depth: 0, total: 0 };

export const tree = computed<Tree>(() => {
  const data = query.state.value.data;
  return data ? lay(frames(data)) : NO_TREE;
});

/** The box of the store's root, or its deepest ancestor found. */
export const rootBox = computed(() => {
  const { index, found } = findPath(tree.value, store.stacks.value.root);
  return { index, complete: found === store.stacks.value.root.length };
});

export const zoom = computed(() => zoomTo(tree.value, rootBox.value.index));

export const found = computed(() => find(tree.value, store.search.value));

/** Makes a frame fill the width; the root (0) shows everything. */
export function makeRoot(index: number): void {
  const box = tree.peek().boxes[index];
  if (!box || box.frame.others || box.frame.key === NO_STACK) return;
  store.stacks.value = { ...store.stacks.peek(), root: namesTo(tree.peek(), index) };
}

/** Updates the requested keys from the store's names; call in an effect. */
export function syncRoot(): void {
  const wanted = store.stacks.value.root;
  const { index, complete } = rootBox.value;
  if (wanted.length === 0) {
    rootKeys.value = "";
    return;
  }
  if (query.state.value.loading || query.state.value.data === null) return;
  const keys = keysTo(tree.peek(), index);
  // Each found prefix brings its children in the next answer, until all names are found. If a name
  // no longer exists, the search ends there.
  if (complete || keys.length > rootKeys.peek().length) rootKeys.value = keys;
}

/** Whether a frame is a function: neither everything, nor the rest, nor what has no stack. */
export function isFunction(index: number): boolean {
  const box = tree.peek().boxes[index];
  return !!box && box.parent >= 0 && !box.frame.others && box.frame.key !== NO_STACK;
}

/** Opens the butterfly of a frame's function. */
export function butterfly(index: number): void {
  const box = tree.peek().boxes[index];
  if (!box || !isFunction(index)) return;
  store.stacks.value = { ...store.stacks.peek(), form: "butterfly", function: box.frame.name };
}
