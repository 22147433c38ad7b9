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
  label: "by task",
  evidence: "direct",
  strong: true,
  ...more,
});

describe("arrows of the chain", () => {
  test("go from the waker to the woken thread at the time of the wake-up", () => {
    expect(route([wake(400)], scale, measure)).toMatchObject([
      { x: 400, fromY: 100, toY: 50, count: 1, first: 0 },
    ]);
  });

  test("are not drawn outside the window", () => {
    expect(route([wake(-1), wake(1001)], scale, measure)).toEqual([]);
  });

  test("in the same pixels are merged, counted, and have the weakest evidence", () => {
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
    expect(arrows[0]?.label?.text).toBe("woken 3 times by task");
  });

  test("between different lanes are not merged", () => {
    expect(route([wake(400), wake(401, { fromY: 150, toY: 100 })], scale, measure).length).toBe(2);
  });

  test("become a band if dense, and a gap stays visible", () => {
    const fence = Array.from({ length: 100 }, (_, n) => wake(100 + n * 4 + (n >= 50 ? 200 : 0)));
    const arrows = route(fence, scale, measure);
    expect(arrows.map((a) => [a.fromX, a.x, a.count])).toEqual([
      [100, 296, 50],
      [500, 696, 50],
    ]);
  });

  test("have labels that do not overlap and stay within the plot", () => {
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

  test("have the label of the last one, which ends the stall, before all others", () => {
    const arrows = route(
      [wake(990), wake(985), wake(995)],
      new Scale(range(900, 1000), px(1000)),
      measure,
    );
    expect(arrows.at(-1)?.label).not.toBeNull();
  });

  test("have labels only if strong, and are not merged with faint ones", () => {
    const arrows = route([wake(400, { strong: false }), wake(402)], scale, measure);
    expect(arrows.map((a) => [a.strong, a.label !== null])).toEqual([
      [false, false],
      [true, true],
    ]);
  });

  test("are drawn even if the waker has no lane", () => {
    const [arrow] = route([wake(10, { fromY: null })], scale, measure);
    expect(arrow?.fromY).not.toBe(arrow?.toY);
  });
});
