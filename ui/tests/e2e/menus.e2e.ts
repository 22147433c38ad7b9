/**
 * Every item of every menu, in every place that has one: it does something that can be seen (in the
 * address, in a message, on the page), and nothing complains.
 */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { lanePoint, STARVE, settled, skipReason, TestBed } from "./harness";

interface Place {
  readonly name: string;
  /** Added to the address of the open trace. */
  readonly query: string;
  /** Opens the menu. */
  readonly open: (page: Page) => Promise<void>;
  /** Items that must be there. */
  readonly items: readonly (string | RegExp)[];
}

const secondary = (selector: string) => async (page: Page) => {
  await page.locator(selector).first().click({ button: "right" });
};

/** Right-clicks a row of the timeline: its name, or its slice at a share of the plot. */
const row = (selector: string, share: number | null) => async (page: Page) => {
  const { x, y } = await lanePoint(page, selector, share);
  await page.mouse.click(x, y, { button: "right" });
};

const THREAD = [
  "Only this thread, in all views",
  "Pin the lane",
  "Hide the lane",
  "Flame graph of its waits",
  "Flame graph of its samples",
  "Table of its waits",
];
const FUNCTION = [
  "Callers and callees (butterfly)",
  "Filter all views by this function",
  "Highlight it everywhere",
  "Copy the name",
];

const PLACES: readonly Place[] = [
  {
    name: "a stall of the list",
    query: "",
    open: secondary("[data-stall-row]"),
    items: ["Open it", "Select its time range", "Explain this", ...THREAD, "Copy the line"],
  },
  {
    name: "a part of the partition",
    query: "",
    open: secondary(".parts tr"),
    items: ["Explain this", ...THREAD, "Copy the line"],
  },
  {
    name: "a slice of a lane",
    query: "",
    open: row(".tl-tree [data-in^=p][data-lane^=t]", 0.5),
    items: ["Explain this", ...THREAD, "Zoom to it", "Functions of this wait …"],
  },
  {
    name: "a lane's name",
    query: "",
    open: row(".tl-tree [data-in^=p][data-lane^=t]", null),
    items: THREAD,
  },
  {
    name: "a process",
    query: "",
    open: row(".tl-tree [data-section^=p]", null),
    items: ["Only this process, in all views", "Hide the process", "Table of its waits"],
  },
  {
    name: "a group of threads of a table",
    query: "view=tables&by=process",
    open: secondary(".grid-row .cell"),
    items: [/^Only /, /^Without /, "Over time, only this", "Only this process, in all views"],
  },
  {
    name: "a group of one thread of a table",
    query: "view=tables&by=process,thread,pid,tid&where=thread = typing",
    open: secondary(".grid-row .cell"),
    items: ["Explain this", ...THREAD],
  },
  {
    name: "a frame of the flame graph",
    query: "view=stacks&form=icicle",
    open: async (page) => {
      const box = await page.locator(".flame canvas").boundingBox();
      if (!box) throw new Error("no flame graph");
      await page.mouse.click(box.x + 30, box.y + 18 * 1.5, { button: "right" });
    },
    items: ["Zoom to this frame", ...FUNCTION, "Copy the stack"],
  },
  {
    name: "a function of the butterfly",
    query: "view=stacks&form=butterfly",
    open: secondary(".ranked [data-function]"),
    items: FUNCTION,
  },
];

describe.skipIf(skipReason("menus") !== null)("menus", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
  });
  afterAll(() => bed?.stop());
  beforeEach(async () => {
    page = await bed.page("trace=starve.hitch");
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
  });
  afterEach(async ({ task }) => {
    await bed.screenshot(page, `menus ${task.name}`);
    await page.context().close();
    bed.expectNoComplaints();
  });

  const state = () =>
    page.evaluate(
      () => location.href + (document.querySelector("main") as HTMLElement | null)?.innerText,
    );

  for (const place of PLACES)
    test(place.name, async () => {
      const address = new URL(page.url());
      for (const [name, value] of new URLSearchParams(place.query))
        address.searchParams.set(name, value);
      const menu = page.getByRole("menu");
      const open = async () => {
        await page.goto(address.href);
        await page.waitForSelector("[data-ready=true]");
        await settled(page);
        await place.open(page);
        await menu.waitFor();
        return menu.getByRole("menuitem").locator("span:first-child").allInnerTexts();
      };
      const titles = await open();
      for (const item of place.items)
        expect(
          titles.some((title) => (typeof item === "string" ? title === item : item.test(title))),
          String(item),
        ).toBe(true);
      expect(new Set(titles).size, "titles are told apart").toBe(titles.length);
      for (const title of titles) {
        expect(await open()).toEqual(titles);
        const item = menu.getByRole("menuitem").nth(titles.indexOf(title));
        if ((await item.getAttribute("aria-disabled")) === "true") continue;
        const before = await state();
        await item.click();
        // It is seen in the address, on the page, in a message, or in a menu that follows.
        await page
          .waitForFunction(
            (was) => {
              const main = document.querySelector("main");
              const toast = document.querySelector(".toast")?.textContent ?? "";
              return (
                toast !== "" ||
                document.querySelector("[role=menu]") !== null ||
                location.href + main?.innerText !== was
              );
            },
            before,
            { timeout: 10_000 },
          )
          .catch(() => {
            // What is so already: the open stall, the whole trace, the order of the lanes.
            expect(title).toMatch(
              /^(Open it|Select its time range|Show the whole trace|Sort the lanes by relevance)$/,
            );
          });
        await page.keyboard.press("Escape");
        await settled(page);
        expect(await page.locator(".error-box").count(), title).toBe(0);
      }
    }, 600_000);
});
