import { expect, test } from "vitest";
import { processIx, range, threadIx } from "../units";
import { changedParams, ofAnyTrace, parse, type UrlState, write } from "./url";

const USUAL = parse("");

test("defaults are not written", () => {
  expect(write({ ...USUAL, trace: null })).toBe("");
  expect(write(parse("?trace=a.hitch"))).toBe("?trace=a.hitch");
});

test("everything is read back as it was written", () => {
  const state: UrlState = {
    diff: {
      before: "a.hitch",
      after: "b c.hitch",
      of: "sample",
      widths: "before",
      within: "all",
    },
    list: { filter: "stall>1s host:a&b", sort: "size:asc" },
    trace: "2026-01-02_03-04-05 ä&?.hitch",
    view: "stacks",
    layout: "timeline",
    shown: range(5, 9_007_199_254_740_991),
    selection: {
      range: range(1, 2),
      threads: [threadIx(0), threadIx(4)],
      process: processIx(7),
      stack: "operator<<, (&)",
    },
    swept: [threadIx(6), threadIx(2)],
    stall: 3,
    chainLink: 0,
    pageMarks: [range(7, 7), range(20, 9_007_199_254_740_991)],
    tracks: ["pressure-over-time"],
    pins: ["t12", "c0"],
    hidden: ["p3"],
    search: "/a|b/",
    event: { kind: "provider", index: 18 },
    table: {
      preset: "waits",
      table: "switches",
      by: ["thread", "wait stack"],
      show: ["count", "sum:off-CPU"],
      graph: ["max:waited"],
      where: "waited > 5ms and thread = 'a, b'",
      sort: "sum:waited:desc",
      over: "time",
    },
    stacks: {
      of: "sample",
      form: "butterfly",
      root: ["4", "9"],
      function: "std::vec<a, b>::f",
      by: "module",
      idle: true,
      scope: "chain",
      where: "tid != 7",
    },
  };
  expect(parse(write(state))).toEqual(state);
});

test("an ungrouped table does not fall back to the preset's grouping", () => {
  expect(parse(write({ ...USUAL, table: { ...USUAL.table, by: ["none"] } })).table.by).toEqual([
    "none",
  ]);
});

test("invalid values are ignored", () => {
  const state = parse(
    "?trace=a&view=x&window=9-5&range=a-b&thread=-1&event=foo-1&stall=1e9&marks=5-4,x,,-1" +
      "&of=none&form=&layout=full",
  );
  expect(state).toEqual({ ...USUAL, trace: "a" });
});

test("what a change is about are the parameters that differ", () => {
  expect(changedParams("?trace=a&window=1-2", "?trace=a&window=3-4&stall=1")).toBe("stall window");
  expect(changedParams("?a=1", "?a=1")).toBe("");
});

test("a view for any trace has nothing of the trace that it was made from", () => {
  const kept =
    "?view=tables&layout=view&tracks=queue-over-time&preset=waits&table=switches&by=thread" +
    "&show=count&graph=sum%3Awaited&where=waited+%3E+5ms&sort=count%3Aasc&over=time" +
    "&of=sample&form=icicle&count=module&idle=1";
  const ofOneTrace =
    "&trace=a.hitch&stall=3&hop=1&window=1-2&marks=7&pins=t12&hide=p3&range=1-2&thread=4&swept=2" +
    "&process=7&stack=read&search=a&event=switch-4&root=main&function=f&scope=chain&filter=tid+%3D+7" +
    "&before=a&after=b";
  expect(ofAnyTrace(parse(kept + ofOneTrace))).toEqual(parse(kept));
});

test("a view for any trace can be made of anything", () => {
  for (const text of ["", "?", "null", '{"view":"tables"}', "?view=__proto__&layout=%ff&sort=%00"])
    expect(write(ofAnyTrace(parse(text)))).toBe(text.includes("sort") ? "?sort=%00" : "");
});
