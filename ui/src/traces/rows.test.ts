import { expect, test } from "vitest";
import type { TraceEntry } from "../api/types";
import { passes, sorted, textsOf, wordsOf } from "./Rows";

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

/** One of each column, in an order that is no column's. */
const full = (name: string, n: number, word: string) =>
  ({
    ...entry(name, n, word),
    modified: `2026-11-0${n}T12:00:00Z`,
    duration_ns: n * 1e9,
    bytes: n * 1000,
    first_answer: { duration_ns: n * 1e6, victim: word, cause: `${word} wait` },
  }) as unknown as TraceEntry;

test("rows are sorted by every column, both ways, and those without a value come last", () => {
  const none = { ...entry("none", null), duration_ns: null, bytes: null, modified: null };
  const list = [
    full("b", 2, "Build"),
    none as unknown as TraceEntry,
    full("C", 3, "carol"),
    full("a", 1, "alice"),
  ];
  const names = (sort: string) => sorted(list, sort).map((e) => e.name);
  for (const key of ["modified", "length", "verdict", "victim", "cause", "host", "size"]) {
    expect([key, ...names(`${key}:asc`)]).toEqual([key, "a", "b", "C", "none"]);
    expect([key, ...names(`${key}:desc`)]).toEqual([key, "C", "b", "a", "none"]);
  }
  // Every file has a name.
  expect(names("name:asc")).toEqual(["a", "b", "C", "none"]);
  expect(names("name:desc")).toEqual(["none", "C", "b", "a"]);
});

test("rows of the same value are sorted by name, whatever the direction", () => {
  const list = [full("b", 2, "box"), full("a", 2, "box")];
  for (const sort of ["host:asc", "host:desc"])
    expect(sorted(list, sort).map((e) => e.name)).toEqual(["a", "b"]);
});

test("a trace without a stall is sorted as one of no length", () => {
  const quiet = { ...full("quiet", 1, "box"), first_answer: { text: "No stall was found." } };
  const list = [entry("waiting", null), quiet as unknown as TraceEntry, full("hung", 1, "box")];
  expect(sorted(list, "verdict:desc").map((e) => e.name)).toEqual(["hung", "quiet", "waiting"]);
  expect(sorted(list, "verdict:asc").map((e) => e.name)).toEqual(["quiet", "hung", "waiting"]);
});

test("the filter looks at names, hosts, answers and causes", () => {
  expect(textsOf(entry("a", 5, "Build-1"))).toBe("a\nbuild-1\na hung\nlong hold");
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

test("a filter is split at spaces that are not in quotes", () => {
  for (const [filter, words] of [
    ["", []],
    ["  ", []],
    [" many  host:box ", ["many", "host:box"]],
    ['cause:"lock starvation" many', ['cause:"lock starvation"', "many"]],
    ['"two words" more', ['"two words"', "more"]],
    ['many cause:"lock sta', ["many", 'cause:"lock sta']],
    ['a"b c"d e', ['a"b c"d', "e"]],
  ] as const)
    expect([filter, ...wordsOf(filter)]).toEqual([filter, ...words]);
});

test("what is in quotes is looked for as it is", () => {
  const hung = {
    ...entry("a", 5, "Build-1"),
    first_answer: {
      text: "typing hung: lock starvation",
      duration_ns: 2e9,
      victim: "typing in Writer",
      cause: "lock starvation by inspector",
    },
  } as unknown as TraceEntry;
  for (const [filter, passed] of [
    ['cause:"lock starvation"', true],
    ['CAUSE:"Lock Starvation"', true],
    ['cause:"starvation lock"', false],
    ["cause:starvation cause:lock", true],
    ['victim:"typing in"', true],
    ["victim:writer", true],
    ["victim:inspector", false],
    ['victim:"lock starvation"', false],
    ['"typing hung"', true],
    ['"hung typing"', false],
    // Not from the end of one text into the next.
    ['"a build-1"', false],
    ['"cause:lock"', false],
    ['cause:"', true],
    ['stall>"1s"', true],
  ] as const)
    expect([filter, wordsOf(filter).every((word) => passes(hung, word))]).toEqual([filter, passed]);
});
