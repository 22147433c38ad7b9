import { expect, test } from "vitest";
import {
  apportion,
  bytesText,
  confine,
  count,
  durationText,
  ns,
  percent,
  plural,
  range,
  signed,
  tenthsText,
  timeText,
} from "./units";

test("durations are formatted as on the command line", () => {
  const cases: [number, string][] = [
    [0, "0 ns"],
    [12, "12 ns"],
    [7_600, "7.6 µs"],
    [999_949, "999.9 µs"],
    [999_950, "1.0 ms"],
    [22_000_000, "22.0 ms"],
    [999_949_999, "999.9 ms"],
    [999_950_000, "1.000 s"],
    [2_810_000_000, "2.810 s"],
    [5_768_000_000_000, "5,768.000 s"],
    [-5, "−5 ns"],
  ];
  for (const [value, text] of cases) expect(durationText(value)).toBe(text);
});

test("a point in time has the digits that the resolution resolves", () => {
  expect(timeText(ns(563_000_000), 1e6)).toBe("0.563 s");
  expect(timeText(ns(1_103_204_000), 1000)).toBe("1.103 204 s");
  expect(timeText(ns(1), 1)).toBe("0.000 000 001 s");
});

test("a share is truncated: only the whole reads as 100 %", () => {
  expect(percent(9_999, 10_000)).toBe("99.9 %");
  expect(percent(10_000, 10_000)).toBe("100.0 %");
  expect(percent(1, 0)).toBe("–");
});

test("the shares of a whole add up to it, and are those of the program's text", () => {
  // A stall of 1.481 s, of which it says 96.0, 2.8, 0.8, and five times 0.1.
  const parts = [1_421_130_000, 40_900_000, 11_500_000, 2_300_000, 1_900_000, 910_100, 2_000_000];
  const told = (of: readonly number[]) => apportion(of).map(tenthsText);
  expect(told(parts)).toEqual(["96.0 %", "2.8 %", "0.8 %", "0.1 %", "0.1 %", "0.1 %", "0.1 %"]);
  expect(told([9_999, 1])).toEqual(["99.9 %", "0.1 %"]);
  expect(told([1, 1, 1])).toEqual(["33.4 %", "33.3 %", "33.3 %"]);
  expect(told([7])).toEqual(["100.0 %"]);
  expect(told([0, 0])).toEqual(["0.0 %", "0.0 %"]);
  expect(apportion([1, 1, 1], 100)).toEqual([34, 33, 33]);
});

test("a range is moved into the trace, and clipped only if it is longer", () => {
  const whole = range(0, 1000);
  expect(confine(range(-50, 50), whole)).toEqual(range(0, 100));
  expect(confine(range(950, 1050), whole)).toEqual(range(900, 1000));
  expect(confine(range(-500, 5000), whole)).toEqual(whole);
  expect(confine(range(10, 10), whole)).toEqual(range(10, 11));
});

test("counts and sizes", () => {
  expect(count(5768)).toBe("5,768");
  expect(plural(1, "stall")).toBe("1 stall");
  expect(plural(0, "switch", "switches")).toBe("0 switches");
  expect(bytesText(1023)).toBe("1023 B");
  expect(bytesText(14_890_000)).toBe("14.2 MiB");
});

test("a difference has a sign", () => {
  expect(signed(5e6)).toBe("+5.0 ms");
  expect(signed(-5e6)).toBe("−5.0 ms");
  expect(signed(0)).toBe("±0");
});
