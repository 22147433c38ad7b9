import { describe, expect, test } from "vitest";
import { range } from "../../units";
import { fingers, moved, nextFit, pinched, STILL, stepped, wheelZoom } from "./motion";

describe("motion", () => {
  const whole = range(0, 1_000_000);
  const window = range(400_000, 500_000);

  test("held keys move the window over time, never far in one frame", () => {
    expect(moved(window, { zoom: 0, pan: 1 }, 16, 0, whole).from).toBeGreaterThan(window.from);
    expect(moved(window, { zoom: -1, pan: 0 }, 16, 450_000, whole).from).toBeGreaterThan(
      window.from,
    );
    expect(moved(window, { zoom: 0, pan: 1 }, 10_000, 0, whole).from - window.from).toBeLessThan(
      10_000,
    );
    expect(moved(window, STILL, 16, 0, whole)).toBe(window);
  });

  test("a step in and a step out return to the same window", () => {
    const there = stepped(window, { zoom: -1, pan: 0 }, 420_000, whole);
    const back = stepped(there, { zoom: 1, pan: 0 }, 420_000, whole);
    expect(back.from).toBeCloseTo(window.from);
    expect(back.to).toBeCloseTo(window.to);
  });

  test("opposite wheel steps cancel out, and none is a leap", () => {
    expect(wheelZoom(100, false) * wheelZoom(-100, false)).toBeCloseTo(1);
    expect(wheelZoom(100_000, true)).toBeLessThan(3);
  });

  test("what is between two fingers follows them", () => {
    const pxPerNs = 1000 / (window.to - window.from);
    const before = fingers([
      { x: 300, y: 40 },
      { x: 500, y: 40 },
    ]);
    const at = window.from + 400 / pxPerNs;
    const after = fingers([
      { x: 250, y: 100 },
      { x: 250, y: 500 },
    ]);
    const there = pinched(window, [before, after], at, pxPerNs, whole);
    expect(there.to - there.from).toBeCloseTo(50_000);
    expect((at - there.from) / (there.to - there.from)).toBeCloseTo(0.25);
    // Fingers on one point are no reason for a leap.
    const [near, nearer] = [2, 0].map((x) =>
      fingers([
        { x: 0, y: 0 },
        { x, y: 0 },
      ]),
    );
    if (!near || !nearer) throw new Error("no fingers");
    const same = pinched(window, [near, nearer], at, pxPerNs, whole);
    expect(same.to - same.from).toBeCloseTo(100_000);
  });

  test("F goes through the candidates, at last to the whole", () => {
    const first = nextFit(window, [range(100, 200), range(5000, 9000)], whole);
    expect(first.from).toBeLessThanOrEqual(100);
    const second = nextFit(first, [range(100, 200), range(5000, 9000)], whole);
    expect(second.from).toBeGreaterThan(4000);
    expect(nextFit(second, [range(100, 200), range(5000, 9000)], whole)).toEqual(whole);
    expect(nextFit(window, [], whole)).toEqual(whole);
  });
});
