import { describe, expect, test } from "vitest";
import { encode } from "../../../tests/fixtures/views";
import { DecodeError, decode, laneId } from "./decode";

const bytes = encode(-5, 995, 100, [
  { kind: 0, number: 3, slices: [[0, 40, 1, 7]], cells: [[10, 1, 200, 9]] },
  {
    kind: 1,
    number: 12,
    slices: [
      [-50, 20, 3],
      [20, 90, 2],
    ],
    cells: [],
  },
  {
    kind: 3,
    number: 12,
    slices: [],
    cells: [
      [2, 1, 255],
      [3, 1, 1],
    ],
  },
]);

describe("the binary view", () => {
  test("is decoded lane by lane, in place", () => {
    const [cpu, thread, samples] = decode(bytes);
    expect([cpu?.lane, thread?.lane, samples?.lane]).toEqual(["c3", "t12", "st12"]);
    expect(cpu?.columnNs).toBe(10);
    expect([...(thread?.start ?? [])]).toEqual([-50, 20]);
    expect([...(thread?.state ?? [])]).toEqual([3, 2]);
    expect([...(thread?.event ?? [])]).toEqual([101, 102]);
    expect(thread?.start.buffer).toBe(bytes);
    expect([...(samples?.cellColumn ?? [])]).toEqual([2, 3]);
    expect([...(samples?.cellCover ?? [])]).toEqual([255, 1]);
    expect([...(cpu?.cellThread ?? [])]).toEqual([9]);
  });

  test("a truncated answer is rejected, and never read beyond its end", () => {
    for (let length = 0; length < bytes.byteLength; length++) {
      expect(() => decode(bytes.slice(0, length))).toThrow(DecodeError);
    }
  });

  test("any flipped bit is rejected or decoded within bounds", () => {
    for (let bit = 0; bit < bytes.byteLength * 8; bit++) {
      const flipped = new Uint8Array(bytes.slice(0));
      flipped[bit >> 3]! ^= 1 << (bit & 7);
      try {
        for (const lane of decode(flipped.buffer)) expect(lane.start.length).toBeLessThanOrEqual(3);
      } catch (error) {
        expect(error).toBeInstanceOf(DecodeError);
      }
    }
  });

  test("lanes have the server's ids", () => {
    expect([
      laneId("cpu", 0),
      laneId("thread", 5),
      laneId("cpu-samples", 1),
      laneId("thread-samples", 2),
    ]).toEqual(["c0", "t5", "sc1", "st2"]);
  });
});
