import { expect, test } from "vitest";
import { cellText, filterOf, innermost, jsonTable, markdownTable, tsv } from "./cells";

const stack = { stack: 7, kind: "wait" as const, told: "main → run → lock::acquire" };

test("a filter is made from a value", () => {
  expect(filterOf("thread", "text", "it's", "only")).toBe(`thread = "it's"`);
  expect(filterOf("waited", "duration", 5_000_000, "atLeast")).toBe("waited >= 5000000ns");
  expect(filterOf("tid", "number", 12, "not")).toBe("tid != 12");
  expect(filterOf("thread", "text", "a", "atLeast")).toBeNull();
  expect(filterOf("wait stack", "stack", stack, "not")).toBe("not wait stack ~ 'lock::acquire'");
  expect(filterOf("end", "time", null, "only")).toBeNull();
});

test("the innermost function of a stack is found", () => {
  expect(innermost(stack)).toBe("lock::acquire");
  expect(innermost({ ...stack, told: "(no stack was recorded)" })).toBeNull();
});

test("copies state what they omit, and no value breaks their format", () => {
  const table = {
    titles: ["thread", "sum waited"],
    kinds: ["text", "duration"] as const,
    rows: [
      ["a|b\tc", 22_000_000],
      [stack, null],
    ],
    more: 3,
  };
  expect(tsv(table)).toBe(
    "thread\tsum waited\na|b c\t22.0 ms\nmain → run → lock::acquire\t\n… and 3 more rows\n",
  );
  expect(markdownTable(table)).toContain("| a\\|b\tc | 22.0 ms |");
  expect(markdownTable(table)).toContain("|---|---:|");
  expect(JSON.parse(jsonTable(table))).toEqual({
    rows: [
      { thread: "a|b\tc", "sum waited": 22_000_000 },
      { thread: stack.told, "sum waited": null },
    ],
    more: 3,
  });
  expect(cellText(1_500_000_000, "time")).toBe("1.500 000 s");
});
