import { expect, test } from "vitest";
import type { TraceEntry } from "../api/types";
import { sorted, textsOf } from "./Rows";

const entry = (name: string, ns: number | null, host: string | null = null) =>
  ({
    name,
    host,
    notes: "",
    error: null,
    first_answer:
      ns === null
        ? null
        : { text: `${name} hung`, severity: 1, duration_ns: ns, pattern: "long_hold" },
  }) as unknown as TraceEntry;

test("rows are sorted by any column, and those without a value come last", () => {
  const list = [entry("a", 5), entry("b", null), entry("c", 9)];
  const names = (down: boolean) => sorted(list, { key: "verdict", down }).map((e) => e.name);
  expect(names(true)).toEqual(["c", "a", "b"]);
  expect(names(false)).toEqual(["a", "c", "b"]);
});

test("the filter looks at names, hosts, answers and causes", () => {
  expect(textsOf(entry("a", 5, "Build-1"))).toBe("a build-1 a hung long hold");
});
