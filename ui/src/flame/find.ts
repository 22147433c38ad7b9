/** Searches the frames, and adds up their share without counting a stack twice. */
import { matcher } from "../search";
import type { Tree } from "./tree";

export interface FoundFrames {
  readonly boxes: ReadonlySet<number>;
  /** Share of the root's value in the frames found; nested hits count once. */
  readonly share: number;
  /** What is wrong with the search text; null if it is valid. */
  readonly error: string | null;
}

const NOTHING: FoundFrames = { boxes: new Set(), share: 0, error: null };

export function find(tree: Tree, text: string): FoundFrames {
  const match = matcher(text);
  if (match === null) return NOTHING;
  if (typeof match !== "function") return { ...NOTHING, error: match.error };
  const boxes = new Set<number>();
  const inside: boolean[] = [];
  let share = 0;
  for (const box of tree.boxes) {
    const above = box.parent >= 0 && inside[box.parent] === true;
    const hit = !box.frame.others && (match(box.frame.name) || match(box.frame.module));
    if (hit) boxes.add(box.index);
    if (hit && !above) share += box.width;
    inside.push(hit || above);
  }
  return { boxes, share, error: null };
}
