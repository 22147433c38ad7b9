/**
 * Every item of every menu, in every place that has one: it does something that can be seen (in the
 * address, in a message, on the page), and nothing complains. What menus say of a thread is one list:
 * each of its items is tried in the first place that has it.
 */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { axeFindings } from "./axe";
import { STARVE, settled, shownWindow, skipReason, TestBed } from "./harness";
import { arrow, PLACES, row, SLICE, secondary, THREAD } from "./menuPlaces";

/** What may be so already: the open stall, the whole trace, the order of the lanes. */
const MAY_BE_SO =
  /^(Open it|Select its time range|Show the whole trace|Sort the lanes by relevance)$/;

describe.skipIf(skipReason("menus") !== null)("menus", () => {
  let bed: TestBed;
  let page: Page;
  /** The address of the open trace. */
  let opened: string;
  const tried = new Set<string>();

  const ready = async () => {
    await page.waitForSelector("[data-ready=true]");
    await settled(page);
  };
  const show = async (query: string) => {
    page = await bed.page(query);
    await ready();
  };

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
    await show("trace=starve.hitch");
    await page.waitForSelector("[data-answer='1']");
    opened = new URL(page.url()).search;
    await page.context().close();
  });
  afterAll(() => bed?.stop());
  afterEach(({ task }) => bed.end(page, `menus ${task.name}`, task));

  const state = () =>
    page.evaluate(() => `${location.href}\n${document.querySelector("main")?.innerText}`);

  test("a copied arrow says who woke whom, in words, and has the waker's stack", async () => {
    await show(opened);
    const copied = async (item: string, notice: string) => {
      await arrow(page);
      await page.getByRole("menuitem", { name: item }).click();
      await page.getByText(notice).first().waitFor({ state: "attached" });
      return page.evaluate(() => navigator.clipboard.readText());
    };
    expect(await copied("Copy the wake-up", "Copied the wake-up.")).toMatch(
      /^\d\.\d[\d ]* s: inspector \d+ .*woke typing \d+ .*\(task; direct evidence\)$/,
    );
    const stack = await copied("Copy the waker's stack", "Copied the stack.");
    const shown = await shownWindow(page);
    await arrow(page);
    await page.getByRole("menuitem", { name: "Show the waker's stack" }).click();
    const frames = page.locator(".details[data-event^=waking] .frame");
    await frames.first().waitFor();
    expect(stack.split("\n").length).toBe(await frames.count());
    expect(stack.startsWith(await frames.first().innerText())).toBe(true);
    expect(await shownWindow(page)).toEqual(shown);
  });

  test("who is named in the answer, in the details or by a chip has the menu of a lane", async () => {
    await show(opened);
    const has = async (where: string, title: string) => {
      await secondary(where)(page);
      const item = page.getByRole("menuitem", { name: title });
      await item.waitFor();
      return item;
    };
    await has(".story .text-link", "Only this thread, in all views");
    await page.keyboard.press("Escape");
    await page.locator(".chain .text-link").last().click();
    await has(".details dd .text-link", "Pin its lane");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await row(".tl-tree [data-section^=p]", null)(page);
    await page.getByRole("menuitem", { name: "Only this process, in all views" }).click();
    await has("[data-chip=process]", "Show on the timeline");
    await page.keyboard.press("Escape");
    await (await has("[data-chip=process]", "Without this process")).click();
    // From the answer, it leads to the table.
    await page.waitForURL(/view=tables.*where=pid/);
    await settled(page);
  });

  test("a thread of a table is shown on the timeline, though that, or its lane, was hidden", async () => {
    await show("trace=starve.hitch");
    const { lane, tid } = await page.evaluate(async () => {
      const { processes } = await (await fetch("/api/t/starve.hitch/lanes")).json();
      return processes.at(-1).threads.at(-1) as { lane: string; tid: number };
    });
    const where = encodeURIComponent(`tid = ${tid}`);
    const query = `view=tables&table=switches&by=thread&where=${where}&hide=${lane}&layout=view`;
    await page.goto(new URL(`/?trace=starve.hitch&${query}`, bed.address).href);
    await ready();
    expect(await page.locator(".timeline").count()).toBe(0);
    await secondary(".grid-row .cell")(page);
    await page.getByRole("menuitem", { name: "Show on the timeline" }).click();
    await page.locator(`.tl-tree [data-lane=${lane}]`).waitFor({ state: "attached" });
    await settled(page);
    const { top, from, room } = await page.evaluate((lane) => {
      const timeline = document.querySelector(".timeline") as HTMLElement;
      const row = timeline.querySelector(`[data-lane=${lane}]`) as HTMLElement;
      const height = (timeline.querySelector(".tl-over") as HTMLElement).clientHeight;
      const { scroll, head } = timeline.dataset;
      return {
        top: Number(row.dataset.top),
        from: Number(scroll),
        room: height - Number(head),
      };
    }, lane);
    expect(top).toBeGreaterThanOrEqual(room);
    expect(top).toBeGreaterThanOrEqual(from);
    expect(top).toBeLessThan(from + room);
  });

  test("the lane of a process of one thread is pinned by the menu of the process", async () => {
    page = await bed.page();
    // A process whose first thread is not recorded has a header, although it has one lane.
    await page.route("**/api/t/starve.hitch/lanes*", async (route) => {
      const answer = await route.fetch();
      const lanes = (await answer.json()) as {
        processes: { pid: number; threads: { tid: number }[] }[];
      };
      for (const process of lanes.processes)
        process.threads = process.threads.filter(
          ({ tid }) => process.pid !== 29964 || tid !== process.pid,
        );
      await route.fulfill({ response: answer, json: lanes });
    });
    await page.goto(new URL("/?trace=starve.hitch", bed.address).href);
    await ready();
    const pins = () => new URL(page.url()).searchParams.get("pins");
    for (const [title, after] of [
      ["Pin its lane", "t82"],
      ["Unpin its lane", null],
    ] as const) {
      await row(".tl-tree [data-section=p65]", null)(page);
      await page.getByRole("menuitem", { name: title, exact: true }).click();
      await expect.poll(pins).toBe(after);
      await settled(page);
    }
  });

  test("a thread or process of no known id is not left out by a filter: the page says so", async () => {
    page = await bed.page();
    await page.route("**/api/t/starve.hitch/**", async (route) => {
      const answer = await route.fetch();
      // As the server writes ids that were not recorded.
      const body = (await answer.text()).replace(/"(tid|pid)":\d+/g, '"$1":-1');
      await route.fulfill({ response: answer, body });
    });
    await page.goto(new URL(`/${opened}`, bed.address).href);
    await ready();
    await row(".tl-tree [data-section^=p]", null)(page);
    await page.getByRole("menuitem", { name: "Without this process" }).click();
    await page.getByText("The pid of this process is not known").first().waitFor();
    await row(SLICE, null)(page);
    await page.getByRole("menuitem", { name: "Without this thread" }).click();
    await page.getByText("The tid of this thread is not known").first().waitFor();
    expect(new URL(page.url()).searchParams.has("where")).toBe(false);
  });

  for (const place of PLACES)
    test(place.name, async () => {
      const query = new URLSearchParams(place.query === null ? "" : opened);
      for (const [name, value] of new URLSearchParams(place.query ?? "")) query.set(name, value);
      await show(query.toString());
      const shown = await state();
      const address = page.url();
      const menu = page.getByRole("menu");
      /** Leads back by the address, which costs half as much as a new page, if that is all it takes. */
      const comeBack = async () => {
        await page.keyboard.press("Escape");
        await page.evaluate((to) => {
          history.replaceState(null, "", to);
          dispatchEvent(new PopStateEvent("popstate"));
          // The timeline follows at the next frame.
          return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
        }, address);
        await settled(page);
        const left = page.locator(".toast, dialog[open], [role=menu]");
        return (await left.count()) === 0 && (await state()) === shown;
      };
      const open = async () => {
        if (!(await comeBack())) {
          await page.goto(address);
          await ready();
        }
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
      // Some of them in the light theme, too: `surfaces.e2e.ts`.
      expect(await axeFindings(page)).toEqual([]);
      for (const title of titles) {
        if (THREAD.includes(title) && tried.has(title)) continue;
        tried.add(title);
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
                document.querySelector("[role=menu], dialog[open]") !== null ||
                `${location.href}\n${main?.innerText}` !== was
              );
            },
            before,
            { timeout: MAY_BE_SO.test(title) ? 1_000 : 10_000 },
          )
          .catch(() => expect(title).toMatch(MAY_BE_SO));
        await page.keyboard.press("Escape");
        await settled(page);
        expect(await page.locator(".error-box").count(), title).toBe(0);
      }
    }, 600_000);
});
