/**
 * Decodes the server's `flame` answer (docs/page-protocol.md). A frame whose parent is not before
 * it becomes an orphan, which gets no width, rather than being drawn in the wrong place.
 */
import type { Frame } from "./tree";

export interface FlameAnswer {
  of: string;
  unit: string;
  total: number;
  count: number;
  root: number[];
  root_value: number;
  strings: string[];
  nodes: {
    parent: number[];
    name: number[];
    module: number[];
    key: number[];
    value: number[];
    self: number[];
    count: number[];
    kernel: number[];
  };
  others: number;
  cut_px: number;
}

/** Key of the frame that stands for all frames too narrow to send. */
export const OTHERS = -1;

/** Key of the box that this page adds for time without a stack. */
export const NO_STACK = -2;

export function frames(answer: FlameAnswer): Frame[] {
  const { nodes, strings } = answer;
  const list = nodes.parent.map((parent, index) => ({
    parent: parent < index ? parent : -1,
    name: strings[nodes.name[index] ?? -1] ?? "?",
    module: strings[nodes.module[index] ?? -1] ?? "",
    value: nodes.value[index] ?? 0,
    self: nodes.self[index] ?? 0,
    count: nodes.count[index] ?? 0,
    key: nodes.key[index] ?? OTHERS,
    others: nodes.key[index] === OTHERS,
    kernel: nodes.kernel[index] === 1,
  }));
  const root = list[0];
  // Below a zoomed frame, the rest of the root is not sent, and says nothing about stacks.
  if (!root || answer.root.length > 0 || root.self <= 0) return list;
  const below = list.reduce((sum, frame) => sum + (frame.parent === 0 ? frame.count : 0), 0);
  return [
    ...list,
    {
      parent: 0,
      name: "(no stack was recorded)",
      module: "",
      value: root.self,
      self: root.self,
      count: Math.max(0, root.count - below),
      key: NO_STACK,
      others: false,
      kernel: false,
    },
  ];
}
