/** Describes a frame for the tooltip, the text tree and the titles in the SVG. */
import { count, durationText, percent, plural } from "../units";
import { path, type Tree } from "./tree";

const NOUNS: { readonly [of: string]: readonly [one: string, many: string] } = {
  wait: ["wait", "waits"],
  wake: ["wake-up", "wake-ups"],
  sample: ["sample", "samples"],
};

/** `unit` is the server's: `ns`, or a count. */
export const valueText = (value: number, unit: string): string =>
  unit === "ns" ? durationText(value) : count(value);

export function frameLines(tree: Tree, index: number, of: string, unit: string): string[] {
  const box = tree.boxes[index];
  if (!box) return [];
  const { name, module, value, self, count: stacks, others } = box.frame;
  const [one, many] = NOUNS[of] ?? ["stack", "stacks"];
  if (others)
    return [
      "frames too narrow to draw",
      `${valueText(value, unit)}, ${percent(value, tree.total)} of the total`,
      "click their caller to see them",
    ];
  const lines = [
    name,
    `${valueText(value, unit)}, ${percent(value, tree.total)} of the total, ` +
      plural(stacks, one, many),
  ];
  if (box.parent < 0) {
    return lines;
  }
  const above = tree.boxes[box.parent];
  if (above && above.parent >= 0)
    lines.push(`${percent(value, above.frame.value)} of ${above.frame.name}`);
  if (self > 0 && self < value) lines.push(`${valueText(self, unit)} in the function itself`);
  if (module !== "") lines.push(module);
  return lines;
}

/** The stack from the root to a frame, one function per line, for copying. */
export const stackText = (tree: Tree, index: number): string =>
  path(tree, index)
    .slice(1)
    .map((box) => box.frame.name)
    .join("\n");
