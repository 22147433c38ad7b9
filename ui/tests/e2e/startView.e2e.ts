/** The start view: what traces open with, if the user chose it. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { open, STARVE, settled, skipReason, TestBed } from "./harness";

const KEY = "unhitch-look";

describe.skipIf(skipReason("start view") !== null)("start view", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start((folder) => {
      TestBed.copy(STARVE)(folder);
      cpSync(STARVE, join(folder, "other.hitch"));
    });
  });
  afterAll(() => bed?.stop());
  beforeEach(async () => {
    page = await bed.page();
    await page.waitForSelector("[data-trace]");
  });
  afterEach(({ task }) => bed.end(page, `start view ${task.name}`, task));

  const params = () => Object.fromEntries(new URL(page.url()).searchParams);
  const goto = async (query: string, wanted: string) => {
    await page.goto(new URL(`/${query}`, bed.address).href);
    await page.waitForSelector(wanted);
    await settled(page);
  };
  const choose = async (item: string) => {
    await page.getByRole("button", { name: "Start view" }).click();
    await page.getByRole("menuitem", { name: item }).click();
  };
  const told = (text: string) => page.getByText(text).first().waitFor({ state: "attached" });
  const openTrace = async (name: string, wanted: string) => {
    await goto("", "[data-trace]");
    await page.getByRole("button", { name, exact: true }).click();
    await page.waitForSelector(wanted);
    await settled(page);
  };
  const store = (text: string) =>
    page.evaluate(
      ([key, value]) => localStorage.setItem(key as string, value as string),
      [KEY, text],
    );
  const storeView = (query: string) => store(JSON.stringify({ start: query }));

  const VIEW = {
    view: "tables",
    layout: "view",
    by: "reason,thread",
    show: "count,sum:waited",
    where: "waited > 1ms",
    sort: "count:desc",
  };
  const OF_ONE_TRACE = { thread: "1", window: "0-900000000", range: "0-900000000", pins: "c0" };

  test("another trace opens with it, without what belonged to the first", async () => {
    const query = new URLSearchParams({ trace: "starve.hitch", ...VIEW, ...OF_ONE_TRACE });
    await goto(`?${query}`, ".grid");
    await choose("Open traces with this view");
    await told("From now on, traces open with this view.");
    await openTrace("other.hitch", ".grid-row");
    expect(params()).toEqual({ trace: "other.hitch", ...VIEW });
    // One step of the history.
    await page.goBack();
    await page.waitForSelector("[data-trace]");
    await page.goForward();
    await page.waitForSelector(".grid-row");
    expect(params()).toEqual({ trace: "other.hitch", ...VIEW });
    await settled(page);
  });

  test("from it, the answer is one step away, and one step back", async () => {
    await storeView("?view=stacks&form=icicle");
    await openTrace("other.hitch", ".stacks");
    await page.keyboard.press("Digit1");
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    await page.goBack();
    await page.waitForSelector(".stacks");
    expect(params()).toEqual({ trace: "other.hitch", view: "stacks", form: "icicle" });
    await settled(page);
  });

  test("an address wins", async () => {
    await storeView("?view=tables");
    await goto("?trace=starve.hitch", "[data-answer='1']");
    await goto("?trace=starve.hitch&view=stacks", ".stacks");
    expect(params()).toEqual({ trace: "starve.hitch", view: "stacks" });
    await page.reload();
    await page.waitForSelector(".stacks");
    await settled(page);
  });

  test("commands set and reset it", async () => {
    const command = async (title: string) => {
      await page.keyboard.press("Control+Shift+KeyP");
      await page.keyboard.type(title);
      await page.keyboard.press("Enter");
    };
    await goto("?trace=starve.hitch&view=tables", ".grid-row");
    await command("Open traces with this view");
    await told("From now on, traces open with this view.");
    await openTrace("other.hitch", ".grid-row");
    await command("Open traces on their answer");
    await told("From now on, traces open on their answer.");
    await openTrace("other.hitch", "[data-answer='1']");
    await page.getByRole("tab", { name: "Tables" }).click({ button: "right" });
    const reset = page.getByRole("menuitem", { name: "Open traces on their answer" });
    expect(await reset.getAttribute("aria-disabled")).toBe("true");
    await page.keyboard.press("Escape");
  });

  test("a filter that names a thread is not kept, and this is said", async () => {
    await goto("?trace=starve.hitch&view=tables&by=reason&where=tid+!%3D+7", ".grid-row");
    await choose("Open traces with this view");
    await told("but without its filter");
    await openTrace("other.hitch", ".grid-row");
    expect(params()).toEqual({ trace: "other.hitch", view: "tables", by: "reason" });
  });

  test("another tab does not undo it", async () => {
    const second = await page.context().newPage();
    await second.goto(new URL("/", bed.address).href);
    await second.waitForSelector("[data-trace]");
    await open(page, "starve.hitch");
    await page.keyboard.press("Digit3");
    await page.waitForSelector(".stacks");
    await choose("Open traces with this view");
    await told("From now on, traces open with this view.");
    await second.bringToFront();
    await second.getByRole("button", { name: "Light colours" }).click();
    await second.getByRole("button", { name: "other.hitch", exact: true }).click();
    await second.waitForSelector(".stacks");
    await settled(second);
    const stored = await second.evaluate((key) => localStorage.getItem(key) ?? "", KEY);
    expect(JSON.parse(stored)).toMatchObject({ theme: "light", start: "?view=stacks" });
  });

  test("what cannot be shown is left out, or the trace opens on its answer", async () => {
    for (const text of [
      "null",
      "7",
      "{",
      '{"start":{"view":"tables"},"theme":["x"],"wheel":null}',
      JSON.stringify({ start: `?view=stacks&function=${"x".repeat(5000)}` }),
    ]) {
      await store(text);
      await openTrace("other.hitch", "[data-answer='1']");
    }
    for (const query of [
      '{"version":2,"view":"tables"}',
      "?view=none&layout=7&stall=1&thread=99",
      "?view=tables&table=gone&preset=gone&layout=view",
    ]) {
      await storeView(query);
      await openTrace("other.hitch", "[data-answer='1']");
      expect([params().layout, params().table]).toEqual([undefined, undefined]);
    }
    await storeView(
      "?view=tables&by=reason,gone&show=count,sum:thread,gone&graph=avg:tid&sort=sum:thread:desc" +
        "&where=gone+%3E+5&over=gone&trace=gone.hitch",
    );
    await openTrace("other.hitch", ".grid-row");
    const heads = page.locator("[role=columnheader]");
    expect(
      await heads.evaluateAll((all) => all.map((e) => (e as HTMLElement).dataset.column)),
    ).toEqual(["reason", "count"]);
  });
});

describe.skipIf(skipReason("start view, single") !== null)("start view of a single trace", () => {
  test("it opens with the start view, unless the address says what to show", async () => {
    const bed = await TestBed.single(STARVE);
    try {
      const page = await bed.page();
      await page.waitForSelector("[data-answer='1']");
      await settled(page);
      await page.evaluate((key) => localStorage.setItem(key, '{"start":"?view=tables"}'), KEY);
      await page.goto(new URL("/", bed.address).href);
      await page.waitForSelector(".grid-row");
      await settled(page);
      await page.goto(new URL("/?view=stacks", bed.address).href);
      await page.waitForSelector(".stacks");
      await settled(page);
      bed.expectNoComplaints();
    } finally {
      await bed.stop();
    }
  });
});
