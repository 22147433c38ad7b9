/** Two traces of the folder side by side. */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { StallAnswer } from "../../src/api/types";
import { axeFindings } from "./axe";
import { commandsIn, STARVE, settled, skipReason, TestBed, writeGolden } from "./harness";

describe.skipIf(skipReason("diff") !== null)("diff", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(async (folder) => {
      await writeGolden(folder);
      TestBed.copy(STARVE)(folder);
    });
    page = await bed.page();
    await settled(page);
  });
  afterAll(() => bed?.stop());
  afterEach(async ({ task }) => {
    await bed.screenshot(page, `diff ${task.name}`, task);
    bed.expectNoComplaints();
  });

  const at = (name: string) => new URL(page.url()).searchParams.get(name);
  const press = (name: string) => page.getByRole("button", { name, exact: true }).click();
  const boxes = () => page.locator(".diff-box");

  test("two selected rows of the folder are compared", async () => {
    await page.getByRole("checkbox", { name: "Select move-my-mouse.hitch" }).check();
    expect(await page.locator(".trace-chosen").innerText()).toContain("Select a second trace");
    await page.getByRole("checkbox", { name: "Select type-an-email.hitch" }).check();
    await page.getByRole("button", { name: /^Compare / }).click();
    await page.getByRole("heading", { name: "What differs" }).waitFor();
    await settled(page);
    expect([at("before"), at("after")].sort()).toEqual([
      "move-my-mouse.hitch",
      "type-an-email.hitch",
    ]);
    expect(await commandsIn(page)).toEqual([]);
  });

  test("both answers, and a difference that sums to the nanosecond", async () => {
    await page.goto(
      new URL("/?before=type-an-email.hitch&after=move-my-mouse.hitch", bed.address).href,
    );
    await settled(page);
    const before = page.getByRole("region", { name: "Before" });
    expect(await before.innerText()).toMatch(/HANG 2\.810 s.*lock starvation/s);
    expect(await page.locator(".diff-verdict").innerText()).toContain("hung for 2.810 s before");
    const sum = page.locator(".diff-parts .sum");
    expect(await sum.getAttribute("data-sum")).toBe(await sum.getAttribute("data-difference"));
    expect(await sum.innerText()).toContain("to the nanosecond");
    // Lines and sum agree with the server.
    const { partition, difference_ns } = await page.evaluate(async () => {
      const answer = (await (
        await fetch(`/api/diff?before=type-an-email.hitch&after=move-my-mouse.hitch`)
      ).json()) as {
        diff: { stall: { partition: { difference_ns: number }[]; difference_ns: number } };
      };
      return answer.diff.stall;
    });
    expect(await page.locator(".diff-parts tbody tr").count()).toBe(partition.length + 1);
    expect(Number(await sum.getAttribute("data-sum"))).toBe(difference_ns);
    // The thread did not wait after: there is nothing to draw then, and all of before is gone.
    await page.getByText("There are no such stacks after.").waitFor();
    await press("Widths of before");
    await settled(page);
    expect(await boxes().first().getAttribute("title")).toMatch(
      /^\(all\): 2\.7\d\d s before, 0 ns after, gone$/,
    );
    await press("Widths of after");
    await settled(page);
  });

  test("both bars have one scale", async () => {
    // No two of these traces have the same thread's stall, so the one after is made up.
    const answers = "**/api/diff?**";
    await page.route(answers, async (route) => {
      const response = await route.fetch();
      const answer = (await response.json()) as { before: StallAnswer };
      const partition = answer.before.partition.map((part) => ({ ...part, ns: part.ns / 4 }));
      const after = { ...answer.before, duration_ns: answer.before.duration_ns / 4, partition };
      await route.fulfill({ response, json: { ...answer, after } });
    });
    await page.reload();
    await settled(page);
    const bar = (side: string) =>
      page
        .getByRole("img", { name: `Where the time went ${side}` })
        .evaluate((svg) =>
          [...svg.querySelectorAll(":scope > rect")].reduce(
            (sum, part) => sum + part.getBoundingClientRect().width,
            0,
          ),
        );
    const room = await page
      .getByRole("region", { name: "Before" })
      .locator(".compare-bar")
      .evaluate((box) => box.getBoundingClientRect().width);
    expect(Math.abs((await bar("before")) - room)).toBeLessThan(1);
    expect(Math.abs((await bar("after")) - room / 4)).toBeLessThan(1);
    await page.unroute(answers);
    await page.reload();
    await settled(page);
  });

  test("the flame graph has both directions", async () => {
    await press("Whole recordings");
    await settled(page);
    const names = async () =>
      new Set(await boxes().evaluateAll((all) => all.map((box) => box.getAttribute("data-frame"))));
    const after = await names();
    expect(await boxes().first().getAttribute("title")).toMatch(/per second/);
    await press("Widths of before");
    await settled(page);
    expect(at("widths")).toBe("before");
    const before = await names();
    expect(before).not.toEqual(after);
    // What is gone is seen only with the widths of before, and says so.
    const gone = page.locator(".diff-box[title$=', gone']").first();
    const name = await gone.getAttribute("data-frame");
    expect(await gone.innerText()).toMatch(/^▼/);
    await press("Widths of after");
    await settled(page);
    expect(await page.locator(".diff-box[title$=', gone']").count()).toBe(0);
    expect(name).not.toBe("");
  });

  test("a frame fills the width by a click, and by keys", async () => {
    const width = (n: number) =>
      boxes()
        .nth(n)
        .evaluate((box) => box.getBoundingClientRect().width);
    const whole = await width(0);
    const narrow = await boxes().evaluateAll(
      (all, full) => all.findIndex((box) => box.getBoundingClientRect().width < full * 0.7),
      whole,
    );
    const name = await boxes().nth(narrow).getAttribute("data-box");
    await page.locator(`[data-box='${name}']`).click();
    expect(
      await page.locator(`[data-box='${name}']`).evaluate((b) => b.getBoundingClientRect().width),
    ).toBeCloseTo(whole, 0);
    await page.locator("[data-box='0']").focus();
    await page.keyboard.press("Enter");
    expect(
      await page.locator(`[data-box='${name}']`).evaluate((b) => b.getBoundingClientRect().width),
    ).toBeLessThan(whole * 0.7);
  });

  test("the address has it all, and Back leads to the folder", async () => {
    await press("Samples");
    await settled(page);
    const address = page.url();
    await page.reload();
    await settled(page);
    expect(page.url()).toBe(address);
    expect(await page.getByRole("button", { name: "Samples" }).getAttribute("aria-pressed")).toBe(
      "true",
    );
    const sides = [at("before"), at("after")];
    await press("Swap before and after");
    await settled(page);
    expect([at("after"), at("before")]).toEqual(sides);
    await page.goBack();
    await settled(page);
    expect([at("before"), at("after")]).toEqual(sides);
    await press("All traces");
    await page.waitForSelector("[data-trace]");
    expect(at("before")).toBeNull();
  });

  test("axe finds nothing, dark and light", async () => {
    await page.goto(
      new URL("/?before=type-an-email.hitch&after=move-my-mouse.hitch", bed.address).href,
    );
    for (const theme of ["dark", "light"]) {
      await settled(page);
      expect({ theme, found: await axeFindings(page) }).toEqual({ theme, found: [] });
      await page.keyboard.press("KeyT");
    }
  });

  test("a trace that is not there is an error with a way back", async () => {
    await page.goto(new URL("/?before=type-an-email.hitch&after=none.hitch", bed.address).href);
    await page.locator(".error-box").waitFor();
    bed.allow(/status of 404/);
    await press("All traces");
    await page.waitForSelector("[data-trace]");
  });
});
