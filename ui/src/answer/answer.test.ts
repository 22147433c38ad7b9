import { expect, test } from "vitest";
import type { Part, StallEntry, TextLink, Who } from "../api/types";
import { ns, range } from "../units";
import { area, pack } from "./bars";
import { segments, shownShares, tenthsOf, toldShare } from "./shares";
import { lines, spansOf } from "./spans";

const link = (start: number, end: number): TextLink => ({
  start,
  end,
  lane: null,
  from: null,
  to: null,
  event: null,
  instructions_of: null,
});

test("a clause is split at its links and loses no letter", () => {
  const clause = { text: "Woken by A and B.", links: [link(15, 16), link(9, 10)] };
  const cut = spansOf(clause);
  expect(cut.map((piece) => piece.text)).toEqual(["Woken by ", "A", " and ", "B", "."]);
  expect(cut.map((piece) => piece.link !== null)).toEqual([false, true, false, true, false]);
});

test("links that overlap or exceed the text become text", () => {
  const clause = { text: "abcdef", links: [link(0, 4), link(2, 5), link(5, 99), link(3, 3)] };
  expect(spansOf(clause).map((piece) => piece.text)).toEqual(["abcd", "ef"]);
});

test("a clause of several lines keeps its links on each", () => {
  const cut = lines(spansOf({ text: "woken by A\n  main → f\nagain", links: [link(9, 20)] }));
  expect(cut.map((line) => line.map((piece) => [piece.text, piece.link !== null]))).toEqual([
    [
      ["woken by ", false],
      ["A", true],
    ],
    [
      ["  main → ", true],
      ["f", false],
    ],
    [["again", false]],
  ]);
});

const part = (value: number): Part => ({
  what: "lock",
  label: "lock held by",
  who: null,
  ns: value,
  share: 0,
  state: 3,
});

test("the bar adds up to its width, and to the nanosecond, however small the parts", () => {
  const parts = [part(1_000_000), part(700), ...Array.from({ length: 300 }, (_, i) => part(i + 1))];
  const bar = segments(parts, 640);
  const total = parts.reduce((sum, p) => sum + p.ns, 0);
  expect(bar.reduce((sum, segment) => sum + segment.ns, 0)).toBe(total);
  expect(bar.reduce((sum, segment) => sum + segment.width, 0)).toBeCloseTo(640, 6);
  expect(bar.reduce((sum, segment) => sum + segment.members.length, 0)).toBe(parts.length);
  expect(bar.at(-1)?.members.length).toBe(301);
  expect(segments([], 640)).toEqual([]);
});

test("in the bar a crowd is one segment, also if nobody of it could be seen alone", () => {
  const who = (thread: number) => ({ thread, tid: thread, name: "gomacc" }) as unknown as Who;
  const crowd = Array.from({ length: 300 }, (_, i) => ({ ...part(1), who: who(i) }));
  const bar = segments([...crowd, part(100)], 100);
  expect(bar.map((segment) => [segment.crowd, segment.ns, segment.width])).toEqual([
    ["gomacc", 300, 75],
    [null, 100, 25],
  ]);
});

test("a part has one figure wherever it is told, and a crowd's members add up to its line", () => {
  const who = (thread: number) => ({ thread, tid: thread, name: "gomacc" }) as unknown as Who;
  const crowd = [1, 1, 1, 1].map((ns, i) => ({ ...part(ns), who: who(i) }));
  const large = { ...part(9_815), label: "ran", state: 1 };
  const other = { ...part(181), label: "waited for a CPU", state: 2 };
  const parts = [large, other, ...crowd];
  const tenths = tenthsOf(parts);
  expect([[large], [other], crowd].map((some) => toldShare(some, tenths))).toEqual([
    "98.2 %",
    "1.8 %",
    "0.0 %",
  ]);
  expect([...tenths.values()].reduce((sum, one) => sum + one, 0)).toBe(1000);
});

test("the lines of an answer have the figures of its text", () => {
  const who = (thread: number) => ({ thread, tid: thread, name: "w" }) as unknown as Who;
  const ui = { ...part(33_755), label: "ran", state: 1 };
  const workers = [22_065, 22_065, 22_115].map((ns, i) => ({ ...part(ns), who: who(i) }));
  const tenths = tenthsOf([ui, ...workers]);
  // Three are no crowd: by itself, each of them has lost more than the first.
  expect(tenths.get(ui)).toBe(337);
  const all = [ui, ...Array.from({ length: 9 }, (_, i) => ({ ...part(7_361 - i), label: `${i}` }))];
  // The text: six lines and "the rest", whatever the kinds in it.
  expect(toldShare([ui], tenthsOf(all))).toBe("33.8 %");
});

test("a crowd is one only if none of it has half of its time", () => {
  const of = (value: number, thread: number): Part => ({
    ...part(value),
    who: { thread, tid: thread, pid: 1, process_id: 1, name: "w", process: "p" } as unknown as Who,
  });
  const parts = [of(9, 1), of(2, 2), of(2, 3), of(2, 4)];
  expect(shownShares(parts, 6).map((share) => share.members.length)).toEqual([1, 1, 1, 1]);
});

test("the rest is merged by kind, unless it is a single part", () => {
  const parts = [5, 4, 3, 2].map(part);
  expect(shownShares(parts, 3).map((share) => share.ns)).toEqual([5, 4, 3, 2]);
  const ran = { ...part(1), label: "ran", state: 1 };
  expect(
    shownShares([...parts, ran], 2).map((share) => [
      share.part.label,
      share.members.length,
      share.ns,
    ]),
  ).toEqual([
    ["lock held by", 1, 5],
    ["lock held by", 1, 4],
    ["lock held by", 2, 5],
    ["ran", 1, 1],
  ]);
});

test("threads of one name are one share if they are many", () => {
  const of = (name: string, value: number, thread: number): Part => ({
    ...part(value),
    who: { thread, tid: thread, pid: 1, process_id: 1, name, process: "p" } as unknown as Who,
  });
  const parts = [of("main", 9, 1), ...[2, 3, 4, 5].map((thread) => of("gomacc", 4, thread))];
  expect(
    shownShares(parts, 6).map((share) => [share.crowd, share.members.length, share.ns]),
  ).toEqual([
    ["gomacc", 4, 16],
    [null, 1, 9],
  ]);
});

const stall = (id: number, from: number, to: number, severity: number) =>
  ({ id, from: ns(from), to: ns(to), severity }) as unknown as StallEntry;

test("overlapping stalls are stacked, the worst in the first row", () => {
  const bars = pack(
    [stall(2, 0, 100, 0.5), stall(1, 50, 100, 1), stall(3, 120, 121, 0.1)],
    range(0, 1000),
    1000,
    2,
  );
  const row = (id: number) => bars.find((bar) => bar.stall.id === (id as never))?.row;
  expect([row(1), row(2), row(3)]).toEqual([0, 1, 0]);
  expect(bars.every((bar) => bar.width >= 4 && bar.x >= 0 && bar.x + bar.width <= 1000)).toBe(true);
});

test("the curve is closed at the bottom and clipped at the top", () => {
  expect(area([0, 2, 5], 2, 30, 10)).toBe(
    "M0 10L0.0 10.0L10.0 10.0L10.0 0.0L20.0 0.0L20.0 0.0L30.0 0.0L30 10Z",
  );
  expect(area([], 2, 30, 10)).toBe("");
});
