import { describe, expect, test } from "vitest";
import { px, range } from "../../units";
import { Scale } from "../data/scale";
import { route, type Wake } from "./arrows";

const scale = new Scale(range(0, 1000), px(1000));
const measure = (text: string) => text.length * 6;
const wake = (at: number, more: Partial<Wake> = {}): Wake => ({
  at,
  fromY: 100,
  toY: 50,
  label: "task · direct",
  evidence: "direct",
  strong: true,
  ...more,
});

describe("arrows of the chain", () => {
  test("run from the waker to the woken at the moment of the wake-up", () => {
    expect(route([wake(400)], scale, measure)).toMatchObject([
      { x: 400, fromY: 100, toY: 50, count: 1, first: 0 },
    ]);
  });

  test("those outside of the window are not drawn", () => {
    expect(route([wake(-1), wake(1001)], scale, measure)).toEqual([]);
  });

  test("those in the same pixels are one, counted, as doubtful as the worst of them", () => {
    const arrows = route(
      [wake(400), wake(402, { evidence: "inferred" }), wake(403), wake(600)],
      scale,
      measure,
    );
    expect(arrows.map((a) => [a.x, a.count, a.evidence])).toEqual([
      [403, 3, "inferred"],
      [600, 1, "direct"],
    ]);
    expect(arrows[0]?.fromX).toBe(400);
    expect(arrows[0]?.label?.text).toBe("task · direct × 3");
  });

  test("between other lanes they stay apart", () => {
    expect(route([wake(400), wake(401, { fromY: 150, toY: 100 })], scale, measure).length).toBe(2);
  });

  test("a fence of arrows becomes a band; a gap in it is seen", () => {
    const fence = Array.from({ length: 100 }, (_, n) => wake(100 + n * 4 + (n >= 50 ? 200 : 0)));
    const arrows = route(fence, scale, measure);
    expect(arrows.map((a) => [a.fromX, a.x, a.count])).toEqual([
      [100, 296, 50],
      [500, 696, 50],
    ]);
  });

  test("labels never lie on each other nor outside", () => {
    const wakes = Array.from({ length: 60 }, (_, n) =>
      wake(n * 30, n % 2 ? { fromY: 150, toY: 100 } : {}),
    );
    const boxes = route(wakes, scale, measure).flatMap((a) => (a.label ? [a.label] : []));
    expect(boxes.length).toBeGreaterThan(5);
    for (const [i, a] of boxes.entries()) {
      expect(a.x).toBeGreaterThanOrEqual(0);
      expect(a.x + a.width).toBeLessThanOrEqual(1000);
      for (const b of boxes.slice(i + 1)) {
        expect(a.x + a.width <= b.x || b.x + b.width <= a.x || Math.abs(a.y - b.y) >= 14).toBe(
          true,
        );
      }
    }
  });

  test("the last one, which ends the stall, gets its label before all others", () => {
    const arrows = route(
      [wake(990), wake(985), wake(995)],
      new Scale(range(900, 1000), px(1000)),
      measure,
    );
    expect(arrows.at(-1)?.label).not.toBeNull();
  });

  test("only strong ones are labelled, and are not merged with faint ones", () => {
    const arrows = route([wake(400, { strong: false }), wake(402)], scale, measure);
    expect(arrows.map((a) => [a.strong, a.label !== null])).toEqual([
      [false, false],
      [true, true],
    ]);
  });

  test("a waker without a lane still gives an arrow", () => {
    const [arrow] = route([wake(10, { fromY: null })], scale, measure);
    expect(arrow?.fromY).not.toBe(arrow?.toY);
  });
});
