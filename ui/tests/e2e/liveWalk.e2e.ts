/**
 * A walk through all views with ten real recordings, made now: every view settles without an error on
 * the console, and axe finds nothing.
 */
import { expect, test } from "vitest";
import { LIVE, recordLive } from "./live";
import { walks } from "./walk";

walks("live walk", {
  fill: recordLive,
  recordings: LIVE,
  isLookedAt: () => true,
  more: (_, has) => {
    test("ten recordings are real", ({ skip }) => {
      const made = LIVE.filter(has);
      // Nobody may record here, which `recordLive` has said.
      if (made.length === 0) skip();
      expect(made).toEqual(LIVE);
      expect(LIVE.length).toBeGreaterThanOrEqual(10);
    });
  },
});
