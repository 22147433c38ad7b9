import { expect, test } from "vitest";
import type { TraceEntry } from "../api/types";
import { passes, sorted, textsOf } from "./Rows";

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
  const names = (sort: string) => sorted(list, sort).map((e) => e.name);
  expect(names("verdict:desc")).toEqual(["c", "a", "b"]);
  expect(names("verdict:asc")).toEqual(["a", "c", "b"]);
});

test("the filter looks at names, hosts, answers and causes", () => {
  expect(textsOf(entry("a", 5, "Build-1"))).toBe("a build-1 a hung long hold");
});

test("a word of the filter looks at one column, compares it, or looks everywhere", () => {
  const hung = {
    ...entry("a", 2_000_000_000, "Build-1"),
    bytes: 5_000_000,
    duration_ns: 4e9,
    modified: "2026-11-24T12:18:00Z",
  };
  for (const [word, passed] of [
    ["hung", true],
    ["host:build", true],
    ["host:hung", false],
    ["name:A", true],
    ["trace:a", true],
    ["trace:b", false],
    ["date:2026-11-24", true],
    ["date:2026-11-24T", false],
    ["date:2025", false],
    ["stall>1s", true],
    ["stall>2500ms", false],
    ["length<5s", true],
    ["size<10MB", true],
    ["size>10MB", false],
    ["size>ten", false],
    ["host>1s", false],
    ["nothing:else", false],
  ] as const)
    expect([word, passes(hung as TraceEntry, word)]).toEqual([word, passed]);
  expect(passes(entry("b", null), "stall>0s")).toBe(false);
});
