import { expect, test } from "vitest";
import type { Part } from "../api/types";
import { rowsOf } from "./compareRows";

const part = (label: string, ns: number): Part => ({
  what: "",
  label,
  who: null,
  ns,
  share: 0,
  state: 0,
});

test("shares of one kind are one row, whoever they are of, and the largest comes first", () => {
  const rows = rowsOf([
    { parts: [part("lock held by", 5), part("lock held by", 2), part("ran", 1)] },
    { parts: [part("ran", 8)] },
  ]);
  expect(rows).toEqual([
    { label: "ran", ns: [1, 8], tenths: [125, 1000] },
    { label: "lock held", ns: [7, 0], tenths: [875, 0] },
  ]);
});
