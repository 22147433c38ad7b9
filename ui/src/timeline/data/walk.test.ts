import { describe, expect, test } from "vitest";
import type { Slice } from "./protocol";
import { stepLink, wakerOf } from "./walk";

describe("walking", () => {
  const chain = [{ from: 0 }, { from: 1 }, { from: 2 }] as never;

  test("starts at an end of the chain and stays within it", () => {
    expect(stepLink(chain, null, -1)).toBe(2);
    expect(stepLink(chain, null, 1)).toBe(0);
    expect(stepLink(chain, 2, -1)).toBe(1);
    expect(stepLink(chain, 0, -1)).toBe(0);
    expect(stepLink(chain, 2, 1)).toBe(2);
    expect(stepLink([], null, 1)).toBeNull();
  });

  test("goes from a wait to its waker, unless that is idle or unknown", () => {
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
