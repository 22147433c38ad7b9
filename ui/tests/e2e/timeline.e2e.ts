/** The timeline by mouse, and the browser's history: what users of other tools try first. */
import type { Page } from "playwright-core";
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

describe.skipIf(skipReason("timeline") !== null)("timeline", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
    page = await bed.page("trace=starve.hitch");
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
  });
  afterAll(() => bed?.stop());
  afterEach(async ({ task }) => {
    await bed.screenshot(page, `timeline ${task.name}`, task);
    bed.expectNoComplaints();
  });

  const point = (lane: string, share: number | null) => lanePoint(page, lane, share);
  const CHAIN = ".tl-tree [data-in=chain]";
  const param = (name: string) => new URL(page.url()).searchParams.get(name);
  const address = () => page.url();
  const lanes = () =>
    page
      .locator(".tl-tree [data-lane]")
      .evaluateAll((rows) => rows.map((row) => (row as HTMLElement).dataset.lane));
  const clickAt = async (
    { x, y }: { x: number; y: number },
    options: { button?: "right"; key?: "Control" | "Shift" } = {},
  ) => {
    if (options.key) await page.keyboard.down(options.key);
    await page.mouse.click(x, y, { button: options.button ?? "left" });
    if (options.key) await page.keyboard.up(options.key);
  };

  test("ten steps back, and ten forward, one press each", async () => {
    const steps: (() => Promise<unknown>)[] = [
      () => page.keyboard.press("Digit2"),
      () => page.getByRole("button", { name: "Lifetimes" }).click(),
      () => page.keyboard.press("Digit3"),
      () => page.getByRole("button", { name: "Icicle" }).click(),
      () => page.getByRole("button", { name: "Timeline", exact: true }).click(),
      () => page.keyboard.press("Shift+KeyF"),
      () => page.keyboard.press("Shift+KeyM"),
      () => page.getByRole("button", { name: "Remove the selected time range" }).click(),
      () => page.getByRole("button", { name: "Both", exact: true }).click(),
      () => page.keyboard.press("Digit1"),
    ];
    const visited = [address()];
    for (const step of steps) {
      await step();
      await page.waitForFunction((was) => location.href !== was, visited.at(-1));
      visited.push(address());
      await settled(page);
    }
    expect(new Set(visited).size).toBe(11);
    const go = async (by: -1 | 1, to: string | undefined) => {
      await (by < 0 ? page.goBack() : page.goForward());
      await page.waitForFunction((url) => location.href === url, to);
      await settled(page);
      expect(address()).toBe(to);
    };
    for (let at = 9; at >= 0; at--) await go(-1, visited[at]);
    for (let at = 1; at <= 10; at++) await go(1, visited[at]);
    for (let at = 9; at >= 0; at--) await go(-1, visited[at]);
  });

  test("a click on a lane's name selects it and moves no lane", async () => {
    const before = await lanes();
    const target = ".tl-tree [data-lane^='t'][data-in^='p']";
    await page.locator(target).last().scrollIntoViewIfNeeded();
    await clickAt(await point(target, null));
    await page.waitForSelector("[data-chip=thread]");
    await settled(page);
    expect(await lanes()).toEqual(before);
    await page.getByRole("button", { name: "Remove the selected thread" }).click();
    await settled(page);
    expect(await lanes()).toEqual(before);
  });

  test("on request the lanes are sorted by relevance to the selection", async () => {
    const sections = () =>
      page
        .locator(".tl-tree [data-section^=p], .tl-tree [data-in^=p]")
        .evaluateAll((rows) =>
          rows.map(
            (row) => (row as HTMLElement).dataset.section ?? (row as HTMLElement).dataset.in,
          ),
        );
    const before = await sections();
    const last = before.at(-1);
    expect(last).not.toBe(before[0]);
    await clickAt(await point(`.tl-tree [data-in=${last}]`, null));
    await page.waitForSelector("[data-chip=thread]");
    await settled(page);
    expect(await sections()).toEqual(before);
    // Nor does an explanation sort them, or the way back from it.
    await page.keyboard.press("KeyE");
    await page.waitForSelector("[data-answer='0']");
    await settled(page);
    expect(await sections()).toEqual(before);
    await page.goBack();
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    expect(await sections()).toEqual(before);
    await page.keyboard.press("Control+Shift+KeyP");
    await page.keyboard.type("sort the lanes");
    await page.keyboard.press("Enter");
    // Behind those of the open stall.
    const rank = async () => (await sections()).indexOf(last);
    await expect.poll(rank).toBeLessThan(before.indexOf(last));
    await page.getByRole("button", { name: "Remove the selected thread" }).click();
    await page.keyboard.press("Control+Shift+KeyP");
    await page.keyboard.type("sort the lanes");
    await page.keyboard.press("Enter");
    await expect.poll(sections).toEqual(before);
    await settled(page);
  });

  test("an explained selection has its wait chain, and the lanes below it stay in place", async () => {
    const keys = await page
      .locator(".tl-tree [data-in^=p][data-lane^=t]")
      .evaluateAll((rows) => rows.map((row) => (row as HTMLElement).dataset.lane ?? ""));
    const lane = (id: string | undefined) => `.tl-tree [data-in^=p][data-lane=${id}]`;
    /** How far down the lane is on the screen. */
    const heightOf = async (id: string | undefined) => {
      const top = Number(await page.locator(lane(id)).getAttribute("data-top"));
      return top - Number(await page.locator(".timeline").getAttribute("data-scroll"));
    };
    const victim = () => page.locator(CHAIN).first().getAttribute("data-lane");
    const first = await victim();
    // High enough for the first lane to be on the screen below the chain.
    await page.setViewportSize({ width: 1280, height: 1200 });
    // Scrolled to the last lane, and at the top, where no less can be scrolled.
    for (const id of [keys.at(-1), keys[0]]) {
      await page.locator(".tl-scroll").evaluate((element) => element.scrollTo(0, 0));
      await clickAt(await point(lane(id), null));
      await page.waitForSelector("[data-chip=thread]");
      await settled(page);
      const before = await heightOf(id);
      await page.keyboard.press("KeyE");
      await page.waitForSelector("[data-answer='0']");
      await settled(page);
      expect(await victim()).toBe(id);
      expect(await heightOf(id)).toBe(before);
      // Several threads are compared, which has no chain.
      const other = keys.at(-2);
      await page.evaluate(
        (threads) => {
          const url = new URL(location.href);
          url.searchParams.set("thread", threads);
          history.replaceState(null, "", url);
          dispatchEvent(new PopStateEvent("popstate"));
        },
        `${id?.slice(1)},${other?.slice(1)}`,
      );
      await page.waitForSelector("[data-compare='2']");
      await settled(page);
      expect(await page.locator(CHAIN).count()).toBe(0);
      expect(await heightOf(id)).toBe(before);
      await page.goBack();
      await page.waitForSelector("[data-answer='1']");
      await settled(page);
      expect(await victim()).toBe(first);
      expect(await heightOf(id)).toBe(before);
      // A stall that is opened shows its chain.
      await page.locator("[data-stall-row]").first().click();
      await page.waitForFunction(
        () => document.querySelector<HTMLElement>(".timeline")?.dataset.scroll === "0",
      );
      await settled(page);
    }
    // A page that opens with an explained selection shows the chain, too.
    await clickAt(await point(lane(keys.at(-1)), null));
    await page.waitForSelector("[data-chip=thread]");
    await page.keyboard.press("KeyE");
    await page.waitForSelector("[data-answer='0']");
    await page.reload();
    await page.waitForSelector("[data-answer='0']");
    await settled(page);
    expect(await victim()).toBe(keys.at(-1));
    expect(await page.locator(".timeline").getAttribute("data-scroll")).toBe("0");
    await page.setViewportSize({ width: 1280, height: 720 });
    await page.locator("[data-stall-row]").first().click();
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
  });

  test("an edge is dragged in the overview, and snaps to a stall", async () => {
    const box = await page.locator("#overview-picture").boundingBox();
    if (!box) throw new Error("no overview");
    const whole = await page.evaluate(async () => {
      const url = "/api/t/starve.hitch/summary";
      const summary = (await (await fetch(url)).json()) as { from: number; duration_ns: number };
      return { from: summary.from, ns: summary.duration_ns };
    });
    const range = param("range");
    const [from, to] = (range ?? "").split("-").map(Number) as [number, number];
    const x = (at: number) => box.x + ((at - whole.from) / whole.ns) * box.width;
    const y = box.y + box.height - 20;
    const drag = async (a: number, b: number) => {
      await page.mouse.move(a, y);
      expect(await page.locator(".overview").evaluate((e) => (e as HTMLElement).style.cursor)).toBe(
        "ew-resize",
      );
      await page.mouse.down();
      await page.mouse.move(b, y, { steps: 4 });
      await page.mouse.up();
      await settled(page);
    };
    await drag(x(to), x(to) - 200);
    const [newFrom, newTo] = (param("range") ?? "").split("-").map(Number) as [number, number];
    expect(newFrom).toBe(from);
    expect(newTo).toBeLessThan(to);
    // Back near the stall's end: to it, to the nanosecond.
    await drag(x(newTo), x(to) - 3);
    expect(param("range")).toBe(range);
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
  });

  test("with Ctrl and Shift, several threads are selected", async () => {
    // The chips name them: what they say is what is selected.
    const selected = () => (param("thread") ?? "").split(",").filter(Boolean);
    const target = ".tl-tree [data-in=chain][data-lane^=t]";
    const ids = await page
      .locator(target)
      .evaluateAll((rows) => rows.map((row) => (row as HTMLElement).dataset.lane?.slice(1) ?? ""));
    const [first, second] = [...new Set(ids)] as [string, string];
    const lane = (id: string) => `[data-in=chain][data-lane=t${id}]`;
    const before = await lanes();
    await clickAt(await point(lane(first), null));
    await page.waitForFunction(
      (id) => new URLSearchParams(location.search).get("thread") === id,
      first,
    );
    for (const key of ["Control", "Shift"] as const) {
      await clickAt(await point(lane(second), 0.5), { key });
      await page.waitForFunction(
        (both) => new URLSearchParams(location.search).get("thread") === both,
        `${first},${second}`,
      );
      await settled(page);
      expect(await lanes()).toEqual(before);
      expect(await page.locator("[data-chip^=thread]").count()).toBe(2);
      // The same again removes it.
      await clickAt(await point(lane(second), null), { key });
      await page.waitForFunction(
        (id) => new URLSearchParams(location.search).get("thread") === id,
        first,
      );
    }
    await clickAt(await point(lane(second), null), { key: "Control" });
    await settled(page);
    expect(selected()).toEqual([first, second]);
    // What they did in the selected time is compared.
    await page.keyboard.press("KeyE");
    await page.waitForSelector("[data-compare='2']");
    await settled(page);
    // Whoever looked at the chain is not left with an empty space in its place.
    expect(await page.locator(".tl-tree [data-section]").first().getAttribute("data-top")).toBe(
      "0",
    );
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
    expect(selected()).toEqual([]);
  });

  test("the edges of the selection are dragged, and snap to events", async () => {
    const box = await page.locator(".tl-over").boundingBox();
    if (!box) throw new Error("no timeline");
    const lane = CHAIN;
    const [from, to] = (param("range") ?? "").split("-").map(Number) as [number, number];
    const shown = await shownWindow(page);
    const share = (at: number) => (at - shown.from) / (shown.to - shown.from);
    const edge = await point(lane, share(to));
    await page.mouse.move(edge.x, edge.y);
    expect(
      await page.locator(".tl-over").evaluate((canvas) => (canvas as HTMLElement).style.cursor),
    ).toBe("ew-resize");
    await page.mouse.down();
    const goal = await point(lane, share(to) - 0.3);
    await page.mouse.move(goal.x, goal.y, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(
      (was) => new URLSearchParams(location.search).get("range") !== was,
      `${from}-${to}`,
    );
    const [newFrom, newTo] = (param("range") ?? "").split("-").map(Number) as [number, number];
    expect(newFrom).toBe(from);
    expect(newTo).toBeLessThan(to);
    // Back over the old edge: it snaps to where the wait ended, to the nanosecond.
    const again = await point(lane, share(newTo));
    await page.mouse.move(again.x, again.y);
    await page.mouse.down();
    const old = await point(lane, share(to));
    await page.mouse.move(old.x - 2, old.y, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(
      (was) => new URLSearchParams(location.search).get("range") === was,
      `${from}-${to}`,
    );
  });

  test("the box of a drag stays open while an edge is dragged", async () => {
    const drag = async (a: number, b: number) => {
      const was = param("range");
      const [start, end] = [await point(CHAIN, a), await point(CHAIN, b)];
      await page.mouse.move(start.x, start.y);
      await page.mouse.down();
      await page.mouse.move(end.x, end.y, { steps: 4 });
      await page.mouse.up();
      await page.waitForFunction(
        (old) => new URLSearchParams(location.search).get("range") !== old,
        was,
      );
    };
    await drag(0.3, 0.6);
    await page.waitForSelector("[data-swept]");
    const swept = param("swept");
    const [from, to] = (param("range") ?? "").split("-").map(Number) as [number, number];
    const shown = await shownWindow(page);
    // The box covers the other edge.
    await drag((from - shown.from) / (shown.to - shown.from), 0.2);
    const [newFrom, newTo] = (param("range") ?? "").split("-").map(Number) as [number, number];
    expect(newFrom).toBeLessThan(from);
    expect(newTo).toBe(to);
    expect(param("swept")).toBe(swept);
    await page.waitForSelector("[data-swept]");
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
  });

  test("a link of the answer scrolls to its lane", async () => {
    const scroll = () => page.locator(".tl-scroll").evaluate((lanes) => lanes.scrollTop);
    await page.locator(".tl-scroll").evaluate((lanes) => lanes.scrollTo(0, lanes.scrollHeight));
    await settled(page);
    const before = await scroll();
    expect(before).toBeGreaterThan(100);
    await page.locator(".chain .text-link").last().click();
    await expect.poll(scroll).toBeLessThan(100);
    await settled(page);
    await page.keyboard.press("Escape");
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
  });

  test("the wheel scrolls the lanes, with Ctrl it zooms; a setting turns that round", async () => {
    const plot = await point(".tl-tree [data-in=chain]", 0.5);
    const window = await shownWindow(page);
    const top = () => page.locator(".tl-scroll").evaluate((element) => element.scrollTop);
    await page.mouse.move(plot.x, plot.y);
    await page.mouse.wheel(0, 120);
    await page.waitForFunction(() => (document.querySelector(".tl-scroll")?.scrollTop ?? 0) > 0);
    expect(await shownWindow(page)).toEqual(window);
    await page.mouse.wheel(0, -500);
    await page.waitForFunction(() => document.querySelector(".tl-scroll")?.scrollTop === 0);
    await page.keyboard.down("Control");
    const zoomed = await windowChanges(page, () => page.mouse.wheel(0, -200));
    await page.keyboard.up("Control");
    expect(zoomed.after.to - zoomed.after.from).toBeLessThan(window.to - window.from);
    const toggle = async () => {
      await page.keyboard.press("Control+Shift+KeyP");
      await page.keyboard.type("wheel");
      await page.keyboard.press("Enter");
    };
    await toggle();
    await page.mouse.move(plot.x + 1, plot.y);
    await windowChanges(page, () => page.mouse.wheel(0, 200));
    expect(await top()).toBe(0);
    await toggle();
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
  });

  test("a right click on a slice explains it", async () => {
    await clickAt(await point(".tl-tree [data-in^=p][data-lane^=t]", 0.5), { button: "right" });
    const menu = page.getByRole("menu");
    await menu.waitFor();
    await bed.screenshot(page, "the menu of a slice");
    const titles = await menu.getByRole("menuitem").allInnerTexts();
    for (const title of [
      "Explain this",
      "Pin its lane",
      "Hide its lane",
      "Flame graph of its waits",
    ])
      expect(titles.join("\n")).toContain(title);
    await page.getByRole("menuitem", { name: "Explain this" }).click();
    await page.waitForSelector("[data-answer='0']");
    await settled(page);
    expect(await page.locator(".parts .sum").innerText()).toContain("the whole time range");
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
  });

  test("the menu of a wait leads to its waker, not along the open stall's chain", async () => {
    await clickAt(await point(CHAIN, 0.5), { button: "right" });
    await page.getByRole("menuitem", { name: "Who ended this wait?" }).click();
    await page
      .getByText(/^woken by inspector/)
      .first()
      .waitFor({ state: "attached" });
    expect(param("hop")).toBeNull();
  });

  test("a pinned lane stays on top, and is in the URL", async () => {
    const target = ".tl-tree [data-in^=p][data-lane^=t]";
    const lane = await page.locator(target).first().getAttribute("data-lane");
    await clickAt(await point(target, null), { button: "right" });
    await page.getByRole("menuitem", { name: "Pin its lane" }).click();
    await page.waitForSelector(`[data-in=pinned][data-lane=${lane}]`);
    expect(param("pins")).toBe(lane);
    await page.locator(".tl-scroll").evaluate((element) => element.scrollTo(0, 60));
    await settled(page);
    await bed.screenshot(page, "a pinned lane");
    await page.reload();
    await page.waitForSelector(`[data-in=pinned][data-lane=${lane}]`);
    await settled(page);
    expect((await lanes())[0]).toBe(lane);
    await clickAt(await point("[data-in=pinned]", null), { button: "right" });
    await page.getByRole("menuitem", { name: "Unpin its lane" }).click();
    await page.locator("[data-in=pinned]").waitFor({ state: "detached" });
  });

  test("a hidden process comes back", async () => {
    const header = ".tl-tree [data-section^=p]";
    const key = await page.locator(header).first().getAttribute("data-section");
    await clickAt(await point(header, null), { button: "right" });
    await page.getByRole("menuitem", { name: "Hide the process" }).click();
    await page.waitForSelector("[data-chip=hidden]");
    expect(await page.locator(`[data-section=${key}]`).count()).toBe(0);
    await page.getByRole("button", { name: "Show all hidden lanes" }).click();
    await page.waitForSelector(`[data-section=${key}]`, { state: "attached" });
  });

  test("a hidden lane, of a thread or a CPU, comes back", async () => {
    for (const [target, share, item] of [
      [".tl-tree [data-in^=p][data-lane^=t]", null, "Hide its lane"],
      ["[data-in=cpus][data-lane=c1]", 0.5, "Hide this CPU"],
    ] as const) {
      const before = await lanes();
      const lane = await page.locator(target).first().getAttribute("data-lane");
      await clickAt(await point(target, share), { button: "right" });
      await page.getByRole("menuitem", { name: item }).click();
      await page.locator(`[data-lane=${lane}]:not([data-in=chain])`).waitFor({ state: "detached" });
      expect(param("hide")).toBe(lane);
      await page.reload();
      await page.waitForSelector(".tl-tree [data-lane]", { state: "attached" });
      await settled(page);
      expect(await page.locator(`[data-lane=${lane}]:not([data-in=chain])`).count()).toBe(0);
      await page.getByRole("button", { name: "Show all hidden lanes" }).click();
      await settled(page);
      expect(await lanes()).toEqual(before);
    }
  });

  test("P and H are about the lane at the pointer, also if it is a CPU's", async () => {
    const press = async (key: string, lane: string) => {
      await settled(page);
      const { x, y } = await point(lane, 0.5);
      await page.mouse.move(x, y);
      await page.keyboard.press(key);
    };
    await press("KeyP", "[data-in=cpus][data-lane=c1]");
    await page.waitForSelector("[data-in=pinned][data-lane=c1]");
    await press("KeyP", "[data-in=pinned][data-lane=c1]");
    await page.locator("[data-in=pinned]").waitFor({ state: "detached" });
    await press("KeyH", "[data-in=cpus][data-lane=c1]");
    await page.locator("[data-in=cpus][data-lane=c1]").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Show all hidden lanes" }).click();
    await page.waitForSelector("[data-in=cpus][data-lane=c1]", { state: "attached" });
    await settled(page);
  });

  test("a click keeps the details open and leaves the clipboard alone", async () => {
    await page.evaluate(() => navigator.clipboard.writeText("mine"));
    await clickAt(await point(".tl-tree [data-in^=p][data-lane^=t]", 0.5));
    await page.waitForSelector(".tl-tip.pinned");
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("mine");
    await page.getByRole("button", { name: "Copy", exact: true }).click();
    await page.getByText("Copied the description.").first().waitFor({ state: "attached" });
    expect(await page.evaluate(() => navigator.clipboard.readText())).not.toBe("mine");
    await page.keyboard.press("Escape");
  });
});
