/** The server's answer to `flame` as frames (docs/page-protocol.md); what does not add up is left out rather than drawn wrong. */
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

/** The key of the frame that stands for all that were too narrow to send. */
export const OTHERS = -1;

export function frames(answer: FlameAnswer): Frame[] {
  const { nodes, strings } = answer;
  return nodes.parent.map((parent, index) => ({
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
}
