import { expect, test } from "vitest";
import type { TableInfo, Tables } from "../api/types";
import type { TableState } from "../state/store";
import { measureOf, moveTo, remove, resolve, step, UNGROUPED } from "./arrange";

const column = (name: string, kind: TableInfo["columns"][number]["kind"], sum = false) => ({
  name,
  kind,
  sum,
  over_time: sum,
  aliases: [],
  doc: "",
});
const waits: TableInfo = {
  table: "waits",
  doc: "",
  by: ["reason"],
  show: ["blocked at", "waited", "thread"],
  aggregates: ["count", "sum:waited"],
  sort: "waited",
  columns: [
    column("reason", "text"),
    column("thread", "text"),
    column("waited", "duration", true),
    column("bytes", "count", true),
    column("tid", "number"),
    column("blocked at", "time"),
  ],
};
const tables: Tables = {
  tables: [waits],
  presets: [
    {
      id: "waits",
      name: "Waits",
      table: "waits",
      by: ["thread", "reason"],
      show: ["count", "sum:waited", "max:waited"],
      sort: "sum:waited:desc",
      where: "",
      graph: ["sum:waited"],
      over_time: false,
    },
  ],
};
const usual: TableState = {
  preset: "waits",
  table: "waits",
  by: [],
  show: [],
  graph: [],
  where: "",
  sort: "",
  over: "",
};

function arranged(state: Partial<TableState> = {}) {
  const of = resolve(tables, { ...usual, ...state });
  if (!of) throw new Error("no table");
  return of;
}

test("by default the preset's columns are shown, each once", () => {
  const of = arranged();
  expect(of.by).toEqual(["thread", "reason"]);
  expect(of.show).toEqual(["count", "max:waited"]);
  expect(of.graph).toEqual(["sum:waited"]);
  expect(of.sort).toBe("sum:waited:desc");
});

test("ungrouped, sums become their columns and counts disappear", () => {
  const of = arranged({
    by: UNGROUPED,
    show: ["count", "sum:waited", "thread"],
    sort: "sum:waited:desc",
  });
  expect(of.by).toEqual([]);
  expect(of.show).toEqual(["waited", "thread"]);
  expect(of.sort).toBe("waited:desc");
});

test("a column dragged across the gold bar groups; dragged back, it does not", () => {
  const of = arranged();
  const in_ = moveTo(of, "max:waited", "by", 1);
  expect(in_.by).toEqual(["thread", "waited", "reason"]);
  expect(in_.show).toEqual(["count"]);
  const out = moveTo(arranged(in_), "reason", "show", 0);
  expect(out.by).toEqual(["thread", "waited"]);
  expect(arranged(out).show).toEqual(["count"]);
});

test("the last group dragged out leaves single rows, not the preset's groups", () => {
  const of = arranged({ by: ["thread"] });
  const out = moveTo(of, "thread", "show", 0);
  expect(out.by).toEqual(UNGROUPED);
  expect(arranged(out).by).toEqual([]);
  expect(arranged(out).show[0]).toBe("thread");
});

test("a count cannot be grouped by", () => {
  expect(moveTo(arranged(), "count", "by", 0)).toEqual({
    by: ["thread", "reason"],
    show: ["count", "max:waited"],
    graph: ["sum:waited"],
  });
});

test("a column right of the blue bar is drawn", () => {
  expect(moveTo(arranged(), "count", "graph", 0)).toMatchObject({
    show: ["max:waited"],
    graph: ["count", "sum:waited"],
  });
  expect(remove(arranged(), "sum:waited").graph).toEqual([]);
});

test("steps cross both bars and stop at the ends", () => {
  const of = arranged();
  expect(step(of, "thread", -1)).toBeNull();
  expect(step(of, "reason", 1)).toEqual({ zone: "show", index: 0 });
  expect(step(of, "count", -1)).toEqual({ zone: "by", index: 2 });
  expect(step(of, "max:waited", 1)).toEqual({ zone: "graph", index: 0 });
  expect(step(of, "sum:waited", 1)).toBeNull();
});

test("columns of an old link that no longer exist are dropped", () => {
  const of = arranged({ by: ["gone", "reason"], show: ["sum:gone", "count"], sort: "gone:asc" });
  expect([of.by, of.show, of.sort]).toEqual([["reason"], ["count"], ""]);
  expect(resolve({ tables: [], presets: [] }, usual)).toBeNull();
});

test("over time, the first column is drawn that can be: a sum, or the number of rows", () => {
  expect(measureOf(arranged())).toBe("sum:waited");
  expect(measureOf(arranged({ graph: ["sum:bytes"] }))).toBe("sum:bytes");
  expect(measureOf(arranged({ show: ["max:tid"] }))).toBe("count");
});

test("threads that are compared are the first groups, unless the user chose others", () => {
  const by = (state: Partial<TableState>) =>
    resolve(tables, { ...usual, ...state }, ["tid", "thread"])?.by;
  expect(by({})).toEqual(["tid", "thread", "reason"]);
  expect(by({ by: ["reason"] })).toEqual(["reason"]);
  expect(by({ by: ["none"] })).toEqual([]);
});

test("an aggregate that a column does not have is dropped, also as the order", () => {
  const of = arranged({ by: ["thread"], show: ["sum:reason", "avg:tid", "max:tid"] });
  expect(of.show).toEqual(["max:tid"]);
  expect(arranged({ by: ["thread"], sort: "sum:reason:desc" }).sort).toBe("");
});

test("the order by a column of single rows becomes that by its aggregate in groups", () => {
  expect(arranged({ by: ["thread"], sort: "waited:desc" }).sort).toBe("sum:waited:desc");
  expect(arranged({ by: ["thread"], sort: "thread:asc" }).sort).toBe("thread:asc");
  expect(arranged({ by: ["thread"], sort: "reason:asc" }).sort).toBe("");
});
