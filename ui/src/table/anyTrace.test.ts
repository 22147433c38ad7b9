import { expect, test } from "vitest";
import type { ColumnInfo, Tables } from "../api/types";
import { NO_TABLE } from "../state/store";
import { isOfAnyTrace, tableOfAnyTrace } from "./anyTrace";

const column = (name: string, kind: ColumnInfo["kind"], aliases: string[] = []): ColumnInfo => ({
  name,
  aliases,
  kind,
  doc: "",
  sum: false,
  over_time: false,
});
const COLUMNS = [
  column("waited", "duration"),
  column("victims", "count"),
  column("reason", "text", ["wait class"]),
  column("counter", "text"),
  column("thread", "text"),
  column("tid", "number"),
  column("blocked at", "time"),
  column("wait stack", "stack"),
];

test("a filter by durations, counts and the program's own words is of any trace", () => {
  for (const where of [
    "waited > 5ms",
    "waited>1.5s and victims >= 3",
    "not (Wait Class = 'lock' or (waited < 2us)) AND reason ~ io",
    'counter = "some waited"',
  ])
    expect(isOfAnyTrace(where, COLUMNS), where).toBe(true);
});

test("a filter that names something of a trace is not", () => {
  for (const where of [
    "thread = main",
    "tid != 7",
    "blocked at > 1s",
    "wait stack ~ read",
    "waited > 5ms or not thread = main",
  ])
    expect(isOfAnyTrace(where, COLUMNS), where).toBe(false);
});

test("a filter that the server would refuse is not", () => {
  for (const where of [
    "",
    "not",
    "waited",
    "waited >",
    "waited > 5",
    "waited > 5 ms",
    "waited ~ 5ms",
    "reason > lock",
    "reason = 'a b",
    "reason = (lock",
    "(reason = lock",
    "reason = lock)",
    "reason = lock and",
    "reason = lock, waited > 5ms",
    "victims > 3.5",
    "waited > 99999999999999999999s",
    "gone = 1",
  ])
    expect(isOfAnyTrace(where, COLUMNS), where).toBe(false);
});

const tables: Tables = {
  tables: [
    {
      table: "counters",
      doc: "",
      by: [],
      show: ["counter"],
      aggregates: ["count"],
      sort: "",
      columns: COLUMNS,
    },
  ],
  presets: [
    {
      id: "pressure",
      name: "Pressure",
      table: "counters",
      by: [],
      show: [],
      sort: "",
      where: "counter = waited",
      graph: [],
      over_time: true,
    },
  ],
};

test("a table keeps its preset's filter in place of one that is about a trace", () => {
  const state = { ...NO_TABLE, preset: "pressure", table: "pressure", by: ["thread"] };
  for (const [where, kept] of [
    ["", ""],
    ["waited > 5ms", "waited > 5ms"],
    ["tid = 7", "counter = waited"],
  ] as const)
    expect(tableOfAnyTrace(tables, { ...state, where })).toEqual({ ...state, where: kept });
});

test("a table that does not exist is none", () => {
  expect(tableOfAnyTrace(tables, { ...NO_TABLE, preset: "gone", table: "gone" })).toBeNull();
});
