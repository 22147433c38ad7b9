/**
 * Every item of every menu, in every place that has one: it does something that can be seen (in the
 * address, in a message, on the page), and nothing complains. What menus say of a thread is one list:
 * each of its items is tried in the first place that has it.
 */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { lanePoint, STARVE, settled, shownWindow, skipReason, TestBed } from "./harness";

interface Place {
  readonly name: string;
  /** Added to the address of the open trace; null for the folder. */
  readonly query: string | null;
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

/** Right-clicks the last arrow of the wait chain: halfway between its two lanes. */
const arrow = async (page: Page) => {
  const arrows = await page.evaluate(async () => {
    const answer = await (await fetch("/api/t/starve.hitch/stall/1")).json();
    return answer.arrows as { at: number; from_lane: string; to_lane: string }[];
  });
  const { at, from_lane, to_lane } = arrows.at(-1) as (typeof arrows)[number];
  const { from, to } = await shownWindow(page);
  const [a, b] = await Promise.all(
    [from_lane, to_lane].map((lane) =>
      lanePoint(page, `[data-in=chain][data-lane=${lane}]`, (at - from) / (to - from)),
    ),
  );
  if (!a || !b) throw new Error("no arrow");
  await page.mouse.click(a.x, (a.y + b.y) / 2 + 8, { button: "right" });
};

/** A menu that follows an item of another one. */
const following = (first: (page: Page) => Promise<void>, item: string) => async (page: Page) => {
  await first(page);
  await page.getByRole("menuitem", { name: item }).click();
  await page.getByRole("menuitem", { name: item }).waitFor({ state: "detached" });
};

const SLICE = ".tl-tree [data-in^=p][data-lane^=t]";

const THREAD = [
  "Only this thread, in all views",
  "Without this thread",
  "Pin the lane",
  "Hide the lane",
  "Flame graph of its waits",
  "Flame graph of its samples",
  "Table of its waits",
];
/** The same, where the menu is not on the timeline. */
const ELSEWHERE = ["Show on the timeline", ...THREAD];
const FUNCTION = [
  "Callers and callees (butterfly)",
  "Filter all views by this function",
  "Highlight it everywhere",
  "Copy the name",
];

/** What may be so already: the open stall, the whole trace, the order of the lanes. */
const MAY_BE_SO =
  /^(Open it|Select its time range|Show the whole trace|Sort the lanes by relevance)$/;

const PLACES: readonly Place[] = [
  {
    name: "a stall of the list",
    query: "",
    open: secondary("[data-stall-row]"),
    items: ["Open it", "Select its time range", "Explain this", ...ELSEWHERE, "Copy the line"],
  },
  {
    name: "a part of the partition",
    query: "",
    open: secondary(".parts tr"),
    items: ["Explain this", ...ELSEWHERE, "Copy the line"],
  },
  {
    name: "a slice of a lane",
    query: "",
    open: row(SLICE, 0.5),
    items: ["Explain this", ...THREAD, "Zoom to it", "Functions of this wait …"],
  },
  {
    name: "a lane's name",
    query: "",
    open: row(SLICE, null),
    items: THREAD,
  },
  {
    name: "the functions of a wait",
    query: "",
    open: following(row(SLICE, 0.5), "Functions of this wait …"),
    items: [/^Callers and callees of /, /^Waits without .*, as a table$/],
  },
  {
    name: "the tracks",
    query: "",
    open: following(row(SLICE, 0.5), "Tracks …"),
    items: ["Add CPU over time", "Add Run queue", "Add Pressure", "Add Disk bytes"],
  },
  {
    name: "a track",
    query: "tracks=queue-over-time",
    open: row("[data-in=tracks]", 0.5),
    items: ["Remove the track", "Show as a table"],
  },
  {
    name: "what ran on a CPU",
    query: "",
    open: row("[data-lane=c1]", 0.5),
    items: [...ELSEWHERE, "Zoom to it", "Sort the lanes by relevance"],
  },
  {
    name: "a CPU's name",
    query: "",
    open: row("[data-lane=c1]", null),
    items: ["Pin the lane", "Show the whole trace"],
  },
  {
    name: "an arrow of the wait chain",
    query: "",
    open: arrow,
    items: [
      "Show the wake-up and its waker",
      "Show the woken thread",
      "Explain the wait that it ended",
      "Show the waker's stack",
      "Copy the waker's stack",
      "Callers and callees of the waker's function",
      "Flame graph of what woke it",
      "Copy the wake-up",
    ],
  },
  {
    name: "a process",
    query: "",
    open: row(".tl-tree [data-section^=p]", null),
    items: [
      "Only this process, in all views",
      "Without this process",
      "Hide the process",
      "Table of its waits",
    ],
  },
  {
    name: "a group of threads of a table",
    query: "view=tables&by=process",
    open: secondary(".grid-row .cell"),
    items: [
      /^Only /,
      /^Without /,
      "Over time, only this",
      "Flame graph of this group",
      "Only this process, in all views",
      "Without this process",
    ],
  },
  {
    name: "a group of one thread of a table",
    query: "view=tables&by=process,thread,pid,tid&where=thread = typing",
    open: secondary(".grid-row .cell"),
    items: ["Explain this", ...ELSEWHERE, "Flame graph of this group"],
  },
  {
    name: "a single row of a table",
    query: "view=tables&by=none&show=thread,waited,reason",
    open: secondary(".grid-row .cell"),
    items: ["Explain this", ...ELSEWHERE],
  },
  {
    name: "a stack of a table",
    query: "view=tables&by=wait stack",
    open: secondary(".grid-row .cell.stack"),
    items: [
      "Show the whole stack",
      /^Callers and callees of /,
      /^Filter all views by /,
      "Flame graph of this group",
      "Over time, only this",
    ],
  },
  {
    name: "the head of a column of names",
    query: "view=tables&by=reason,process",
    open: secondary("[data-column=process] .head-button"),
    items: ["Sort ascending", "Stop grouping by this", "Tell those of one name apart"],
  },
  {
    name: "the head of a column of values",
    query: "view=tables&by=process&graph=sum:waited&show=count,max:waited",
    open: secondary("[data-column='max:waited'] .head-button"),
    items: ["Group by waited", "Draw above the table", "Show the avg", "Remove the column"],
  },
  {
    name: "a frame of the flame graph",
    query: "view=stacks&form=icicle",
    open: async (page) => {
      const box = await page.locator(".flame canvas").boundingBox();
      if (!box) throw new Error("no flame graph");
      await page.mouse.click(box.x + 30, box.y + 18 * 1.5, { button: "right" });
    },
    items: ["Zoom to this frame", ...FUNCTION, "Without this function", "Copy the stack"],
  },
  {
    name: "a function of the butterfly",
    query: "view=stacks&form=butterfly",
    open: secondary(".ranked [data-function]"),
    items: [...FUNCTION, "Without this function"],
  },
  {
    name: "a caller of the butterfly",
    query: "view=stacks&form=butterfly&function=futex_do_wait",
    open: secondary(".wing [aria-level='2']"),
    items: [...FUNCTION, "Without this function"],
  },
  {
    name: "a function by address",
    query: "view=stacks&of=sample&form=address",
    // By key: a right click on another function is tried at the butterfly.
    open: async (page) => {
      await page.locator(".ranked .name").first().focus();
      await page.keyboard.press("Shift+F10");
    },
    items: [...FUNCTION, "Without this function", "Samples by address, with instructions"],
  },
  {
    name: "a frame of a whole stack",
    query: "view=tables&by=wait stack",
    open: async (page) => {
      await following(secondary(".grid-row .cell.stack"), "Show the whole stack")(page);
      await secondary(".frames .frame")(page);
    },
    items: FUNCTION,
  },
  {
    name: "a thread of a comparison",
    query: "stall=&range=500000000-1500000000&thread=3,4",
    open: secondary(".compare-row .text-link"),
    items: ["Explain this", ...ELSEWHERE],
  },
  {
    name: "a thread of the box of a drag",
    query: "range=500000000-1500000000&swept=3,4",
    open: async (page) => {
      await page.locator(".tl-swept dt button").first().focus();
      await page.keyboard.press("Shift+F10");
    },
    items: ["Explain this", ...ELSEWHERE],
  },
  {
    name: "a trace of the folder",
    query: null,
    open: secondary("[data-trace]"),
    items: ["Open", "Rename …", "Delete …"],
  },
];

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
    await has(".details dd .text-link", "Pin the lane");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await row(".tl-tree [data-section^=p]", null)(page);
    await page.getByRole("menuitem", { name: "Only this process, in all views" }).click();
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
