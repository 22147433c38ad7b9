/** The report over a fleet, above the traces of its folder. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { STARVE, settled, skipReason, TestBed } from "./harness";

const exemplars = [
  { file: "/srv/traces/starve.hitch", trace_id: "0", stall: 1, duration_ns: 2.8e9 },
  { file: "/srv/traces/elsewhere.hitch", trace_id: "1", stall: 1, duration_ns: 2e9 },
];
const cause = {
  pattern: "lock_starvation",
  culprit: "typing",
  function: "release_document",
  stalls: 12,
  hosts: 3,
  total_ns: 9e9,
  worst_ns: 2.8e9,
  share: 0.75,
  first_day: "2026-09-02",
  is_new: true,
  exemplars,
};
const side = (build: string, hits: number) => ({ build_id: build.repeat(20), traces: 100, hits });
const REPORT = {
  version: 1,
  fleet: {
    traces: 200,
    hosts: 40,
    first_day: "2026-09-01",
    last_day: "2026-09-30",
    stalls: 16,
    with_stalls: 14,
    with_losses: 0,
    total_ns: 12e9,
  },
  since: "2026-09-02",
  causes: [
    cause,
    { ...cause, pattern: "io_wait", function: "<b>x</b>", is_new: false, share: 0.25 },
  ],
  coverage: [
    { causes: 1, share: 0.75 },
    { causes: 2, share: 1 },
  ],
  regressions: [
    {
      change: "worse",
      program: "editor",
      pattern: "lock_starvation",
      function: "release_document",
      before: side("e0", 1),
      after: side("e1", 11),
      false_discovery_rate: 0.002,
    },
  ],
  contrast: [],
  clusters: [
    {
      stalls: 12,
      total_ns: 9e9,
      pattern: "lock_starvation",
      function: "release_document",
      exemplars,
    },
  ],
};

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
    await bed.screenshot(page, `fleet ${task.name}`);
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
  });

  test("an exemplar of this folder opens at its stall, others do not", async () => {
    const causes = page.getByRole("table", { name: "Causes" });
    expect(await causes.getByRole("button", { name: "elsewhere.hitch" }).count()).toBe(0);
    await causes.getByRole("button", { name: "starve.hitch" }).first().click();
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    const url = new URL(page.url()).searchParams;
    expect([url.get("trace"), url.get("stall")]).toEqual(["starve.hitch", "1"]);
    await page.goBack();
    await page.waitForSelector(".fleet[data-ready=true]");
  });
});
