/** A table: its filter is marked where it is wrong, and completed while it is typed; groups open. */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { STARVE, settled, skipReason, TestBed } from "./harness";

describe.skipIf(skipReason("a table") !== null)("a table", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
  });
  afterAll(() => bed?.stop());
  beforeEach(async () => {
    page = await bed.page("trace=starve.hitch&view=tables");
    await page.locator(".grid-row").first().waitFor();
    await settled(page);
  });
  afterEach(({ task }) => bed.end(page, `table ${task.name}`, task));

  test("a wrong filter is marked where it is wrong, and the last table stays", async () => {
    const before = await page.locator(".grid-row").allInnerTexts();
    expect(before.length).toBeGreaterThan(0);
    const field = page.getByRole("combobox", { name: "Filter" });
    await field.fill("waited >> 5");
    await field.blur();
    const problem = page.locator(".filter-problem");
    await problem.waitFor();
    expect(await problem.locator("mark").innerText()).toBe("> 5");
    expect(await problem.innerText()).toMatch(/expected/);
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    expect(await page.locator(".grid-row").allInnerTexts()).toEqual(before);
    await bed.screenshot(page, "a wrong filter");
    await field.fill("");
    await field.blur();
    await problem.waitFor({ state: "detached" });
    // The browser reports the 400, which is expected.
    bed.allow(/status of 400/);
  });

  test("a filter is completed: columns, operators, values", async () => {
    const field = page.getByRole("combobox", { name: "Filter" });
    const choose = async (name: string) => {
      await page.getByRole("option", { name, exact: false }).first().waitFor();
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
    };
    await field.click();
    await page.keyboard.type("reas");
    await choose("reason");
    await page.getByRole("option", { name: "contains" }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.keyboard.type("lo");
    await choose("lock");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Enter");
    await page.waitForFunction(
      () => new URLSearchParams(location.search).get("where") === "reason = lock",
    );
  });

  test("numbers are completed by the most frequent ones, durations by usual ones", async () => {
    const field = page.getByRole("combobox", { name: "Filter" });
    const options = page.getByRole("listbox", { name: "Completions" }).getByRole("option");
    for (const [typed, hint] of [
      ["tid = ", /^\d+\s+[\d,]+ rows?$/],
      ["cpu = ", /^[01]\s+[\d,]+ rows?$/],
      ["waited > ", /^1ms/],
    ] as const) {
      await field.fill("");
      await field.pressSequentially(typed);
      await expect.poll(async () => (await options.allInnerTexts())[0] ?? "").toMatch(hint);
    }
  });

  test("a group that has just been opened is busy from its first frame until its rows are there", async () => {
    let answer = () => {};
    const held = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route(/\/table\?/, async (route) => {
      await held;
      await route.continue();
    });
    const told = await page.evaluate(async () => {
      document.querySelector<HTMLElement>(".grid-row .cell")?.click();
      await new Promise(requestAnimationFrame);
      const rows = [...document.querySelectorAll<HTMLElement>(".grid-row[data-depth='1']")];
      return {
        missing: rows.some((row) => row.innerText.includes("…")),
        busy: document.querySelector(".grid")?.ariaBusy,
      };
    });
    expect(told).toEqual({ missing: true, busy: "true" });
    answer();
    await settled(page);
    await page.unroute(/\/table\?/);
    expect(await page.locator(".grid-row[data-depth='1']", { hasText: "…" }).count()).toBe(0);
  });
});
