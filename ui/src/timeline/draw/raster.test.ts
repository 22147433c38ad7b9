import { describe, expect, test } from "vitest";
import { encode } from "../../../tests/fixtures/views";
import { IDLE, RAN, STATES } from "../../draw/states";
import { readTheme } from "../../draw/theme";
import { px, range } from "../../units";
import { decode } from "../data/decode";
import { Scale } from "../data/scale";
import { firstAtLeast, firstEndingAfter } from "../data/sorted";
import { hit } from "../input/hit";
import { buildTable, COVER_STEPS, keyOf, lookOf, lookOfHue, lookOfState, NOTHING } from "./looks";
import { blit, keysOf, samplesInto } from "./raster";

const noHue = () => 0;
const LOCK = 3;

const one = (
  kind: number,
  slices: [number, number, number, number?][],
  cells: [number, number, number, number?][] = [],
  from = 0,
  to = 1000,
  columns = 100,
) => {
  const view = decode(encode(from, to, columns, [{ kind, number: 1, slices, cells }]))[0];
  if (!view) throw new Error("the test's view has no lane");
  return view;
};

describe("lanes as pixels", () => {
  test("a slice fills its columns and has an edge where it begins", () => {
    const keys = new Uint16Array(100);
    keysOf(one(1, [[200, 500, LOCK]]), new Scale(range(0, 1000), px(100)), noHue, keys);
    expect(keys[19]).toBe(NOTHING);
    expect(keys[20]).toBe(keyOf(lookOfState(LOCK), COVER_STEPS - 1, true));
    expect(keys[21]).toBe(keyOf(lookOfState(LOCK), COVER_STEPS - 1, false));
    expect(lookOf(keys[49] ?? 0)).toBe(lookOfState(LOCK));
    expect(keys[50]).toBe(NOTHING);
  });

  test("a slice that began before the window has no edge", () => {
    const keys = new Uint16Array(100);
    keysOf(one(1, [[-500, 500, RAN]]), new Scale(range(0, 1000), px(100)), noHue, keys);
    expect(keys[0]).toBe(keyOf(lookOfState(RAN), COVER_STEPS - 1, false));
  });

  test("cells keep their time when the view is zoomed", () => {
    const keys = new Uint16Array(100);
    const view = one(1, [], [[10, RAN, 255]]);
    keysOf(view, new Scale(range(0, 1000), px(100)), noHue, keys);
    expect([...keys].map((k) => k !== NOTHING).lastIndexOf(true)).toBe(10);
    // Zoomed in five-fold around the cell: 100..110 of 50..250 is 25..30.
    keysOf(view, new Scale(range(50, 250), px(100)), noHue, keys);
    expect([...keys].map((k, x) => (k !== NOTHING ? x : -1)).filter((x) => x >= 0)).toEqual([
      25, 26, 27, 28, 29,
    ]);
  });

  test("of several cells in a pixel, the fullest is shown, and idle hides nothing else", () => {
    const keys = new Uint16Array(10);
    const scale = new Scale(range(0, 1000), px(10));
    keysOf(
      one(
        1,
        [],
        [
          [0, IDLE, 0],
          [1, LOCK, 30],
          [2, RAN, 250],
          [3, IDLE, 0],
        ],
      ),
      scale,
      noHue,
      keys,
    );
    expect(lookOf(keys[0] ?? 0)).toBe(lookOfState(RAN));
    keysOf(
      one(
        1,
        [],
        [
          [0, LOCK, 1],
          [1, IDLE, 0],
        ],
      ),
      scale,
      noHue,
      keys,
    );
    expect(lookOf(keys[0] ?? 0)).toBe(lookOfState(LOCK));
  });

  test("CPU lanes are coloured by process", () => {
    const keys = new Uint16Array(100);
    keysOf(
      one(0, [[0, 500, RAN, 7]], [[60, RAN, 255, 8]]),
      new Scale(range(0, 1000), px(100)),
      (thread) => thread,
      keys,
    );
    expect(lookOf(keys[10] ?? 0)).toBe(lookOfHue(7));
    expect(lookOf(keys[60] ?? 0)).toBe(lookOfHue(8));
  });

  test("states differ in pattern or height, not just in colour", () => {
    const grey = { ...readTheme(() => "#808080"), states: STATES.map(() => 0xff808080) };
    const height = 17;
    const table = buildTable(grey, height);
    const pictures = STATES.map((state) => {
      const out = new Uint32Array(16 * height);
      blit(
        new Uint16Array(16).fill(keyOf(lookOfState(state.code), COVER_STEPS - 1, false)),
        table,
        height,
        out,
        16,
        0,
      );
      return out.join();
    });
    expect(new Set(pictures).size).toBe(STATES.length);
  });

  test("a lane partly above or below the image is clipped", () => {
    const table = buildTable(
      readTheme(() => "#404040"),
      10,
    );
    const keys = new Uint16Array(8).fill(keyOf(lookOfState(RAN), COVER_STEPS - 1, false));
    const out = new Uint32Array(8 * 20);
    blit(keys, table, 10, out, 8, -4);
    expect(out.subarray(0, 48).every((p) => p !== 0)).toBe(true);
    expect(out.subarray(48).every((p) => p === 0)).toBe(true);
    out.fill(0);
    blit(keys, table, 10, out, 8, 15);
    expect([...out].filter((p) => p !== 0).length).toBe(5 * 8);
  });

  test("samples are ticks at the bottom, within the image", () => {
    const out = new Uint32Array(100 * 10);
    samplesInto(
      one(
        3,
        [],
        [
          [10, RAN, 1],
          [99, RAN, 9],
        ],
      ),
      new Scale(range(0, 1000), px(100)),
      7,
      out,
      100,
      100,
      10,
    );
    expect(out[9 * 100 + 10]).toBe(7);
    expect([...out].filter((p) => p === 7).length).toBe(2 + 3);
  });

  test("sorted arrays are searched", () => {
    expect(firstAtLeast([1, 3, 5], 3)).toBe(1);
    expect(firstAtLeast([1, 3, 5], 6)).toBe(3);
    expect(firstEndingAfter(new Float64Array([10, 20, 30]), 20)).toBe(2);
    expect(firstEndingAfter(new Float64Array([]), 20)).toBe(0);
  });
});

describe("the pointer hits", () => {
  const view = one(
    1,
    [
      [0, 300, LOCK, 4],
      [500, 900, RAN],
    ],
    [
      [40, IDLE, 0],
      [41, RAN, 128],
    ],
  );
  const scale = new Scale(range(0, 1000), px(100));

  test("a slice, with its own times", () => {
    expect(hit(view, scale, 10)).toMatchObject({
      kind: "slice",
      index: 0,
      from: 0,
      to: 300,
      state: LOCK,
      thread: 4,
    });
    expect(hit(view, scale, 89.9)).toMatchObject({ kind: "slice", index: 1 });
  });

  test("a column of short things, with its share", () => {
    expect(hit(view, scale, 41.5)).toMatchObject({
      kind: "cell",
      index: 1,
      from: 410,
      to: 420,
      state: RAN,
    });
  });

  test("nothing in an empty place, but a near miss counts", () => {
    expect(hit(view, scale, 36)).toBeNull();
    expect(hit(view, scale, 39)).toMatchObject({ kind: "cell", index: 0 });
    expect(hit(view, scale, 99)).toBeNull();
  });
});
