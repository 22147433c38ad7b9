import { expect, test } from "vitest";
import { lanesOf } from "../../../tests/fixtures/views";
import { keepOrder } from "./order";

test("lanes stay where they are, and new ones come last", () => {
  const old = lanesOf(1, [
    [1, 3],
    [2, 2],
  ]);
  const [first, second] = old.processes;
  if (!first || !second) throw new Error("two processes");
  const next = {
    ...old,
    processes: [
      { ...second, process: 9 as typeof second.process },
      second,
      { ...first, threads: [...first.threads].reverse(), relevance: 1_000_000 },
    ],
  };
  const kept = keepOrder(old, next);
  expect(kept.processes.map((p) => p.process)).toEqual([1, 2, 9]);
  expect(kept.processes[0]?.threads.map((t) => t.lane)).toEqual(first.threads.map((t) => t.lane));
  // The data is the new one.
  expect(kept.processes[0]?.relevance).toBe(1_000_000);
});
