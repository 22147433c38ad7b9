import { describe, expect, test } from "vitest";
import { lanesOf } from "../../../tests/fixtures/views";
import { range } from "../../units";
import type { LaneView } from "./decode";
import { COMFORTABLE, layout } from "./layout";
import {
  fits,
  fitsWell,
  forget,
  MAX_COLUMNS,
  nearLanes,
  nextRequest,
  stillUseful,
  withMargin,
} from "./requests";

const whole = range(0, 1_000_000_000);
const view = (from: number, to: number, columns: number): LaneView =>
  ({ from, to, columns, columnNs: (to - from) / columns }) as LaneView;

describe("requests", () => {
  test("have one screen of margin on both sides, clipped to the trace", () => {
    const window = range(400_000_000, 500_000_000);
    const want = withMargin(window, 1000, whole);
    expect(want.from).toBeCloseTo(300_000_000);
    expect(want.to).toBeCloseTo(600_000_000);
    expect(want.columns).toBe(3000);
    const edge = withMargin(range(0, 100_000_000), 1000, whole);
    expect(edge.from).toBe(0);
    expect(edge.columns).toBe(2000);
  });

  test("never exceed the server's limit of columns, even on the widest screen", () => {
    for (const width of [200, 1600, 3840, 7680, 8192]) {
      const want = withMargin(range(400_000_000, 500_000_000), width, whole);
      expect(want.columns).toBeLessThanOrEqual(MAX_COLUMNS);
      expect(want.from).toBeLessThanOrEqual(400_000_000);
      expect(want.to).toBeGreaterThanOrEqual(500_000_000 - 100_000_000 / width);
    }
  });

  test("align columns to a fixed grid, so that panning requests the same columns", () => {
    const a = withMargin(range(400_000_000, 500_000_000), 1000, whole);
    const b = withMargin(range(400_130_000, 500_130_000), 1000, whole);
    expect((b.from - a.from) % 100_000).toBeCloseTo(0);
  });

  test("have answers that serve their window and small moves, but no other scale", () => {
    const window = range(400_000_000, 500_000_000);
    const want = withMargin(window, 1000, whole);
    const have = view(want.from, want.to, want.columns);
    expect(fitsWell(have, window, 1000, whole)).toBe(true);
    expect(fitsWell(have, range(440_000_000, 540_000_000), 1000, whole)).toBe(true);
    expect(fitsWell(have, range(480_000_000, 580_000_000), 1000, whole)).toBe(false);
    expect(fits(have, range(480_000_000, 580_000_000), 1000, whole)).toBe(true);
    expect(fits(have, range(440_000_000, 460_000_000), 1000, whole)).toBe(false);
    expect(fits(undefined, window, 1000, whole)).toBe(false);
  });

  test("need no margin for the whole trace", () => {
    const want = withMargin(whole, 1000, whole);
    expect(want).toMatchObject({ from: 0, to: 1_000_000_000, columns: 1000 });
    expect(fitsWell(view(want.from, want.to, want.columns), whole, 1000, whole)).toBe(true);
  });

  test("are not repeated once answered, for many windows", () => {
    let seed = 1;
    const random = () => {
      seed = (seed * 48271) % 2147483647;
      return seed / 2147483647;
    };
    for (let n = 0; n < 500; n++) {
      const length = 10 ** (3 + random() * 6);
      const from = random() * (1e9 - length);
      const [window, width] = [range(from, from + length), 300 + Math.floor(random() * 3500)];
      const want = withMargin(window, width, whole);
      // The server works in whole nanoseconds.
      const have = view(Math.floor(want.from), Math.ceil(want.to), want.columns);
      expect(
        nextRequest(new Map([["c0", have]]), ["c0"], window, width, whole),
        `${from} ${length} ${width}`,
      ).toBeNull();
    }
  });

  test("are for the lanes that lack data only", () => {
    const window = range(400_000_000, 500_000_000);
    const want = withMargin(window, 1000, whole);
    const have = new Map([["c0", view(want.from, want.to, want.columns)]]);
    expect(nextRequest(have, ["c0", "t1"], window, 1000, whole)?.lanes).toEqual(["t1"]);
    expect(nextRequest(have, ["c0"], window, 1000, whole)).toBeNull();
  });

  test("are cancelled once their answer would be useless", () => {
    const asked = { ...withMargin(range(400_000_000, 500_000_000), 1000, whole), lanes: [] };
    expect(stillUseful(asked, range(420_000_000, 500_000_000), 1000)).toBe(true);
    expect(stillUseful(asked, range(450_000_000, 452_000_000), 1000)).toBe(false);
    expect(stillUseful(asked, range(800_000_000, 900_000_000), 1000)).toBe(false);
  });

  test("drop lanes far from the screen if there are too many", () => {
    const have = new Map(Array.from({ length: 20 }, (_, n) => [`t${n}`, view(0, 1, 1)]));
    forget(have, new Set(["t0", "t19"]), 10);
    expect(have.size).toBe(10);
    expect(have.has("t0") && have.has("t19")).toBe(true);
  });

  test("put lanes on the screen first, with their samples", () => {
    const { rows } = layout(lanesOf(4, [[1, 30]]), null, new Map(), COMFORTABLE);
    const lanes = nearLanes(rows, 0, 100, new Set(["c1"]));
    expect(lanes.slice(0, 3)).toEqual(["c0", "c1", "sc1"]);
    expect(lanes.length).toBeLessThan(15);
  });
});
