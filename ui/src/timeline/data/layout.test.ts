import { describe, expect, test } from "vitest";
import { lanesOf } from "../../../tests/fixtures/views";
import type { StallAnswer } from "../../api/types";
import {
  CHAIN,
  COMFORTABLE,
  COMPACT,
  CPUS,
  inPlace,
  type Layout,
  layout,
  openByDefault,
  rowAt,
  rowOfLane,
  rowsBetween,
  scrollTo,
} from "./layout";

const closed = (...keys: string[]) => new Map(keys.map((key) => [key, false]));

const chain = {
  lanes: [
    {
      lane: "t2",
      who: {
        thread: 2,
        tid: 1002,
        pid: 100,
        process_id: 1,
        name: "worker",
        process: "program1",
      },
      role: "victim",
      depth: 0,
    },
    {
      lane: "t1",
      who: {
        thread: 1,
        tid: 1001,
        pid: 100,
        process_id: 1,
        name: "worker",
        process: "program1",
      },
      role: "culprit",
      depth: 1,
    },
  ],
} as unknown as StallAnswer;

describe("rows", () => {
  const lanes = lanesOf(2, [
    [1, 3],
    [2, 2],
  ]);

  test("the chain is on top, then the CPUs, then the processes in the server's order", () => {
    const { rows } = layout(lanes, chain, new Map(), COMFORTABLE);
    expect(rows.map((r) => r.key)).toEqual([
      "chain",
      "chain/t2",
      "chain/t1",
      "cpus",
      "cpus/c0",
      "cpus/c1",
      "p1",
      "p1/t1",
      "p1/t2",
      "p1/t3",
      "p2",
      "p2/t4",
      "p2/t5",
    ]);
    expect(rows[1]).toMatchObject({
      depth: 0,
      height: COMFORTABLE.chain,
      lane: { role: "victim" },
    });
  });

  test("what is below the chain keeps its place, by scrolling or by a gap", () => {
    const rowOf = (of: Layout) => of.rows[of.rows.findIndex((row) => row.key === "p1/t3")];
    const placed = (chainLanes: typeof chain | null, gap = 0) =>
      layout(lanes, chainLanes, new Map(), COMFORTABLE, null, undefined, gap);
    const [long, none] = [placed(chain), placed(null)];
    expect(long.chain).toBe(COMFORTABLE.header + 2 * COMFORTABLE.chain);
    expect(none.chain).toBe(0);
    for (const scroll of [0, 50, 500]) {
      const seen = (rowOf(long)?.top ?? 0) - scroll;
      const next = inPlace(scroll, none.chain - long.chain);
      expect(next.scroll).toBe(Math.max(0, scroll - long.chain));
      const after = placed(null, next.gap);
      expect((rowOf(after)?.top ?? 0) - next.scroll).toBe(seen);
      expect(after.height - none.height).toBe(next.gap);
      // And back, where the gap is no longer needed.
      expect(inPlace(next.scroll, long.chain - none.chain - next.gap)).toEqual({ scroll, gap: 0 });
    }
  });

  test("rows follow each other without gaps, and the height is their sum", () => {
    const { rows, height } = layout(lanes, chain, closed(CPUS), COMPACT);
    let top = 0;
    for (const row of rows) {
      expect(row.top).toBe(top);
      top += row.height;
    }
    expect(height).toBe(top);
  });

  test("a closed section is only its header, which has the number of its lanes", () => {
    const { rows } = layout(lanes, chain, closed("p1", CHAIN), COMFORTABLE);
    expect(rows.map((r) => r.key)).toEqual([
      "chain",
      "cpus",
      "cpus/c0",
      "cpus/c1",
      "p1",
      "p2",
      "p2/t4",
      "p2/t5",
    ]);
    expect(rows[4]).toMatchObject({ open: false, lanes: 3 });
  });

  test("a process with one thread is one row, without a header", () => {
    const alone = lanesOf(1, [[1, 1]]);
    const thread = alone.processes[0]?.threads[0];
    if (thread) thread.tid = 100;
    expect(layout(alone, null, new Map(), COMFORTABLE).rows.map((r) => r.key)).toEqual([
      "cpus",
      "cpus/c0",
      "p1/t1",
    ]);
  });

  test("of a very long chain, the first lanes and the current link's are drawn", () => {
    const who = chain.lanes[0]?.who;
    const long = {
      lanes: Array.from({ length: 300 }, (_, n) => ({
        lane: `t${n + 1}`,
        who,
        role: "hop",
        depth: 1,
      })),
    } as unknown as StallAnswer;
    const { rows } = layout(lanes, long, new Map(), COMFORTABLE, "t200");
    const drawn = rows.filter((r) => r.kind === "lane" && r.depth !== null);
    expect(drawn.length).toBe(31);
    expect(drawn.at(-1)?.key).toBe("chain/t200");
    expect(rows[0]).toMatchObject({ name: "Wait chain, 31 of", lanes: 300 });
  });

  test("a section opened by the user stays open when the order changes", () => {
    const many = lanesOf(1, [
      [1, 80],
      [2, 30],
    ]);
    const turned = { ...many, processes: [...many.processes].reverse() };
    for (const some of [many, turned]) {
      const headers = layout(some, null, new Map([["p2", true]]), COMFORTABLE).rows.filter(
        (r) => r.kind === "header",
      );
      expect(headers.find((r) => r.key === "p2")).toMatchObject({ open: true });
    }
  });

  test("not all of many threads are open by default, but the most relevant process is", () => {
    const many = lanesOf(64, [
      [1, 500],
      [2, 20],
      [3, 300],
      [4, 30],
    ]);
    const open = openByDefault(many);
    expect(open.has("p1")).toBe(true);
    expect(open.has("p3")).toBe(false);
    expect(open.has(CPUS)).toBe(false);
  });

  test("finds the row at a height, and the rows on a screen", () => {
    const { rows, height } = layout(lanes, null, new Map(), COMFORTABLE);
    expect(rowAt(rows, 0)).toBe(0);
    expect(rowAt(rows, COMFORTABLE.header)).toBe(1);
    expect(rowAt(rows, height)).toBe(-1);
    expect(rowAt(rows, -1)).toBe(-1);
    expect(rowsBetween(rows, 30, 50).map((r) => r.key)).toEqual(["cpus/c0", "cpus/c1"]);
    expect(rowsBetween([], 0, 100)).toEqual([]);
  });

  test("scrolls no more than needed", () => {
    expect(scrollTo({ top: 100, height: 20 }, 50, 100)).toBe(50);
    expect(scrollTo({ top: 10, height: 20 }, 50, 100)).toBe(10);
    expect(scrollTo({ top: 200, height: 20 }, 50, 100)).toBe(120);
  });

  test("finds a lane in the chain before its process", () => {
    const { rows } = layout(lanes, chain, new Map(), COMFORTABLE);
    expect(rows[rowOfLane(rows, "t1")]?.key).toBe("chain/t1");
    expect(rowOfLane(rows, "t99")).toBe(-1);
  });
});
