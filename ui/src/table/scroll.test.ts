import { expect, test } from "vitest";
import { contentHeight, offsetOf, scale, toShow, visible } from "./scroll";

test("a short table scrolls pixel by pixel", () => {
  const s = { rows: 1000, rowHeight: 20, viewHeight: 400 };
  expect(scale(s)).toBe(1);
  expect(visible(s, 0, 0)).toEqual({ first: 0, last: 20, top: 0 });
  expect(visible(s, 130, 0)).toEqual({ first: 6, last: 27, top: 120 });
});

test("with ten million rows, both ends can be reached, and rows match the scroll bar", () => {
  const s = { rows: 10_000_000, rowHeight: 24, viewHeight: 480 };
  expect(contentHeight(s)).toBeLessThan(10_000_000);
  const bottom = contentHeight(s) - s.viewHeight;
  expect(offsetOf(s, bottom)).toBeCloseTo(10_000_000 * 24 - 480, 3);
  expect(visible(s, bottom, 0).last).toBe(10_000_000);
  const seen = visible(s, bottom / 2, 0);
  expect(Math.abs(seen.first - 5_000_000)).toBeLessThan(20);
  expect(bottom / 2 - seen.top).toBeLessThan(24);
});

test("a row is scrolled into view with the least movement", () => {
  const s = { rows: 100, rowHeight: 20, viewHeight: 100 };
  expect(toShow(s, 200, 12)).toBe(200);
  expect(toShow(s, 200, 9)).toBe(180);
  expect(toShow(s, 200, 15)).toBe(220);
});
