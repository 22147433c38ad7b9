import { expect, test } from "vitest";
import type { LaneView } from "../data/decode";
import { boundaries } from "./edges";

test("times snap to the starts and ends of slices next to them", () => {
  const view = {
    start: Float64Array.of(1100, 1300, 1500),
    end: Float64Array.of(1200, 1400, 1600),
  } as unknown as LaneView;
  expect(boundaries(view, 1303)).toEqual([1300, 1500, 1200, 1400]);
  expect(boundaries(view, 1000)).toEqual([1100, 1200]);
  expect(boundaries(undefined, 1000)).toEqual([]);
});
