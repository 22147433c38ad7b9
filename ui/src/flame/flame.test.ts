import { describe, expect, test } from "vitest";
import { matcher } from "../search";
import { find } from "./find";
import { type FlameAnswer, frames } from "./frames";
import { frameLines, stackText } from "./frameText";
import { colourOf, hue } from "./palette";
import { escapeXml, svg } from "./svg";
import { boxAt, findPath, keysTo, lay, namesTo, onScreen, path, step, zoomTo } from "./tree";

/** all 100: main 80 (read 50 (futex 30), write 20), others 10. */
const answer: FlameAnswer = {
  of: "wait",
  unit: "ns",
  total: 100,
  count: 9,
  root: [],
  root_value: 100,
  strings: ["(all)", "main", "read", "futex_wait", "write", "(others)", "prog", "[kernel]"],
  nodes: {
    parent: [-1, 0, 1, 2, 1, 0],
    name: [0, 1, 2, 3, 4, 5],
    module: [-1, 6, 6, 7, 6, -1],
    key: [0, 4, 9, 2, 11, -1],
    value: [100, 80, 50, 30, 20, 10],
    self: [10, 10, 20, 30, 20, 10],
    count: [9, 8, 5, 3, 2, 1],
    kernel: [0, 0, 0, 1, 0, 0],
  },
  others: 1,
  cut_px: 0.5,
};
const tree = lay(frames(answer));
const whole = { left: 0, width: 1 };

describe("the layout", () => {
  test("every box is within its parent, siblings side by side", () => {
    expect(tree.depth).toBe(4);
    expect(
      tree.boxes.map((b) => [b.depth, b.left, b.width].map((n) => Math.round(n * 100) / 100)),
    ).toEqual([
      [0, 0, 1],
      [1, 0, 0.8],
      [2, 0, 0.5],
      [3, 0, 0.3],
      [2, 0.5, 0.2],
      [1, 0.8, 0.1],
      // Time without a stack is a box of its own.
      [1, 0.9, 0.1],
    ]);
  });

  test("children larger than their parent are clipped, and orphans have no width", () => {
    const bad = lay(
      frames({ ...answer, nodes: { ...answer.nodes, value: [100, 80, 500, 30, 20, 10] } }),
    );
    expect(bad.boxes[2]?.width).toBeCloseTo(0.8);
    expect(bad.boxes[4]?.width).toBe(0);
    const orphan = lay(
      frames({ ...answer, nodes: { ...answer.nodes, parent: [-1, 0, 1, 2, 5, 0] } }),
    );
    expect(orphan.boxes[4]?.width).toBe(0);
    expect(lay([]).depth).toBe(0);
  });

  test("a root fills the width, as do its ancestors", () => {
    const zoom = zoomTo(tree, 2);
    expect(onScreen(tree.boxes[2]!, zoom, 1000)).toEqual({ x: 0, width: 1000 });
    expect(onScreen(tree.boxes[1]!, zoom, 1000)).toEqual({ x: 0, width: 1000 });
    expect(onScreen(tree.boxes[3]!, zoom, 1000).width).toBeCloseTo(600);
    expect(onScreen(tree.boxes[4]!, zoom, 1000).width).toBeLessThanOrEqual(0);
    expect(zoomTo(tree, 99)).toEqual(whole);
  });

  test("the frame under the pointer, in both directions", () => {
    expect(boxAt(tree, whole, 1000, 10, false, 100, 25)).toBe(2);
    expect(boxAt(tree, whole, 1000, 10, true, 100, 25)).toBe(1);
    expect(boxAt(tree, whole, 1000, 10, false, 990, 15)).toBe(6);
    expect(boxAt(tree, zoomTo(tree, 4), 1000, 10, false, 500, 25)).toBe(4);
  });

  test("paths by name and by key", () => {
    expect(path(tree, 3).map((b) => b.index)).toEqual([0, 1, 2, 3]);
    expect(namesTo(tree, 3)).toEqual(["main", "read", "futex_wait"]);
    expect(keysTo(tree, 3)).toBe("4.9.2");
    expect(findPath(tree, ["main", "read"])).toEqual({ index: 2, found: 2 });
    expect(findPath(tree, ["main", "gone", "read"])).toEqual({ index: 1, found: 1 });
    expect(findPath(tree, ["(others)"])).toEqual({ index: 0, found: 0 });
  });

  test("keys go to the caller, the widest callee, and along the row", () => {
    expect(step(tree, 1, "callee")).toBe(2);
    expect(step(tree, 2, "caller")).toBe(1);
    expect(step(tree, 2, "right")).toBe(4);
    expect(step(tree, 4, "left")).toBe(2);
    expect(step(tree, 4, "right")).toBe(4);
    expect(step(tree, 3, "callee")).toBe(3);
    expect(step(tree, 0, "caller")).toBe(0);
  });
});

