import { describe, expect, test } from "vitest";
import { ns, px, range } from "../../units";
import { MIN_WINDOW_NS, pan, reveal, Scale, within, zoom } from "./scale";

const whole = range(0, 1_000_000);

describe("the time window", () => {
  test("zooming keeps the time at the pointer in place", () => {
    const before = range(200_000, 600_000);
    const after = zoom(before, 0.5, 300_000, whole);
    expect(after.to - after.from).toBeCloseTo(200_000);
    const share = (r: { from: number; to: number }) => (300_000 - r.from) / (r.to - r.from);
    expect(share(after)).toBeCloseTo(share(before));
  });

  test("zooming out ends at the whole trace, zooming in at the minimum", () => {
    expect(zoom(range(400_000, 500_000), 1000, 450_000, whole)).toEqual(whole);
    const closest = zoom(range(400_000, 500_000), 1e-9, 450_000, whole);
    expect(closest.to - closest.from).toBeCloseTo(MIN_WINDOW_NS);
  });

  test("panning keeps the length and stops at the edges", () => {
    expect(pan(range(100_000, 300_000), 0.5, whole)).toEqual(range(200_000, 400_000));
    expect(pan(range(100_000, 300_000), -3, whole)).toEqual(range(0, 200_000));
    expect(pan(range(700_000, 900_000), 3, whole)).toEqual(range(800_000, 1_000_000));
  });

  test("a trace shorter than the minimum is shown whole", () => {
    expect(within(range(0, 10), range(0, 50))).toEqual(range(0, 50));
  });

  test("revealing moves only if it must, and widens for a longer range", () => {
    const window = range(100_000, 200_000);
    expect(reveal(window, range(150_000, 160_000), whole)).toBe(window);
    expect(reveal(window, range(500_000, 500_000), whole)).toEqual(range(450_000, 550_000));
    const wide = reveal(window, range(300_000, 600_000), whole);
    expect(wide.from).toBeLessThanOrEqual(300_000);
    expect(wide.to).toBeGreaterThanOrEqual(600_000);
  });

  test("pixels and times map both ways", () => {
    const scale = new Scale(range(1000, 3000), px(500));
    expect(scale.x(1000)).toBe(0);
    expect(scale.x(3000)).toBe(500);
    expect(scale.at(250)).toBe(2000);
    expect(scale.x(ns(scale.at(123)))).toBeCloseTo(123);
  });
});
