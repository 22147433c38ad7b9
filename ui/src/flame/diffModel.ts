/** The differential flame graph: widths of one side, colours of the difference. */
import type { FlameDiffAnswer } from "../api/diff";
import { type Frame, lay, type Tree } from "./tree";

/** The side whose times are the widths. */
export type Side = "before" | "after";

export interface Difference {
  readonly before: number;
  readonly after: number;
}

export interface DiffTree {
  readonly tree: Tree;
  /** Per frame of the tree. */
  readonly values: readonly Difference[];
}

/**
 * What is drawn of two recordings of different length: time per second of recording. Times of two
 * stalls are compared as they are.
 */
export function scales(answer: FlameDiffAnswer, perSecond: boolean): Difference {
  const scale = (window: number) => (perSecond ? 1e9 / Math.max(1, window) : 1);
  return { before: scale(answer.before_window_ns), after: scale(answer.after_window_ns) };
}

/** Lays out the tree by the times of one side; what only the other side has is not in it. */
export function layDiff(answer: FlameDiffAnswer, side: Side, scale: Difference): DiffTree {
  const { nodes } = answer;
  const places = new Map<number, number>();
  const frames: Frame[] = [];
  const values: Difference[] = [];
  nodes.parent.forEach((parent, index) => {
    const before = (nodes.before[index] ?? 0) * scale.before;
    const after = (nodes.after[index] ?? 0) * scale.after;
    const value = side === "before" ? before : after;
    const place = places.get(parent);
    if (index > 0 && (value === 0 || place === undefined)) return;
    places.set(index, frames.length);
    values.push({ before, after });
    frames.push({
      parent: place ?? -1,
      name: index === 0 ? "(all)" : nodes.others[index] ? "(others)" : (nodes.name[index] ?? "?"),
      module: "",
      value,
      self: 0,
      count: 0,
      key: index,
      others: nodes.others[index] === 1,
      kernel: nodes.kernel[index] === 1,
    });
  });
  return { tree: lay(frames), values };
}

/**
 * How strongly a frame is coloured, from -1 (all of it is gone) to 1 (all of it is new): the
 * difference as a share of the larger of both.
 */
export function strength({ before, after }: Difference): number {
  const larger = Math.max(before, after);
  return larger > 0 ? (after - before) / larger : 0;
}
