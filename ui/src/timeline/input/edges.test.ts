import { expect, test } from "vitest";
import { px, range } from "../../units";
import type { LaneView } from "../data/decode";
import { Scale } from "../data/scale";
import { edgeAt, snapped } from "./edges";

/** 1 ns per pixel. */
const scale = new Scale(range(1000, 2000), px(1000));
const view = {
  start: Float64Array.of(1100, 1300),
  end: Float64Array.of(1200, 1400),
} as unknown as LaneView;

test("an edge is grasped near it, the nearer one of two", () => {
  const selected = range(1100, 1106);
  expect(edgeAt(selected, scale, 98)).toBe("from");
  expect(edgeAt(selected, scale, 104)).toBe("to");
  expect(edgeAt(selected, scale, 50)).toBeNull();
  expect(edgeAt(null, scale, 100)).toBeNull();
});

test("a time snaps to the nearest event of the lane, or to another time", () => {
  expect(snapped(1197, view, [], scale)).toBe(1200);
  expect(snapped(1303, view, [], scale)).toBe(1300);
  expect(snapped(1250, view, [], scale)).toBe(1250);
  expect(snapped(1250, view, [1252], scale)).toBe(1252);
  expect(snapped(1000, view, [], scale)).toBe(1000);
  expect(snapped(1250, undefined, [], scale)).toBe(1250);
});
