/** The timeline by touchpad and touch screen. */
import type { CDPSession, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  lanePoint,
  STARVE,
  settled,
  shownWindow,
  skipReason,
  TestBed,
  windowChanges,
} from "./harness";

interface Finger {
  readonly id: number;
  readonly x: number;
  readonly y: number;
}

/** The time at a share of the plot's width. */
const timeAt = ({ from, to }: { from: number; to: number }, share: number) =>
  from + share * (to - from);

describe.skipIf(skipReason("touch") !== null)("touch", () => {
  let bed: TestBed;
  let page: Page;
  let cdp: CDPSession;

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
    page = await bed.page("trace=starve.hitch", { hasTouch: true });
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    cdp = await page.context().newCDPSession(page);
  });
  afterAll(() => bed?.stop());
  afterEach(async ({ task }) => {
    await bed.screenshot(page, `touch ${task.name}`, task);
    bed.expectNoComplaints();
  });

  const LANE = ".tl-tree [data-in^=p][data-lane^=t]";
  const touch = async (type: "touchStart" | "touchMove" | "touchEnd", ...fingers: Finger[]) => {
    await cdp.send("Input.dispatchTouchEvent", { type, touchPoints: fingers });
  };

  test("the pinch of a touchpad zooms at the pointer", async () => {
    const { x, y } = await lanePoint(page, LANE, 0.25);
    // A wheel with Ctrl, though no key is pressed.
    const wheel = { type: "mouseWheel", x, y, deltaX: 0, deltaY: -120, modifiers: 2 } as const;
    const { before, after } = await windowChanges(page, () =>
      cdp.send("Input.dispatchMouseEvent", wheel),
    );
    const length = after.to - after.from;
    expect(length).toBeLessThan(0.95 * (before.to - before.from));
    expect(Math.abs(timeAt(after, 0.25) - timeAt(before, 0.25))).toBeLessThan(length / 200);
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
  });

  test("two fingers zoom about their middle and pan with it; one goes on to pan", async () => {
    const [a, b] = [
      { id: 1, ...(await lanePoint(page, LANE, 0.4)) },
      { id: 2, ...(await lanePoint(page, LANE, 0.6)) },
    ];
    const step = (b.x - a.x) / 2;
    const right = (finger: Finger, steps: number) => ({ ...finger, x: finger.x + steps * step });
    await touch("touchStart", a);
    await touch("touchStart", a, b);
    // Twice as far apart, and to the right by a step, a tenth of the plot.
    const { before } = await windowChanges(page, () =>
      touch("touchMove", right(a, -0.5), right(b, 0.5)),
    );
    const { after } = await windowChanges(page, () => touch("touchMove", a, right(b, 2)));
    const length = after.to - after.from;
    expect(Math.abs((2 * length) / (before.to - before.from) - 1)).toBeLessThan(0.02);
    expect(Math.abs(timeAt(after, 0.6) - timeAt(before, 0.5))).toBeLessThan(length / 50);
    await touch("touchEnd", a);
    expect(await shownWindow(page)).toEqual(after);
    const panned = await windowChanges(page, () => touch("touchMove", right(b, 1)));
    expect(Math.abs(panned.after.from - timeAt(after, 0.1))).toBeLessThan(length / 50);
    expect(Math.abs(panned.after.to - timeAt(after, 1.1))).toBeLessThan(length / 50);
    await touch("touchEnd");
    // None of them was a click.
    await settled(page);
    expect(await page.locator(".tl-tip").count()).toBe(0);
  });
});
