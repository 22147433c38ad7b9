/**
 * Twenty tasks that users of other tools begin with, each with the number of clicks and keys that it
 * takes. The table in docs/page.md has the same numbers, next to those of other tools.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { STARVE, settled, skipReason, TestBed } from "./harness";

const DOCS = readFileSync(resolve(import.meta.dirname, "../../../docs/page.md"), "utf8");

interface Counts {
  readonly ours: number;
  /** What another tool needs for the same in the best case; infinite if none gives all of it. */
  readonly others: number;
}

/** The numbers of steps that the docs give for a task. */
function documented(task: string): Counts {
  const rows = DOCS.split("\n").map((line) => line.split("|").map((cell) => cell.trim()));
  const row = rows.find((cells) => cells[1]?.replace(/ \*$/, "") === task);
  const [ours = "", ...others] = row?.slice(2, -1) ?? [];
  const best = others
    .filter((cell) => !/^no$|part/.test(cell))
    .map((cell) => Math.min(...(cell.match(/\d+/g) ?? []).map(Number)));
  return {
    ours: Number(/^\d+$/.test(ours) ? ours : Number.NaN),
    others: Math.min(...best),
  };
}

describe.skipIf(skipReason("tasks") !== null)("tasks", () => {
  let bed: TestBed;
  let page: Page;
  let steps = 0;

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
  });
  afterAll(() => bed?.stop());
  beforeEach(async () => {
    page = await bed.page();
    await page.waitForSelector("[data-trace]");
    steps = 0;
  });
  afterEach(({ task }) => bed.end(page, `tasks ${task.name}`, task));

  // Each of these is one step of a user: a click, a drag, a key, or a word typed.
  const click = async (what: string | RegExp, role: "button" | "menuitem" | "tab" = "button") => {
    steps++;
    await page.getByRole(role, { name: what }).first().click();
  };
  const press = async (key: string) => {
    steps++;
    await page.keyboard.press(key);
  };
  /** A point of the first thread's lane; null for its name. */
  const lane = async (selector: string, share: number | null) => {
    const box = await page.locator(".tl-over").boundingBox();
    const data = await page.locator(".timeline").evaluate((e) => ({
      head: Number((e as HTMLElement).dataset.head),
      labels: Number((e as HTMLElement).dataset.labels),
    }));
    const top = Number(await page.locator(selector).first().getAttribute("data-top"));
    if (!box) throw new Error("no timeline");
    const { head, labels } = data;
    const x = share === null ? labels / 2 : labels + (box.width - labels) * share;
    return { x: box.x + x, y: box.y + head + top + 8 };
  };
  const clickLane = async (selector: string, share: number | null, button?: "right") => {
    steps++;
    const { x, y } = await lane(selector, share);
    await page.mouse.click(x, y, { button: button ?? "left" });
  };
  /** Moves the pointer there, which is no step. */
  const point = async (selector: string) => {
    const { x, y } = await lane(selector, null);
    await page.mouse.move(x, y);
  };
  const drag = async (selector: string, from: number, to: number, end = selector) => {
    steps++;
    const [a, b] = [await lane(selector, from), await lane(end, to)];
    await page.mouse.move(a.x, a.y);
    await page.mouse.down();
    await page.mouse.move(b.x, b.y, { steps: 4 });
    await page.mouse.up();
  };
  const opened = async () => {
    await page.getByRole("button", { name: "starve.hitch", exact: true }).click();
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
  };
  /** Opens the trace with this view as the start view: what a profile of the user's own is in WPA. */
  const openedWithStart = async (view: string) => {
    await page.goto(new URL(`/?trace=starve.hitch&${view}`, bed.address).href);
    await page.waitForSelector(".grid-row");
    await page.getByRole("button", { name: "Start view" }).click();
    await page.getByRole("menuitem", { name: "Open traces with this view" }).click();
    await page.getByRole("button", { name: "Unhitch" }).click();
    await page.getByRole("button", { name: "starve.hitch", exact: true }).click();
    await page.waitForSelector(".heads");
  };
  /** Drags a column's head in front of the first, which groups by it. */
  const groupBy = async (column: string) => {
    const head = await page.locator(`[data-column='${column}'] .head-name`).boundingBox();
    const heads = await page.locator(".heads").boundingBox();
    if (!head || !heads) throw new Error("no heads");
    steps++;
    await page.mouse.move(head.x + 4, head.y + 4);
    await page.mouse.down();
    await page.mouse.move(heads.x + 4, head.y + 4, { steps: 4 });
    await page.mouse.up();
  };
  const param = (name: string) => new URL(page.url()).searchParams.get(name);
  const VICTIM = "[data-in=chain][data-lane^=t]";
  const text = (selector: string) => page.locator(selector).first().innerText();

  const tasks: Readonly<Record<string, () => Promise<void>>> = {
    "open a trace and read why it hung": async () => {
      await click("starve.hitch");
      await page.waitForSelector("[data-answer='1']");
      expect(await text(".cause")).toContain("lock starvation");
    },
    "see the evidence of a sentence": async () => {
      await opened();
      steps++;
      await page.locator(".answer .text-link[title*='event']").first().click();
      await page.waitForSelector(".details[data-event]:not([data-event=''])");
    },
    "who woke this thread?": async () => {
      await opened();
      await clickLane(VICTIM, 0.5);
      await page.waitForSelector(".tl-tip.pinned");
      expect(await text(".tl-tip")).toMatch(/ended by inspector/);
    },
    "go to the waker": async () => {
      await opened();
      const before = param("window");
      // The chain says who woke the thread, and leads to its lane and to the wake-up.
      steps++;
      await page.locator(".chain .text-link", { hasText: "inspector" }).click();
      await page.waitForSelector(".details[data-event^=waking]");
      await settled(page);
      expect(param("window")).not.toBe(before);
      expect(await text(".details")).toMatch(/waker\s+inspector.*woken\s+typing/s);
      const waker = page.locator("[data-lane]", { hasText: "inspector" }).first();
      const top = Number(await waker.getAttribute("data-top"));
      const { scroll, room } = await page.locator(".tl-scroll").evaluate((lanes) => ({
        scroll: lanes.scrollTop,
        room: lanes.clientHeight - Number(lanes.parentElement?.dataset.head),
      }));
      expect(top).toBeGreaterThanOrEqual(scroll);
      expect(top).toBeLessThan(scroll + room);
    },
    "explain a wait that is no stall": async () => {
      await opened();
      await clickLane("[data-in=chain][data-lane^=t] ~ [data-in=chain]", 0.5, "right");
      await click("Explain this", "menuitem");
      await page.waitForSelector("[data-answer='0']");
    },
    "explain a time range of a thread": async () => {
      await opened();
      await drag(VICTIM, 0.3, 0.6);
      await page.waitForSelector("[data-swept]");
      expect(await text(".tl-swept")).toMatch(/\d %\s+\w+.* inspector/s);
    },
    "compare two threads": async () => {
      await opened();
      await drag(VICTIM, 0.3, 0.6, "[data-in=chain][data-lane^=t] ~ [data-in=chain]");
      await page.waitForSelector("[data-swept] ~ [data-swept]");
      expect(await page.locator("[data-swept] svg").count()).toBe(2);
    },
    "pin a lane": async () => {
      await opened();
      await point(VICTIM);
      await press("KeyP");
      await page.waitForSelector("[data-in=pinned]", { state: "attached" });
    },
    "hide a process": async () => {
      await opened();
      await point("[data-section^=p]");
      await press("KeyH");
      await page.waitForSelector("[data-chip=hidden]");
    },
    "only one thread, in all views": async () => {
      await opened();
      await clickLane(VICTIM, null);
      await page.waitForSelector("[data-chip=thread]");
    },
    "zoom to a slice": async () => {
      await opened();
      const { x, y } = await lane("[data-lane=c1]", 0.5);
      const before = await page.locator(".timeline").getAttribute("data-from");
      steps++;
      await page.mouse.dblclick(x, y);
      await page.waitForFunction(
        (was) => document.querySelector<HTMLElement>(".timeline")?.dataset.from !== was,
        before,
      );
    },
    "select a time range": async () => {
      await opened();
      const before = param("range");
      await drag(VICTIM, 0.3, 0.5);
      await page.waitForFunction(
        (was) => new URLSearchParams(location.search).get("range") !== was,
        before,
      );
    },
    "the waits that cost most": async () => {
      await openedWithStart("view=tables");
      await page.waitForSelector(".grid-row");
      const waited = page.locator("[role=columnheader][aria-sort=descending]");
      expect(await waited.getAttribute("data-column")).toBe("sum:waited");
    },
    "filter a table by a value": async () => {
      await opened();
      await click("Tables", "tab");
      await page.waitForSelector(".grid-row");
      await settled(page);
      steps++;
      await page
        .locator(".grid-row .cell")
        .first()
        .click({ modifiers: ["Alt"] });
      await page.waitForFunction(() => new URLSearchParams(location.search).has("where"));
    },
    "group by another column": async () => {
      await openedWithStart("view=tables&by=process&show=count,sum:waited,max:cpu");
      await page.waitForSelector(".grid-row");
      await groupBy("max:cpu");
      await page.waitForSelector("[data-column=cpu][data-zone=by]");
    },
    "CPU use over time, by process": async () => {
      await opened();
      const names = page.getByRole("list", { name: "CPU time by process" });
      await names.waitFor();
      expect(await names.innerText()).toMatch(/lab-starve \d\.\d+ s/);
      expect(await page.locator(".overview-use path").count()).toBeGreaterThan(1);
    },
    "flame graph of the chain": async () => {
      await opened();
      await click("Stacks", "tab");
      await page.waitForSelector(".stacks");
      await click("Chain only");
      await page.waitForFunction(() => location.search.includes("scope=chain"));
    },
    "callers and callees of a function": async () => {
      await opened();
      await press("Slash");
      steps++;
      await page.keyboard.type("worker_thread");
      await press("Enter");
      await page.waitForSelector(".wing");
      await settled(page);
      for (const wing of ["Callers", "Callees"])
        expect(await page.getByRole("region", { name: wing }).innerText()).toContain(
          "worker_thread",
        );
    },
    "back to where I was": async () => {
      await opened();
      const before = page.url();
      await click("Stacks", "tab");
      await page.waitForSelector(".stacks");
      steps = 0;
      do {
        steps++;
        await page.goBack();
      } while (page.url() !== before && steps < 5);
      expect(page.url()).toBe(before);
    },
    "share exactly this view": async () => {
      await opened();
      await click("Copy ▾");
      await click("Link to this view", "menuitem");
      await page.getByText("Copied the link.").first().waitFor({ state: "attached" });
      expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(page.url());
    },
  };

  test("there are twenty", () => expect(Object.keys(tasks).length).toBe(20));

  for (const [task, run] of Object.entries(tasks))
    test(task, async () => {
      await run();
      await settled(page);
      const { ours, others } = documented(task);
      expect(steps).toBe(ours);
      expect(steps).toBeLessThanOrEqual(others);
    });

  test("two take more from a trace that opens on its answer", async () => {
    await opened();
    await click("Tables", "tab");
    await page.waitForSelector(".grid-row");
    expect(steps).toBe(1);
    await click("+ Column");
    await click(/^Group by cpu/, "menuitem");
    await page.waitForSelector("[data-column=cpu][data-zone=by]");
    await settled(page);
    expect(steps).toBe(3);
    expect(DOCS).toContain("Without one, it is 1 and 3.");
  });
});
