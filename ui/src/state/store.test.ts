import { beforeEach, describe, expect, it } from "vitest";
import { range, stallId, threadIx } from "../units";
import * as store from "./store";

describe("the current link of the wait chain", () => {
  beforeEach(() => {
    store.clearSelection();
    store.stall.value = null;
  });

  it("is of the explained selection, and not of the next one", () => {
    for (const change of [{ range: range(3, 4) }, { threads: [threadIx(5)] }]) {
      store.select({ range: range(1, 2), threads: [threadIx(4)] });
      store.chainLink.value = 2;
      store.select(change);
      expect(store.chainLink.value).toBeNull();
    }
  });

  it("stays when a filter of the same selection changes", () => {
    store.select({ range: range(1, 2), threads: [threadIx(4)] });
    store.chainLink.value = 2;
    store.select({ stack: "futex_wait" });
    expect(store.chainLink.value).toBe(2);
  });

  it("is of the open stall, whatever is selected", () => {
    store.stall.value = stallId(3);
    store.chainLink.value = 2;
    store.select({ range: range(3, 4), threads: [threadIx(5)] });
    expect(store.chainLink.value).toBe(2);
  });
});
