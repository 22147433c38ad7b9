/** Each action of a user is one entry of the browser's history: one Back returns to before it. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { expectZoomed, lanePoint, STARVE, settled, skipReason, TestBed } from "./harness";

describe.skipIf(skipReason("history") !== null)("history", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start((folder) => {
      for (const name of ["one.hitch", "two.hitch"]) cpSync(STARVE, join(folder, name));
    });
  });
  afterAll(() => bed?.stop());
  beforeEach(async () => {
    page = await bed.page("trace=one.hitch");
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
  });
  afterEach(({ task }) => bed.end(page, `history ${task.name}`, task));

  const button = (name: string | RegExp) => page.getByRole("button", { name }).first();
  const entries = () => page.evaluate(() => history.length);
  const via = async (key: string) => {
    const before = page.url();
    await page.keyboard.press(key);
    await page.waitForFunction((was) => location.href !== was, before);
    await settled(page);
  };
  const inOverview = async (from: number, to = from) => {
    const box = await page.locator("#overview-picture").boundingBox();
    if (!box) throw new Error("no overview");
    const y = box.y + box.height - 20;
    return [from, to].map((share) => ({ x: box.x + box.width * share, y }));
  };
  const functionsOfWait = async () => {
    const { x, y } = await lanePoint(page, "[data-in=chain][data-lane^=t]", 0.5);
    await page.mouse.click(x, y, { button: "right" });
    await page.getByRole("menuitem", { name: "Functions of this wait" }).click();
  };
  /** The action changes the address by one entry, and Back undoes it. */
  const isOneEntry = async (act: () => Promise<unknown>) => {
    const [before, length] = [page.url(), await entries()];
    await act();
    await page.waitForFunction((was) => location.href !== was, before);
    await settled(page);
    expect(await entries()).toBe(length + 1);
    await page.goBack();
    await page.waitForFunction((url) => location.href === url, before);
    await settled(page);
  };

  const actions: Readonly<Record<string, () => Promise<void>>> = {
    "a drag in the overview": async () => {
      const [from, to] = await inOverview(0.1, 0.2);
      await isOneEntry(async () => {
        if (!from || !to) return;
        await page.mouse.move(from.x, from.y);
        await page.mouse.down();
        await page.mouse.move(to.x, to.y, { steps: 4 });
        await page.mouse.up();
      });
    },
    "a double-click in the overview": async () => {
      const [at] = await inOverview(0.1);
      await isOneEntry(async () => at && page.mouse.dblclick(at.x, at.y));
    },
    "a stall's bar, from another view": async () => {
      await via("Digit2");
      // So that more than the view changes: changes of the same in quick succession are one entry.
      await via("Shift+KeyF");
      await isOneEntry(() => page.locator("[data-stall='1']").click());
    },
    "‹ earlier": async () => {
      await via("Shift+KeyF");
      await isOneEntry(() => button("‹ earlier").click());
    },
    "later ›": async () => {
      await via("Shift+KeyF");
      await isOneEntry(() => button("later ›").click());
    },
    "[": async () => {
      await via("Shift+KeyF");
      await isOneEntry(() => page.keyboard.press("BracketLeft"));
    },
    "]": async () => {
      await via("Shift+KeyF");
      await isOneEntry(() => page.keyboard.press("BracketRight"));
    },
    "a click on a link of the chain": async () => {
      await via("KeyW");
      const { x, y } = await lanePoint(page, "[data-in=chain][data-lane^=t]", 0.5);
      await isOneEntry(() => page.mouse.click(x, y));
    },
    "a double-click on a link of the chain": async () => {
      await via("KeyW");
      const { x, y } = await lanePoint(page, "[data-in=chain][data-lane^=t]", 0.5);
      await isOneEntry(() => page.mouse.dblclick(x, y));
    },
    "callers and callees, from the timeline": async () => {
      await functionsOfWait();
      await isOneEntry(() =>
        page
          .getByRole("menuitem", { name: /^Callers and callees/ })
          .first()
          .click(),
      );
    },
    "by address, from a sentence of the answer": async () => {
      await page.route("**/stall/1", async (route) => {
        const response = await route.fetch();
        const answer = (await response.json()) as { clauses: { links: object[] }[] };
        for (const { links } of answer.clauses)
          for (const link of links) Object.assign(link, { instructions_of: "count_pages" });
        await route.fulfill({ response, json: answer });
      });
      await page.reload();
      const link = page.locator("[title='Show the samples by instruction']").first();
      await link.waitFor();
      await settled(page);
      await isOneEntry(() => link.click());
    },
    "all stalls as a table": async () => {
      await page.route("**/stalls", async (route) => {
        const response = await route.fetch();
        const list = (await response.json()) as { stalls: object[] };
        const stalls = Array.from({ length: 201 }, (_, i) => ({ ...list.stalls[0], id: i + 1 }));
        await route.fulfill({ response, json: { ...list, stalls } });
      });
      await page.reload();
      await button(/^All 201 stalls/).waitFor();
      await settled(page);
      await isOneEntry(() => button(/^All 201 stalls/).click());
    },
    "a function that was searched for": async () => {
      await page.keyboard.press("Slash");
      await page.keyboard.type("worker_thread");
      await page.getByRole("option").first().waitFor();
      await settled(page);
      await isOneEntry(() => page.keyboard.press("Enter"));
    },
    "a trace of a comparison": async () => {
      await page.goto(new URL("/?before=one.hitch&after=two.hitch", bed.address).href);
      await settled(page);
      await isOneEntry(async () => {
        await button("two.hitch").click();
        await page.waitForSelector("[data-answer='1']");
        await expectZoomed(page);
      });
    },
  };

  for (const [name, run] of Object.entries(actions)) test(name, run);
});
