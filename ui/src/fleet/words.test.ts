import { expect, test } from "vitest";
import { curve } from "./curve";
import { causeName, chanceText, shortBuild, summaryText } from "./words";

test("a cause is named by pattern, function and culprit", () => {
  const cause = { pattern: "long_hold", function: "Index::rebuild", culprit: "editor/helper" };
  expect(causeName(cause)).toBe("long hold in Index::rebuild, by editor/helper");
  expect(causeName({ pattern: "io_wait", function: "" })).toBe("io wait in an unknown function");
});

test("chances and builds are short", () => {
  expect([1e-63, 0.00072, 0.012345, 0, 1].map(chanceText)).toEqual([
    "1.0e-63",
    "7.2e-4",
    "0.012",
    "0",
    "1",
  ]);
  expect(shortBuild("e0".repeat(20))).toBe("e0e0e0e0e0e0");
  expect(shortBuild(null)).toBe("?");
});

test("the summary counts recordings, machines, stalls and losses", () => {
  const fleet = {
    traces: 2000,
    hosts: 40,
    first_day: "2026-09-01",
    last_day: "2026-09-30",
    stalls: 1610,
    with_stalls: 1610,
    with_losses: 0,
    total_ns: 2e9,
  };
  expect(summaryText(fleet)).toBe(
    "2,000 recordings of 40 machines, 2026-09-01 to 2026-09-30: 1,610 stalls in 1,610 of them, " +
      "2.000 s in all.",
  );
  const one = { ...fleet, traces: 1, hosts: 1, last_day: "2026-09-01", stalls: null };
  expect(summaryText({ ...one, with_stalls: 0, with_losses: 1 })).toBe(
    "1 recording of 1 machine, 2026-09-01: 0 stalls in 0 of them, 2.000 s in all. 1 lost events.",
  );
});

test("the coverage curve begins at nothing and ends at everything", () => {
  const points = [
    { causes: 1, share: 0.5 },
    { causes: 2, share: 1 },
  ];
  expect(curve(points, 100, 40)).toBe("0,40 50,20 100,0");
  expect(curve([], 100, 40)).toBe("");
});
