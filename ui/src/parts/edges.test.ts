import { expect, test } from "vitest";
import { range } from "../units";
import { edgeAt, snapped } from "./edges";

const xOf = (at: number) => at - 1000;

test("an edge is grasped near it, the nearer one of two", () => {
  const selected = range(1100, 1106);
  expect(edgeAt(selected, xOf, 98)).toBe("from");
  expect(edgeAt(selected, xOf, 104)).toBe("to");
  expect(edgeAt(selected, xOf, 50)).toBeNull();
  expect(edgeAt(null, xOf, 100)).toBeNull();
});

test("a time snaps to the nearest of others, if one is near", () => {
  expect(snapped(1197, [1200, 1192], 1)).toBe(1200);
  expect(snapped(1197, [1200], 4)).toBe(1197);
  expect(snapped(1250, [], 1)).toBe(1250);
});
