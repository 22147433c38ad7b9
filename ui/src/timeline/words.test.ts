import { describe, expect, test } from "vitest";
import { range } from "../units";
import { css, hash, inkOn, mix, pack, parse } from "./colour";
import { STILL, fit, moved, stepped, wheelZoom } from "./motion";
import type { Slice } from "./protocol";
import { cutEnd, cutFunction, remembering, shortFunction } from "./text";
import { placeTip } from "./tips";
import { stepLink, wakerOf } from "./walk";

const measure = (text: string) => text.length;

describe("texts that fit", () => {
  test("are cut at their end, or left out when nothing would be read", () => {
    expect(cutEnd("typing", 10, measure)).toBe("typing");
    expect(cutEnd("a long name", 6, measure)).toBe("a lon…");
    expect(cutEnd("a long name", 2, measure)).toBe("");
  });

  test("functions lose their qualification before their name", () => {
    expect(shortFunction("base::MessagePump::Run(int)")).toBe("Run");
    expect(shortFunction("std::map<a::b, c>::insert<d::e>(f::g const&)")).toBe("insert<d::e>");
    expect(shortFunction("<alloc::vec::Vec<T> as core::fmt::Debug>::fmt")).toBe("fmt");
    expect(shortFunction("main")).toBe("main");
    expect(shortFunction("a::operator()(int)")).toBe("operator()(int)");
    expect(shortFunction("(anonymous namespace)::run")).toBe("run");
    expect(cutFunction("base::MessagePump::Run", 5, measure)).toBe("Run");
    expect(cutFunction("base::MessagePump::Run", 50, measure)).toBe("base::MessagePump::Run");
  });

  test("measuring is remembered", () => {
    let calls = 0;
    const known = remembering((text) => (calls++, text.length), 2);
    known("a");
    known("a");
    known("b");
    known("c");
    expect(calls).toBe(3);
    expect(known("a")).toBe(1);
  });
});

describe("colours", () => {
  test("are read from CSS and written back", () => {
    expect(css(parse("#3fb27f") ?? 0)).toBe("rgb(63,178,127)");
    expect(parse("#abc")).toBe(parse("#aabbcc"));
    expect(parse(" rgb(1 2 3 / 0.5)")).toBe(pack(1, 2, 3));
    expect(parse("rgba(1, 2, 3, .5)")).toBe(pack(1, 2, 3));
    expect(parse("hotpink")).toBeNull();
  });

  test("mix and keep their ink readable", () => {
    expect(mix(pack(0, 0, 0), pack(200, 100, 50), 0.5)).toBe(pack(100, 50, 25));
    expect(inkOn(pack(255, 255, 255))).toBe("#111");
    expect(inkOn(pack(0, 0, 0))).toBe("#fff");
  });

  test("names hash the same everywhere", () => {
    expect(hash("libc.so.6")).toBe(hash("libc.so.6"));
    expect(hash("")).toBe(0x811c9dc5);
    expect(hash("a")).toBe(0xe40c292c);
  });
});

describe("motion", () => {
  const whole = range(0, 1_000_000);
  const window = range(400_000, 500_000);

  test("held keys move the window with time, never far in one frame", () => {
    expect(moved(window, { zoom: 0, pan: 1 }, 16, 0, whole).from).toBeGreaterThan(window.from);
    expect(moved(window, { zoom: -1, pan: 0 }, 16, 450_000, whole).from).toBeGreaterThan(
      window.from,
    );
    expect(moved(window, { zoom: 0, pan: 1 }, 10_000, 0, whole).from - window.from).toBeLessThan(
      10_000,
    );
    expect(moved(window, STILL, 16, 0, whole)).toBe(window);
  });

  test("zooming in and out by a step comes back", () => {
    const there = stepped(window, { zoom: -1, pan: 0 }, 420_000, whole);
    const back = stepped(there, { zoom: 1, pan: 0 }, 420_000, whole);
    expect(back.from).toBeCloseTo(window.from);
    expect(back.to).toBeCloseTo(window.to);
  });

  test("the wheel's factors undo each other, and no turn is a leap", () => {
    expect(wheelZoom(100, false) * wheelZoom(-100, false)).toBeCloseTo(1);
    expect(wheelZoom(100_000, true)).toBeLessThan(3);
  });

  test("F goes through what can be fitted, at last to the whole", () => {
    const first = fit(window, [range(100, 200), range(5000, 9000)], whole);
    expect(first.from).toBeLessThanOrEqual(100);
    const second = fit(first, [range(100, 200), range(5000, 9000)], whole);
    expect(second.from).toBeGreaterThan(4000);
    expect(fit(second, [range(100, 200), range(5000, 9000)], whole)).toEqual(whole);
    expect(fit(window, [], whole)).toEqual(whole);
  });
});

describe("walking", () => {
  const chain = [{ from: 0 }, { from: 1 }, { from: 2 }] as never;

  test("begins at the end of the chain, stays within it", () => {
    expect(stepLink(chain, null, -1)).toBe(2);
    expect(stepLink(chain, null, 1)).toBe(0);
    expect(stepLink(chain, 2, -1)).toBe(1);
    expect(stepLink(chain, 0, -1)).toBe(0);
    expect(stepLink(chain, 2, 1)).toBe(2);
    expect(stepLink([], null, 1)).toBeNull();
  });

  test("goes from a wait to its waker, not to idle or nobody", () => {
    const slice = (by: unknown) =>
      ({
        wake: { at: 77, context: "task", source: null, by, stack: null },
      }) as unknown as Slice;
    expect(wakerOf(slice({ thread: 9, tid: 4 }))).toEqual({ lane: "t9", at: 77 });
    expect(wakerOf(slice({ thread: 0, tid: 0 }))).toBeNull();
    expect(wakerOf(slice(null))).toBeNull();
    expect(wakerOf({ wake: null } as Slice)).toBeNull();
  });
});

test("tooltips turn away from the edges", () => {
  const room = { width: 400, height: 300 };
  expect(placeTip(10, 10, 100, 50, room)).toEqual({ left: 24, top: 26 });
  const corner = placeTip(390, 290, 100, 50, room);
  expect(corner.left + 100).toBeLessThanOrEqual(390);
  expect(corner.top + 50).toBeLessThanOrEqual(290);
});
