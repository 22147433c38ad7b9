/** The report over a fleet, above the traces of its folder. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { REPORT } from "../fixtures/fleet";
import { expectAccessible } from "./axe";
import { commandsIn, expectZoomed, STARVE, settled, skipReason, TestBed } from "./harness";

describe.skipIf(skipReason("fleet") !== null)("fleet", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(
      (folder) => {
        TestBed.copy(STARVE)(folder);
        writeFileSync(join(folder, "report.json"), JSON.stringify(REPORT));
      },
      (folder) => ["--fleet", join(folder, "report.json")],
    );
    page = await bed.page();
    await page.waitForSelector(".fleet[data-ready=true]");
    await settled(page);
  });
  afterAll(() => bed?.stop());
  afterEach(async ({ task }) => {
    await bed.screenshot(page, `fleet ${task.name}`, task);
    bed.expectNoComplaints();
  });

  test("the report is above the list", async () => {
    const text = await page.locator(".fleet").innerText();
    expect(text).toContain("200 recordings of 40 machines");
    expect(text).toContain("lock starvation in release_document, by typing");
    expect(text).toContain("new since 2026-09-02");
    expect(text).toContain("<b>x</b>");
    expect(text).toContain("1 of 100");
    const coverage = page.getByRole("img", { name: "Coverage: 1: 75.0 %, 2: 100.0 %" });
    expect(await coverage.count()).toBe(1);
    await page.locator("[data-trace='starve.hitch']").waitFor();
    expect(await commandsIn(page)).toEqual([]);
  });

  test("axe finds nothing, dark and light", () => expectAccessible(page));

  test("an exemplar of this folder opens at its stall, others do not", async () => {
    const causes = page.getByRole("table", { name: "Causes" });
    expect(await causes.getByRole("button", { name: "elsewhere.hitch" }).count()).toBe(0);
    await causes.getByRole("button", { name: "starve.hitch" }).first().click();
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    const url = new URL(page.url()).searchParams;
    expect([url.get("trace"), url.get("stall")]).toEqual(["starve.hitch", "1"]);
    await expectZoomed(page);
    await page.goBack();
    await page.waitForSelector(".fleet[data-ready=true]");
  });
});
