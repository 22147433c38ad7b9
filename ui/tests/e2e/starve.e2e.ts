/** A real recording, from the list of traces to the same view after a reload. */
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { durationText } from "../../src/units";
import { open, STARVE, settled, shownWindow, skipReason, TestBed, windowChanges } from "./harness";

describe.skipIf(skipReason("starve") !== null)("starve", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
    page = await bed.page();
  });
  afterAll(() => bed?.stop());
  afterEach(async ({ task }) => {
    await bed.screenshot(page, `starve ${task.name}`, task);
    bed.expectNoComplaints();
  });

  test("the page starts with the answer, and its parts add up", async () => {
    await open(page, "starve.hitch");
    const answer = page.locator("[data-answer]");
    expect(await answer.locator("h1").innerText()).toMatch(/^HANG/);
    expect(await answer.locator(".cause").innerText()).toMatch(/lock starvation/);
    expect(await page.locator("[data-stall-row]").count()).toBeGreaterThan(0);
    // The copied JSON's parts add up to the whole, to the nanosecond.
    await page.getByRole("button", { name: "Copy ▾" }).click();
    await page.getByRole("menuitem", { name: "Answer as JSON" }).click();
    const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText())) as {
      duration_ns: number;
      partition: { ns: number }[];
      chain: { ns: number }[];
    };
    expect(copied.partition.reduce((sum, part) => sum + part.ns, 0)).toBe(copied.duration_ns);
    expect(copied.chain.reduce((sum, link) => sum + link.ns, 0)).toBe(copied.duration_ns);
    const bar = await page
      .locator("#partition-picture > g > rect:first-of-type")
      .evaluateAll((rects) =>
        rects.reduce((sum, rect) => sum + Number(rect.getAttribute("width")) + 1, 0),
      );
    const room = await page
      .locator(".partition-bar")
      .evaluate((element) => element.getBoundingClientRect().width);
    expect(Math.abs(bar - room)).toBeLessThan(4);
  });

  test("the pictures can be saved as SVG and as PNG", async () => {
    const save = async (item: string): Promise<Buffer> => {
      await page.getByRole("button", { name: "Copy ▾" }).click();
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("menuitem", { name: item }).click(),
      ]);
      return readFileSync(await download.path());
    };
    const svg = (await save("Picture as SVG")).toString();
    expect(svg).toMatch(/^<svg [^>]*xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
    expect(svg).toContain("lock held by inspector");
    // A stand-alone file has none of the page's variables.
    expect(svg).not.toContain("var(");
    const png = await save("Picture as PNG");
    expect(png.subarray(1, 4).toString()).toBe("PNG");
    expect(png.readUInt32BE(16)).toBeGreaterThan(1000);
  });

  test("the timeline zooms and pans by keys", async () => {
    const { before, after } = await windowChanges(page, () => page.keyboard.press("w"));
    expect(after.to - after.from).toBeLessThan(before.to - before.from);
    const panned = await windowChanges(page, () => page.keyboard.press("d"));
    expect(panned.after.from).toBeGreaterThan(panned.before.from);
    const out = await windowChanges(page, () => page.keyboard.press("s"));
    expect(out.after.to - out.after.from).toBeGreaterThan(out.before.to - out.before.from);
  });

  test("the timeline zooms by the wheel and selects by dragging", async () => {
    const box = await page.locator(".timeline").boundingBox();
    if (!box) throw new Error("no timeline");
    await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.75);
    await page.keyboard.down("Control");
    const { before, after } = await windowChanges(page, () => page.mouse.wheel(0, -300));
    await page.keyboard.up("Control");
    expect(after.to - after.from).toBeLessThan(before.to - before.from);

    const chip = page.locator("[data-chip=range]");
    const was = await chip.innerText();
    await page.mouse.move(box.x + box.width * 0.4, box.y + box.height * 0.75);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.75, { steps: 4 });
    await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.75, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(
      (text) => document.querySelector<HTMLElement>("[data-chip=range]")?.innerText !== text,
      was,
    );
    const selected = await chip.innerText();
    expect(selected).not.toBe(was);
  });

  test("the chain is followed with [ and ]", async () => {
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
    // This chain has one link: both keys lead to it, and none leads beyond it.
    expect(await page.locator("[data-link]").innerText()).toBe("1 link");
    for (const key of ["BracketLeft", "BracketRight"]) {
      await page.locator("[data-stall-row]").first().click();
      await page.waitForSelector("[data-link='']");
      await settled(page);
      await page.locator(".answers-text").focus();
      await page.keyboard.press(key);
      await page.waitForSelector("[data-link='0']");
      await settled(page);
      expect(await page.locator("[data-link]").innerText()).toBe("link 1 of 1");
      expect(new URL(page.url()).searchParams.get("hop")).toBe("0");
      expect(await page.locator(".link-details").innerText()).toMatch(
        /^typing \d+ .*waited \(lock\) for 1\.\d+ s .*, until inspector \d+/,
      );
      const there = page.url();
      await page.keyboard.press(key);
      await settled(page);
      expect(page.url()).toBe(there);
    }
  });

  test("advice has no links, and a sentence on the machine links to a time range", async () => {
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
    expect(await page.locator(".clause.remedy").innerText()).toMatch(/^REMEDY/);
    expect(await page.locator(".clause.remedy .text-link").count()).toBe(0);
    const machine = page.locator(".clause.machine .text-link");
    expect(await machine.getAttribute("title")).toBe("Show on the timeline");
    await machine.click();
    await settled(page);
    expect(await page.locator(".details").count()).toBe(0);
  });

  test("a clause links to the event that proves it", async () => {
    await page.locator("[data-stall-row]").first().click();
    await settled(page);
    await page.locator(".answer .text-link[title*='event']").first().click();
    await page.waitForSelector(".details[data-event]:not([data-event=''])");
    expect(new URL(page.url()).searchParams.get("event")).toMatch(/^(switch|waking|sample)-\d+$/);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".details", { state: "detached" });
  });

  test("a column dragged across the gold bar groups by it", async () => {
    await page.keyboard.press("Digit2");
    await settled(page);
    await page
      .getByRole("toolbar")
      .getByRole("combobox", { name: "Table" })
      .selectOption("switches");
    await settled(page);
    const head = page.locator("[data-column='thread'][data-zone='show']");
    const box = await head.boundingBox();
    const heads = await page.locator(".heads").boundingBox();
    if (!box || !heads) throw new Error("no heads");
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x, box.y + box.height / 2, { steps: 5 });
    await page.mouse.move(heads.x + 3, box.y + box.height / 2, { steps: 5 });
    await page.mouse.up();
    await page.waitForSelector("[data-column='thread'][data-zone='by']");
    await settled(page);
    expect(new URL(page.url()).searchParams.get("by")).toBe("thread");
    // By keys: back across the bar, then in again.
    await page.locator("[data-column='thread'] .head-button").focus();
    await page.keyboard.press("Alt+ArrowRight");
    await page.waitForSelector("[data-column='thread'][data-zone='show']");
    await settled(page);
    await page.locator("[data-column='thread'] .head-button").focus();
    await page.keyboard.press("Alt+ArrowLeft");
    await page.waitForSelector("[data-column='thread'][data-zone='by']");
    await settled(page);
    // A group opens to its rows.
    const rows = Number(await page.locator(".grid").getAttribute("aria-rowcount"));
    await page.locator(".grid").focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(
      (was) => Number(document.querySelector(".grid")?.getAttribute("aria-rowcount")) > was,
      rows,
    );
    await settled(page);
    expect(await page.locator(".grid-row[data-depth='1']").count()).toBeGreaterThan(0);
  });

  test("a cell's menu filters by its value", async () => {
    const name = await page.locator(".grid-row[data-depth='0'] .cell").first().innerText();
    await page.locator(".grid-row[data-depth='0'] .cell").first().click({ button: "right" });
    await page.getByRole("menuitem", { name: /^Only (?!this)/ }).click();
    await settled(page);
    expect(new URL(page.url()).searchParams.get("where")).toContain("thread =");
    const names = await page.locator(".grid-row[data-depth='0'] .cell:first-child").allInnerTexts();
    expect(new Set(names.map((text) => text.replace(/[▸▾]/g, "").trim()))).toEqual(
      new Set([name.replace(/[▸▾]/g, "").trim()]),
    );
    await page.getByRole("button", { name: "Remove the filter" }).click();
    await settled(page);
  });

  test("the butterfly of the function that releases the lock", async () => {
    await page.locator(".grid").focus();
    await page.keyboard.press("Digit3");
    await page.getByRole("button", { name: "Wakes" }).click();
    await page.getByRole("button", { name: "Butterfly" }).click();
    await settled(page);
    await page.locator("[data-function*='release_document']").first().click();
    await settled(page);
    expect(await page.locator(".wing").first().innerText()).toContain("inspect");
    expect(await page.locator(".wing").last().innerText()).toContain("futex_wake");
  });

  test("a search hit can be selected, which filters", async () => {
    await page.keyboard.press("Slash");
    await page.keyboard.type("typing");
    await page.waitForFunction(
      () => Number(document.querySelector<HTMLElement>("[data-found]")?.dataset.found || "0") > 0,
    );
    await page.waitForSelector("#search-hits [role=option]");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-chip=thread]");
    await settled(page);
    expect(await page.locator("[data-chip=thread]").innerText()).toContain("typing");
    expect(await page.locator("[data-function*='release_document']").count()).toBeGreaterThan(0);
  });

  test("a function filters views with stacks; the others show that it does not", async () => {
    const chips = page.getByRole("group", { name: /^Selection/ });
    const samples = async () =>
      (await page.locator(".ranked tbody .num:first-child").allInnerTexts()).reduce(
        (sum, text) => sum + Number(text.replace(/\D/g, "")),
        0,
      );
    const address = new URL(page.url());
    for (const other of ["thread", "function"]) address.searchParams.delete(other);
    address.searchParams.set("of", "sample");
    address.searchParams.set("form", "address");
    await page.goto(address.href);
    await settled(page);
    const all = await samples();
    address.searchParams.set("stack", "count_pages");
    await page.goto(address.href);
    await settled(page);
    const some = await samples();
    expect(some).toBeGreaterThan(0);
    expect(some).toBeLessThan(all);
    expect(await chips.innerText()).toContain("does not filter the timeline");
    await page.keyboard.press("Digit1");
    await settled(page);
    expect(await chips.innerText()).toContain("does not filter the stalls and the timeline");
    await page.keyboard.press("Digit2");
    await page.getByRole("button", { name: "Lifetimes" }).click();
    await settled(page);
    expect(await page.locator(".tables > .note").innerText()).toMatch(
      /no column for the selected .*function/,
    );
    await page.getByRole("button", { name: "Waits", exact: true }).click();
    await settled(page);
    expect(await page.locator(".tables > .note").count()).toBe(0);
    await page.getByRole("button", { name: "Remove the selected function" }).click();
    await page.keyboard.press("Slash");
    await page.keyboard.type("typing");
    await page.waitForSelector("#search-hits [role=option]");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-chip=thread]");
    await settled(page);
  });

  test("a kept mark is in the URL", async () => {
    await page.keyboard.press("Shift+KeyM");
    await page.waitForFunction(() => new URLSearchParams(location.search).has("marks"));
    const { marks, range } = Object.fromEntries(new URL(page.url()).searchParams) as {
      marks: string;
      range: string;
    };
    expect(marks).toBe(range);
    await page.reload();
    await page.waitForSelector(".timeline");
    await settled(page);
    expect(new URL(page.url()).searchParams.get("marks")).toBe(marks);
    // Setting the same mark again removes it.
    await page.keyboard.press("Shift+KeyM");
    await page.waitForFunction(() => !new URLSearchParams(location.search).has("marks"));
  });

  test("a selected thread in a selected time range is explained like a stall", async () => {
    await page.keyboard.press("KeyE");
    await page.waitForSelector("[data-answer='0']");
    await settled(page);
    expect(await page.locator(".parts .sum").innerText()).toMatch(/100\.0 %/);
    expect(await page.locator(".parts").innerText()).toContain("inspector");
    const links = Number.parseInt(await page.locator("[data-link]").innerText(), 10);
    await page.keyboard.press("BracketLeft");
    await page.waitForSelector(`[data-link='${links - 1}']`);
    await page.locator("[data-stall-row]").first().click();
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
  });

  test("the URL restores the view", async () => {
    await page.keyboard.press("Digit1");
    await settled(page);
    const before = {
      url: page.url(),
      window: await shownWindow(page),
      chips: await page.locator(".chip").allInnerTexts(),
      answer: await page.locator("[data-answer]").getAttribute("data-answer"),
    };
    await page.reload();
    await page.waitForSelector("[data-answer]");
    await settled(page);
    expect({
      url: page.url(),
      window: await shownWindow(page),
      chips: await page.locator(".chip").allInnerTexts(),
      answer: await page.locator("[data-answer]").getAttribute("data-answer"),
    }).toEqual(before);
  });

  test("Back returns to the previous view", async () => {
    await page.keyboard.press("Digit3");
    await page.waitForSelector(".stacks");
    await page.goBack();
    await page.waitForSelector("[data-answer]");
    await settled(page);
    expect(new URL(page.url()).searchParams.get("view")).toBeNull();
  });

  test("a thread that never ran has its name and its tid", async () => {
    await page.goto(new URL("/?trace=starve.hitch&view=tables&thread=3", bed.address).href);
    const chip = page.locator("[data-chip=thread]");
    await chip.getByText("pool_workqueue_ 3").waitFor();
    await settled(page);
    await chip.click({ button: "right" });
    await page.getByRole("menuitem", { name: "Without this thread" }).click();
    await page.waitForURL(/where=tid/);
    await settled(page);
    expect(new URL(page.url()).searchParams.get("where")).toBe("tid != 3");
  });

  test("stacks of several threads are a sum, which is said, and leads to the comparison", async () => {
    const threads = [83, 84, 85];
    const goto = async (query: string) => {
      const all = `trace=starve.hitch&view=stacks&idle=1&${query}`;
      await page.goto(new URL(`/?${all}`, bed.address).href);
      await page.waitForSelector(".stacks");
      await settled(page);
    };
    const said = page.locator(".stacks .toolbar").getByText("The sum of 3 threads");
    for (const form of ["flame", "icicle", "address&of=sample", "butterfly"]) {
      await goto(`thread=${threads}&form=${form}`);
      await said.waitFor();
      // It takes no room from what is shown.
      const body = await page.locator(".stacks-body").boundingBox();
      expect(body?.height).toBeGreaterThan(150);
    }
    // The butterfly's names have the time of each.
    const rankings = await page.evaluate(
      (threads) =>
        Promise.all(
          threads.map(async (thread) => {
            const url = `/api/t/starve.hitch/butterfly?of=wait&limit=10000&thread=${thread}`;
            const { ranking } = (await (await fetch(url)).json()) as {
              ranking: { name: string; total_ns: number }[];
            };
            return ranking.map(({ name, total_ns }): [string, number] => [name, total_ns]);
          }),
        ),
      threads,
    );
    const times = rankings.map((ranking) => new Map(ranking));
    const heads = await page.locator(".ranked th[data-of]").allInnerTexts();
    expect(heads.map((text) => text.split(" ")[0])).toEqual(["lab-starve", "typing", "keyboard"]);
    for (const line of (await page.locator(".ranked tbody tr").all()).slice(0, 12)) {
      const name = await line.locator("[data-function]").innerText();
      const cells = (await line.locator("td").allInnerTexts()).slice(1, 1 + threads.length);
      const told = times.map((of) => (of.has(name) ? durationText(of.get(name) ?? 0) : "–"));
      expect({ name, cells }).toEqual({ name, cells: told });
    }
    await bed.screenshot(page, "starve butterfly of three threads");
    // Not of one thread, nor of those of the open stall.
    await goto("thread=83&form=butterfly");
    expect(await page.locator(".summed, .ranked th[data-of]").count()).toBe(0);
    await goto(`thread=${threads}&form=butterfly&stall=1&scope=victim`);
    expect(await page.locator(".summed, .ranked th[data-of]").count()).toBe(0);
    await page.getByRole("button", { name: "All", exact: true }).click();
    await page.getByRole("button", { name: "Compare two of them" }).click();
    await page.getByRole("region", { name: "Flame graph of two of 3 threads" }).waitFor();
    await settled(page);
    expect(await page.locator(".summed").count()).toBe(0);
  });

  test("an address that names an event only shows it", async () => {
    await page.goto(new URL("/?trace=starve.hitch&event=switch-100", bed.address).href);
    await page.locator("aside.details[data-event='switch-100']").waitFor();
    await settled(page);
    expect(new URL(page.url()).searchParams.get("event")).toBe("switch-100");
  });

  test("two threads are compared as a flame graph", async () => {
    const [one, other] = [83, 84];
    const query = `trace=starve.hitch&view=stacks&idle=1&thread=${one},${other}`;
    await page.goto(new URL(`/?${query}`, bed.address).href);
    await page.getByRole("button", { name: "Compare", exact: true }).click();
    const whole = page.locator(".diff-box").first();
    await whole.waitFor();
    await settled(page);
    const times = async () =>
      /^\(all\): (.+) in lab-starve .*, (.+) in typing /.exec(
        (await whole.getAttribute("title")) ?? "",
      );
    const totals = await page.evaluate(
      (threads) =>
        Promise.all(
          threads.map(async (thread) => {
            const url = `/api/t/starve.hitch/flame?of=wait&px=1000&thread=${thread}`;
            return ((await (await fetch(url)).json()) as { total: number }).total;
          }),
        ),
      [one, other],
    );
    expect((await times())?.slice(1)).toEqual(totals.map(durationText));
    const frame = (name: string) => page.locator(`.diff-box[data-frame$='${name}']`);
    expect(await frame("lock_document").getAttribute("title")).toMatch(/, not in lab-starve \d+$/);
    await page.getByRole("button", { name: "Swap both" }).click();
    await frame("lock_document").waitFor({ state: "detached" });
    expect(new URL(page.url()).searchParams.get("thread")).toBe(`${other},${one}`);
    await page.getByRole("button", { name: "Remove the selected thread" }).first().click();
    await page.getByText("threads are compared, two at a time").waitFor();
    // Of more than two, any two.
    await page.goto(new URL(`/?${query},3&form=compare`, bed.address).href);
    await frame("lock_document").waitFor();
    await page.getByLabel("Thread of the widths").selectOption("3");
    await frame("lock_document").waitFor({ state: "detached" });
    await page.getByLabel("Thread to compare with").selectOption("84");
    expect(new URL(page.url()).searchParams.get("thread")).toBe("84,3,83");
    await page.getByLabel("Thread of the widths").selectOption("84");
    await frame("lock_document").waitFor();
    expect(new URL(page.url()).searchParams.get("thread")).toBe("3,84,83");
  });
});
