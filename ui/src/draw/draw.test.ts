import { describe, expect, test } from "vitest";
import { css, hash, inkOn, mix, pack, parse } from "./colour";
import { cutEnd, cutFunction, memoise, shortFunction } from "./text";
import { placeTooltip } from "./tooltip";

const measure = (text: string) => text.length;

describe("labels", () => {
  test("are cut at their end, or left out if nothing legible remains", () => {
    expect(cutEnd("typing", 10, measure)).toBe("typing");
    expect(cutEnd("a long name", 6, measure)).toBe("a lon…");
    expect(cutEnd("a long name", 2, measure)).toBe("");
  });

  test("of functions lose the qualification before the name", () => {
    expect(shortFunction("base::MessagePump::Run(int)")).toBe("Run");
    expect(shortFunction("std::map<a::b, c>::insert<d::e>(f::g const&)")).toBe("insert<d::e>");
    expect(shortFunction("<alloc::vec::Vec<T> as core::fmt::Debug>::fmt")).toBe("fmt");
    expect(shortFunction("main")).toBe("main");
    expect(shortFunction("a::operator()(int)")).toBe("operator()(int)");
    expect(shortFunction("(anonymous namespace)::run")).toBe("run");
    expect(cutFunction("base::MessagePump::Run", 5, measure)).toBe("Run");
    expect(cutFunction("base::MessagePump::Run", 50, measure)).toBe("base::MessagePump::Run");
  });

  test("are measured once", () => {
    let calls = 0;
    const known = memoise((text) => {
      calls++;
      return text.length;
    }, 2);
    known("a");
    known("a");
    known("b");
    known("c");
    expect(calls).toBe(3);
    expect(known("a")).toBe(1);
  });
});

describe("colours", () => {
  test("are parsed from CSS and formatted back", () => {
    expect(css(parse("#3fb27f") ?? 0)).toBe("rgb(63,178,127)");
    expect(parse("#abc")).toBe(parse("#aabbcc"));
    expect(parse(" rgb(1 2 3 / 0.5)")).toBe(pack(1, 2, 3));
    expect(parse("rgba(1, 2, 3, .5)")).toBe(pack(1, 2, 3));
    expect(parse("hotpink")).toBeNull();
  });

  test("mix, and their ink stays legible", () => {
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

test("tooltips stay within the edges", () => {
  const room = { width: 400, height: 300 };
  expect(placeTooltip(10, 10, 100, 50, room)).toEqual({ left: 24, top: 26 });
  const corner = placeTooltip(390, 290, 100, 50, room);
  expect(corner.left + 100).toBeLessThanOrEqual(390);
  expect(corner.top + 50).toBeLessThanOrEqual(290);
});
