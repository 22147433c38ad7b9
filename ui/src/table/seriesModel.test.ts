import { expect, test } from "vitest";
import { areas, layersOf, topOf } from "./seriesModel";

const group = (values: number[]) => ({ key: "", cell: "", total: 0, values });

test("groups are stacked, the rest on top, and the top is that of all", () => {
  const layers = layersOf({
    groups: [group([1, 2]), group([3, 0])],
    others: [0, 4],
    other_groups: 9,
  });
  expect(layers.map((layer) => [layer.low, layer.high])).toEqual([
    [
      [0, 0],
      [1, 2],
    ],
    [
      [1, 2],
      [4, 2],
    ],
    [
      [4, 2],
      [4, 6],
    ],
  ]);
  expect(topOf(layers)).toBe(6);
  expect(topOf([])).toBe(1);
});

test("a layer is a closed area in steps", () => {
  const [area] = areas(layersOf({ groups: [group([1, 2])], others: [], other_groups: 0 }), 2, 10);
  expect(area).toBe("M0 5.0L1 5.0L1 0.0L2 0.0L2 10.0L1 10.0L1 10.0L0 10.0Z");
});
