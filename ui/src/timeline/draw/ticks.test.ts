import { describe, expect, test } from "vitest";
import { px, range } from "../../units";
import { roundStep, tickLabel, ticks } from "./ticks";

describe("the time axis", () => {
  test("steps are 1, 2 or 5 times a power of ten", () => {
    expect([1, 3, 40, 51, 700].map((n) => roundStep(n).step)).toEqual([1, 5, 50, 100, 1000]);
    expect(roundStep(2e6).step).toBe(2e6);
  });

  test("labels have just enough digits to differ, and a unit", () => {
    expect(tickLabel(1.5e9, 5e8)).toBe("1.5 s");
    expect(tickLabel(1.25e9, 1e7)).toBe("1.25 s");
    expect(tickLabel(20e6, 1e7)).toBe("20 ms");
    expect(tickLabel(2500, 100)).toBe("2.5 µs");
  });

  test("labels of an axis differ and are not crowded", () => {
    for (const [from, to] of [
      [0, 2e9],
      [0.3e9, 0.31e9],
      [1_103_204_000, 1_103_209_000],
      [5_000_000_000_000, 5_000_000_000_900],
    ] as const) {
      const { labelled, small, step, base } = ticks(range(from, to), px(1200));
      const labels = labelled.map((t) => t.label);
      expect(new Set(labels).size).toBe(labels.length);
      expect(labels.length).toBeGreaterThan(1);
      expect((step / (to - from)) * 1200).toBeGreaterThanOrEqual(109);
      expect(labelled.every((t) => t.at >= from && t.at <= to)).toBe(true);
      expect(small.every((at) => at >= from && at <= to)).toBe(true);
      if (base) expect(base.at).toBeLessThanOrEqual(from);
    }
  });

  test("deep in a long trace, labels are offsets from a round time", () => {
    const { base, labelled } = ticks(range(5_000_000_000_000, 5_000_000_000_900), px(1200));
    expect(base).not.toBeNull();
    expect(labelled[0]?.label.startsWith("+")).toBe(true);
  });
});
