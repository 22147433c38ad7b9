import { expect, test } from "vitest";
import type { TablePage } from "../api/types";
import { fill, isOpen, missing, PAGE, root, rowAt, size, toggle, visibleIndex } from "./tree";

/** A page of a level with `total` rows, keyed by their index. */
function page(total: number, at = 0, prefix = "k"): TablePage {
  const rows = Array.from({ length: Math.min(PAGE, total - at * PAGE) }, (_, i) => ({
    key: `${prefix}${at * PAGE + i}`,
    cells: [at * PAGE + i],
    children: null,
    from: null,
    to: null,
    lane: null,
  }));
  return {
    table: "waits",
    level: 0,
    by: "thread",
    columns: [],
    rows,
    offset: at * PAGE,
    total,
    totals: [],
    matched: total,
    outside: 0,
    not_recorded: [],
    ignored: [],
    cut: false,
  };
}

test("an empty tree takes one row while it is loaded, and none once it is", () => {
  const top = root();
  expect(size(top)).toBe(1);
  expect(missing(top, 0, 30)).toEqual([{ level: top, page: 0 }]);
  expect(missing(top, 0, 30)).toEqual([]);
  fill(top, 0, page(0));
  expect(size(top)).toBe(0);
  expect(rowAt(top, 0)).toBeNull();
});

test("opened rows push down those below, at any depth", () => {
  const top = root();
  fill(top, 0, page(3));
  const second = rowAt(top, 1);
  expect(second && toggle(second)).toBe(true);
  const inner = second?.level.opened.get(1);
  if (!inner) throw new Error("not opened");
  expect(inner.path).toEqual(["k1"]);
  fill(inner, 0, page(2, 0, "i"));
  const deep = rowAt(top, 2);
  expect(deep?.row?.key).toBe("i0");
  expect(deep && toggle(deep)).toBe(true);
  const deepest = inner.opened.get(0);
  if (!deepest) throw new Error("not opened");
  fill(deepest, 0, page(4, 0, "d"));
  const keys = Array.from({ length: size(top) }, (_, i) => rowAt(top, i)?.row?.key);
  expect(keys).toEqual(["k0", "k1", "i0", "d0", "d1", "d2", "d3", "i1", "k2"]);
  expect(visibleIndex(deepest, 2)).toBe(5);
  expect(visibleIndex(top, 2)).toBe(8);
  expect(rowAt(top, 9)).toBeNull();
  const again = rowAt(top, 1);
  expect(again && isOpen(again) && toggle(again)).toBe(false);
  expect(size(top)).toBe(3);
});

test("distant rows need only their own page", () => {
  const top = root();
  fill(top, 0, page(10_000_000));
  expect(missing(top, 5_000_000, 5_000_030)).toEqual([{ level: top, page: 25_000 }]);
  fill(top, 25_000, page(10_000_000, 25_000));
  expect(rowAt(top, 5_000_007)?.row?.cells).toEqual([5_000_007]);
  expect(missing(top, 199, 201).map((entry) => entry.page)).toEqual([1]);
});
