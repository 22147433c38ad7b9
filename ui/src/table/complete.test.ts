import { expect, test } from "vitest";
import type { ColumnInfo } from "../api/types";
import { operatorsOf, wantedAt } from "./complete";

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
  column("wait stack", "stack"),
  column("reason", "text", ["wait class"]),
];
const at = (text: string) => {
  const { what, column, typed, from } = wantedAt(text, text.length, COLUMNS);
  return [what, column?.name ?? null, typed, from];
};

test("a column is expected at the start, and after and, or, not and brackets", () => {
  expect(at("")).toEqual(["column", null, "", 0]);
  expect(at("wai")).toEqual(["column", null, "wai", 0]);
  expect(at("not (rea")).toEqual(["column", null, "rea", 5]);
  expect(at("waited > 5ms and ")).toEqual(["column", null, "", 17]);
  expect(at("reason = 'a b' or wait st")).toEqual(["column", null, "wait st", 18]);
});

test("an operator is expected after a column, also if its name has spaces", () => {
  expect(at("waited ")).toEqual(["operator", "waited", "", 7]);
  expect(at("wait stack ")).toEqual(["operator", "wait stack", "", 11]);
  expect(at("wait class ")).toEqual(["operator", "reason", "", 11]);
});

test("a value is expected after an operator, then and or or", () => {
  expect(at("reason = lo")).toEqual(["value", "reason", "lo", 9]);
  expect(at("reason != ")).toEqual(["value", "reason", "", 10]);
  expect(at("wait stack ~ 'a b")).toEqual(["value", "wait stack", "'a b", 13]);
  expect(at("waited > 5ms ")).toEqual(["join", null, "", 13]);
  expect(at("(waited > 5ms) a")).toEqual(["join", null, "a", 15]);
});

test("stacks contain, texts are equal, numbers compare", () => {
  expect(COLUMNS.map((one) => operatorsOf(one)[0])).toEqual([">", "~", "="]);
});
