/**
 * The three famous investigations, each solved by mouse only: the answer, its chain link by link,
 * and the evidence behind it.
 */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { geometry } from "../../src/timeline/data/scene";
import {
  commandsIn,
  open,
  settled,
  shownWindow,
  skipReason,
  TestBed,
  walkBack,
  writeGolden,
} from "./harness";

describe.skipIf(skipReason("golden") !== null)("golden", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(writeGolden);
  });
  afterAll(() => bed?.stop());
  beforeEach(async () => {
    page = await bed.page();
  });
  afterEach(({ task }) => bed.end(page, `golden ${task.name}`, task));

  /** A row of the table below the bar. */
  const part = async (at: number) =>
    (await page.locator(".parts tr").nth(at).innerText()).replace(/\s+/g, " ").trim();
  const details = () => page.locator(".details[data-event]:not([data-event=''])");

  test("24 cores and I cannot type an email: a lock that is never handed over", async () => {
    await open(page, "type-an-email.hitch");
    expect(await page.locator(".answer h1").innerText()).toMatch(
      /HANG 2\.810 s\s+CrRendererMain 27372/,
    );
    const sections = await page.locator(".tl-tree [data-section^=p]").allInnerTexts();
    expect(sections).toContain("chrome 27368, 2 lanes");
    expect(sections).toContain("WmiPrvSE 5824, 1 lane");
    expect(await page.locator(".cause").innerText()).toMatch(
      /lock starvation.*WmiPrvSE 31640.*NtQueryVirtualMemory/s,
    );
    expect(await part(0)).toMatch(/^2\.785 s 99\.1 % lock held by WmiPrvSE 31640/);
    // The whole chain is one thread's waits, all ended by the same other thread.
    const links = await walkBack(page);
    for (const link of links) {
      expect(link).toMatch(/^CrRendererMain 27372 .*waited \(lock\) for .*, until WmiPrvSE 31640 /);
      expect(link).toContain(" woke it (task; direct evidence)");
    }
    expect(links[0]).toContain("woken from ProviderThread → CollectSysProcessObjectData");
    // Who woke it, each of the 440 times?
    await page.getByRole("tab", { name: "Tables" }).click();
    await page.getByRole("button", { name: "Who wakes" }).click();
    await settled(page);
    expect(await page.locator(".grid").innerText()).toContain("WmiPrvSE");
    // And what was it doing meanwhile?
    await page.getByRole("tab", { name: "Stacks" }).click();
    await page.getByRole("button", { name: "Samples" }).click();
    await page.getByRole("button", { name: "Butterfly" }).click();
    await settled(page);
    const row = page.locator(".ranked tr", {
      has: page.locator("[data-function='NtQueryVirtualMemory']"),
    });
    expect(await row.innerText()).toMatch(/^2\.810 s\s+96\.0 %/);
  });

  test("24 cores and I cannot move my mouse: processes that exit one at a time", async () => {
    await open(page, "move-my-mouse.hitch");
    expect(await page.locator(".answer h1").innerText()).toMatch(/HANG 1\.125 s\s+Taskmgr 69196/);
    expect(await page.locator(".cause").innerText()).toMatch(/saturated lock.*NtGdiCloseProcess/s);
    // Whoever is in the queue, an exiting process hands the lock off.
    const links = await walkBack(page);
    expect(links.length).toBeGreaterThan(4);
    const ended = links.filter(
      (link) =>
        /^.* waited \(lock\) for .*, until gomacc \d+ /.test(link) &&
        /woke it \(task; (direct|inferred) evidence\)/.test(link) &&
        /woken from .*NtGdiCloseProcess/.test(link),
    );
    expect(ended.length * 2).toBeGreaterThan(links.length);
    expect(links.some((link) => link.startsWith("Taskmgr 69196"))).toBe(true);
    // The waker links to the wake-up: waker, woken thread, stack.
    await page.locator(".link-details .text-link").click();
    await details().waitFor();
    await settled(page);
    expect(await details().innerText()).toMatch(/Wake-up.*Woken from.*LeaveCrit/s);
    await page.getByRole("tab", { name: "Stacks" }).click();
    await page.getByRole("button", { name: "Wakes" }).click();
    await page.getByRole("button", { name: "Butterfly" }).click();
    await settled(page);
    const row = page.locator(".ranked tr", {
      has: page.locator("[data-function='NtGdiCloseProcess']"),
    });
    expect(await row.innerText()).toMatch(/^63\.300 s\s.*\s5,768\s/s);
    await row.locator("[data-function]").click();
    await settled(page);
    expect(await page.locator(".wing").first().innerText()).toContain("W32pProcessCallout");
    expect(await page.locator(".wing").last().innerText()).toContain("ExReleaseResourceLite");
  });

  test("[ and ] step through a chain of many links", async () => {
    await open(page, "move-my-mouse.hitch");
    const { chain } = await page.evaluate(
      async () =>
        (await (await fetch("/api/t/move-my-mouse.hitch/stall/1")).json()) as {
          chain: { who: { name: string; tid: number }; from: number; to: number }[];
        },
    );
    expect(chain.length).toBeGreaterThan(2);
    const last = chain.length - 1;
    for (const [key, to] of [
      ["BracketLeft", last],
      ["BracketLeft", last - 1],
      ["BracketLeft", last - 2],
      ["BracketRight", last - 1],
      ["BracketRight", last],
    ] as const) {
      await page.keyboard.press(key);
      await page.waitForSelector(`[data-link='${to}']`);
      await settled(page);
      expect(new URL(page.url()).searchParams.get("hop")).toBe(String(to));
      const [link, shown] = [chain[to], await shownWindow(page)];
      expect(await page.locator(".link-details").innerText()).toContain(
        `${link?.who.name} ${link?.who.tid}`,
      );
      expect(link !== undefined && link.from < shown.to && shown.from < link.to).toBe(true);
    }
  });

  test("63 cores blocked by seven instructions: a lock held during a bitmap search", async () => {
    await open(page, "sixty-three-cores.hitch");
    expect(await page.locator(".answer h1").innerText()).toMatch(/STALL 3\.368 s\s+whole machine/);
    expect(await page.locator(".cause").innerText()).toMatch(
      /long lock hold.*System 3276.*RtlFindNextForwardRunClear/s,
    );
    expect(await part(0)).toMatch(/^3\.368 s 99\.9 % lock held by System 3276/);
    const links = await walkBack(page);
    expect(
      links.some((link) =>
        /waited \(lock\) for 3\.\d+ s .*, until System 3276 .*woke it/.test(link),
      ),
    ).toBe(true);
    // The sentence leads to the instructions; it names no command that would list them.
    expect(await commandsIn(page)).toEqual([]);
    await page.getByRole("button", { name: "one instruction", exact: true }).click();
    await page.getByRole("region", { name: /RtlFindNextForwardRunClear/ }).waitFor();
    await settled(page);
    // One instruction has nearly all samples.
    const counts = (await page.locator(".code td.num").allInnerTexts()).map((text) =>
      Number(text.replace(/\D/g, "")),
    );
    expect(Math.max(...counts)).toBe(7498);
    // A click in the overview goes back to the answer.
    await page.locator("[data-stall='1']").click();
    await page.waitForSelector("[data-answer='1']");
  });

  test("a Windows trace: the report of Windows links to its event, stacks have names", async () => {
    await open(page, "move-my-mouse.etl");
    expect(await page.locator(".answer h1").innerText()).toMatch(
      /HANG 1\.125 s\s+Taskmgr\.exe 69196/,
    );
    expect(await page.locator("[data-stall-row='1']").innerText()).toContain("UI delay");
    await page
      .getByRole("button", {
        name: "Windows reported that this thread did not look at its messages for 1.125 s",
      })
      .click();
    await details().waitFor();
    expect(new URL(page.url()).searchParams.get("event")).toMatch(/^provider-\d+$/);
    expect(await details().innerText()).toMatch(
      /Microsoft-Windows-Win32k.*Taskmgr\.exe 69196.*DelayTimeMs\s+1125/s,
    );
    // The event is in the URL.
    await page.reload();
    await details().waitFor();
    await settled(page);
    const links = await walkBack(page);
    expect(
      links.some((link) =>
        /^Taskmgr\.exe 69196 .*waited \(lock\) for .*, until gomacc\.exe \d+/.test(link),
      ),
    ).toBe(true);
    await page.getByRole("tab", { name: "Stacks" }).click();
    await page.getByRole("button", { name: "Wakes" }).click();
    await settled(page);
    expect(await page.locator(".flame [data-frame='main']").innerText()).toMatch(
      /^main, 6\d\.\d+ s, .* of the total, 5,\d+ wake-ups, .*gomacc/,
    );
    await page.getByRole("button", { name: "Butterfly" }).click();
    await settled(page);
    const row = page.locator(".ranked tr", {
      has: page.locator("[data-function='NtGdiCloseProcess']"),
    });
    expect(await row.innerText()).toMatch(/^63\.300 s\s.*\s5,768\s/s);
    // An .etl file cannot store notes, so there is no field for them.
    await page.getByRole("button", { name: "Notes", exact: true }).click();
    expect(await page.getByRole("dialog", { name: "Notes" }).innerText()).toContain(
      "cannot store notes",
    );
    expect(await page.getByRole("dialog", { name: "Notes" }).getByRole("textbox").count()).toBe(0);
    await page.getByRole("button", { name: "Close", exact: true }).click();
  });

  test("a Windows trace: key presses are marked on the timeline, but never which key", async () => {
    await open(page, "type-an-email.etl");
    expect(await page.locator(".answer h1").innerText()).toMatch(
      /HANG 2\.810 s\s+CrRendererMain 27372/,
    );
    await page.getByRole("button", { name: /^28 keys$/ }).click();
    await details().waitFor();
    await settled(page);
    expect(await details().innerText()).toMatch(/Provider event.*\(private\)/s);
    // The first key press is where the window begins, after its margin.
    const [shown, box] = [await shownWindow(page), await page.locator(".timeline").boundingBox()];
    const marks = await page.evaluate(
      async () =>
        (await (await fetch(`/api/t/type-an-email.etl/marks`)).json()) as {
          marks: { time: number; kind: string }[];
        },
    );
    const first = marks.marks.find((mark) => mark.kind === "input" && mark.time > shown.from);
    if (!box || !first) throw new Error("no mark is shown");
    const { labels, marks: row } = geometry(box.width, box.height);
    const x = labels + ((first.time - shown.from) / (shown.to - shown.from)) * (box.width - labels);
    await page.mouse.move(box.x + x, box.y + row.top + row.height / 2);
    await page.waitForFunction(() =>
      document.querySelector(".tl-tip")?.textContent?.includes("input: a key"),
    );
  });

  test("groups of one name are told apart, and their sums agree", async () => {
    const cells = async (depth: number) =>
      page
        .locator(`.grid-row[data-depth='${depth}']:not(.totals)`)
        .evaluateAll((rows) =>
          rows.map((row) =>
            [...row.querySelectorAll<HTMLElement>(".cell")].map((cell) => cell.innerText),
          ),
        );
    const sum = (rows: string[][], at: number) =>
      rows.reduce((all, row) => all + Number.parseFloat((row[at] ?? "").replace(",", "")), 0);
    for (const [name, id] of [
      ["process", "pid"],
      ["thread", "tid"],
    ]) {
      const query = new URLSearchParams({
        trace: "move-my-mouse.hitch",
        view: "tables",
        table: "waits",
        by: name ?? "",
        show: "count,sum:waited",
        where: `${name} = conhost`,
      });
      await page.goto(new URL(`/?${query}`, bed.address).href);
      await settled(page);
      const together = await cells(0);
      expect(together.length).toBe(1);
      await page.locator(`.head[data-column=${name}]`).click({ button: "right" });
      await page.getByRole("menuitem", { name: "Tell those of one name apart" }).click();
      await page.waitForSelector(`.head[data-column=${id}]`);
      await settled(page);
      expect((await cells(0)).map((row) => row.length)).toEqual([4]);
      await page.locator(".grid-row[data-depth='0'] .cell").first().click();
      await page.waitForSelector(".grid-row[data-depth='1']");
      await settled(page);
      const apart = await cells(1);
      expect(new Set(apart.map((row) => row[1])).size).toBe(2);
      expect(sum(apart, 2)).toBe(sum(together, 1));
      expect(sum(apart, 3)).toBeCloseTo(sum(together, 2), 2);
    }
  });
});