describe("search", () => {
  test("counts nested hits once", () => {
    const found = find(tree, "/main|read/");
    expect([...found.boxes]).toEqual([1, 2]);
    expect(found.share).toBeCloseTo(0.8);
  });

  test("matches text literally, in names and modules, ignoring case", () => {
    expect([...find(tree, "FUTEX").boxes]).toEqual([3]);
    expect([...find(tree, "[kernel]").boxes]).toEqual([3]);
    expect(find(tree, "").boxes.size).toBe(0);
    expect(find(tree, "others").boxes.size).toBe(0);
  });

  test("an invalid expression is reported, not thrown", () => {
    expect(find(tree, "/(/").error).not.toBeNull();
    expect(typeof matcher("/a.c/")).toBe("function");
    expect((matcher("/") as (name: string) => boolean)("a/b")).toBe(true);
  });
});

describe("the look", () => {
  test("hues depend on the module, shades on the function, the kernel stands out", () => {
    expect(hue("libc.so.6", false)).toBe(hue("libc.so.6", false));
    const frame = (name: string, module: string, kernel = false) => ({
      name,
      module,
      kernel,
      others: false,
    });
    expect(colourOf(frame("a", "m"), false, true)).toBe(colourOf(frame("a", "m"), false, true));
    expect(hue("[kernel]", true)).toBeLessThan(hue("anything", false));
    expect(colourOf(frame("a", "m"), false, true)).not.toBe(
      colourOf(frame("a", "m"), false, false),
    );
  });

  test("description of a frame", () => {
    expect(frameLines(tree, 2, "wait", "ns")).toEqual([
      "read",
      "50 ns, 50.0 % of the total, 5 waits",
      "62.5 % of main",
      "20 ns in the function itself",
      "prog",
    ]);
    expect(frameLines(tree, 0, "wait", "ns")).toEqual([
      "(all)",
      "100 ns, 100.0 % of the total, 9 waits",
    ]);
    expect(frameLines(tree, 5, "wait", "ns")[0]).toContain("too narrow");
    expect(frameLines(tree, 77, "wait", "ns")).toEqual([]);
    expect(stackText(tree, 3)).toBe("main\nread\nfutex_wait");
  });

  test("the SVG stands alone and no name can break it", () => {
    const hostile = {
      ...answer,
      strings: answer.strings.map((s) => (s === "read" ? `<script>"&'\u0001` : s)),
    };
    const text = svg(
      lay(frames(hostile)),
      whole,
      {
        title: "a & b",
        width: 600,
        rowHeight: 18,
        up: true,
        dark: false,
        found: new Set([1]),
      },
      (t) => t.length * 6,
      () => "<value>",
    );
    expect(text).not.toContain("<script>");
    expect(text).not.toContain("\u0001");
    expect(text).toContain("a &#38; b");
    expect(text.match(/<rect/g)?.length).toBe(8);
    expect(escapeXml("<a>")).toBe("&#60;a&#62;");
  });
});
