/** Recordings without a stall: the page says why, and leads on without a command line. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { quiet, samplesOnly } from "../fixtures/quiet";
import { commandsIn, settled, skipReason, TestBed } from "./harness";

describe.skipIf(skipReason("quiet") !== null)("without a stall", () => {
  let bed: TestBed;

  beforeAll(async () => {
    bed = await TestBed.start((folder) => {
      writeFileSync(join(folder, "quiet.txt"), quiet());
      writeFileSync(join(folder, "samples.txt"), samplesOnly());
      // Names that traces are saved with, and no traces inside.
      for (const name of ["cut.perfetto-trace", "cut.pftrace", "trace.dat"])
        writeFileSync(join(folder, name), "Dear Sir or Madam");
    });
  });
  afterAll(() => bed?.stop());
  afterEach(() => bed.expectNoComplaints());

  test("the page leads on: drag over a time on a lane, press E", async ({ task }) => {
    const page = await bed.page("trace=quiet.txt");
    await page.getByRole("heading", { name: "No stall was found" }).waitFor();
    await settled(page);
    const text = await page.locator(".answers").innerText();
    expect(text).toMatch(/No stall found in 1\.95\d s on 1 CPU/);
    expect(await commandsIn(page)).toEqual([]);
    // No stall, and nothing in the colour of one.
    expect(await page.locator("[data-stall]").count()).toBe(0);
    const red = await page.evaluate(() => {
      const probe = document.body.appendChild(document.createElement("i"));
      probe.style.color = "var(--bad)";
      const bad = getComputedStyle(probe).color;
      probe.remove();
      return [...document.querySelectorAll("main *, .overview *")].filter((element) => {
        const { backgroundColor, borderLeftColor, borderLeftWidth, fill } =
          getComputedStyle(element);
        const border = borderLeftWidth === "0px" ? "" : borderLeftColor;
        return [backgroundColor, border, fill].includes(bad);
      }).length;
    });
    expect(red).toBe(0);
    const steps = await page.locator(".answers-text li").allInnerTexts();
    expect(steps.map((step) => step.split(/[ .]/)[0])).toEqual(["Click", "Drag", "Press"]);
    // They do as they say.
    const plot = await page.locator(".tl-over").boundingBox();
    if (!plot) throw new Error("no timeline");
    const lane = page.locator(".tl-tree [data-lane^='t']").first();
    const head = await page.locator(".timeline").getAttribute("data-head");
    const y = plot.y + Number(head) + Number(await lane.getAttribute("data-top")) + 8;
    await page.mouse.move(plot.x + plot.width * 0.4, y);
    await page.mouse.down();
    await page.mouse.move(plot.x + plot.width * 0.7, y, { steps: 4 });
    await page.mouse.up();
    await page.waitForSelector("[data-swept]");
    await page.keyboard.press("KeyE");
    await page.locator(".answer h1").waitFor();
    await settled(page);
    expect(await page.locator(".parts .sum").innerText()).toContain("the whole time range");
    await bed.screenshot(page, task.name, task);
  });

  test("samples alone: what is missing, how to record it, no command for what is here", async ({
    task,
  }) => {
    const page = await bed.page("trace=samples.txt");
    await page.getByRole("heading", { name: "No answer" }).waitFor();
    await settled(page);
    const text = await page.locator(".answers").innerText();
    expect(text).toMatch(/no context switches/);
    expect(text).toMatch(/Record with/);
    expect(await commandsIn(page)).toEqual([]);
    await bed.screenshot(page, task.name, task);
  });

  test("files that are called like another tool's traces are listed with what is wrong", async () => {
    const page = await bed.page();
    await settled(page);
    for (const name of ["cut.perfetto-trace", "cut.pftrace", "trace.dat"])
      expect(await page.locator(`[data-trace='${name}'] .trace-error`).innerText()).toMatch(
        /this is no trace/,
      );
  });
});
