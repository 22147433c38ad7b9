import { expect, test } from "vitest";
import type { FlameDiffAnswer } from "../api/diff";
import { layDiff, scales, strength } from "./diffModel";

const answer: FlameDiffAnswer = {
  before_window_ns: 2e9,
  after_window_ns: 1e9,
  nodes: {
    parent: [-1, 0, 1, 1],
    name: ["", "main", "gone", "new"],
    others: [0, 0, 0, 0],
    kernel: [0, 0, 0, 0],
    before: [100, 100, 60, 0],
    after: [80, 80, 0, 50],
  },
};
const ONE = { before: 1, after: 1 };

test("each direction has the frames and the widths of its side", () => {
  const names = (side: "before" | "after") =>
    layDiff(answer, side, ONE).tree.boxes.map((box) => [box.frame.name, box.width]);
  expect(names("before")).toEqual([
    ["(all)", 1],
    ["main", 1],
    ["gone", 0.6],
  ]);
  expect(names("after")).toEqual([
    ["(all)", 1],
    ["main", 1],
    ["new", 0.625],
  ]);
});

test("recordings of different length are compared per second", () => {
  const { values } = layDiff(answer, "after", scales(answer, true));
  expect(values[0]).toEqual({ before: 50, after: 80 });
  expect(scales(answer, false)).toEqual(ONE);
});

test("the colour is the share of the difference", () => {
  expect(strength({ before: 0, after: 5 })).toBe(1);
  expect(strength({ before: 5, after: 0 })).toBe(-1);
  expect(strength({ before: 4, after: 3 })).toBe(-0.25);
  expect(strength({ before: 0, after: 0 })).toBe(0);
});
