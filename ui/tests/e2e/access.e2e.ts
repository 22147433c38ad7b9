/**
 * Accessibility: keyboard only, screen readers, both themes, small and large screens, and the size
 * of the first load.
 */
import { gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { axeFindings, expectAccessible } from "./axe";
import { STARVE, settled, skipReason, TestBed } from "./harness";

/** Maximum size of the first load, in bytes after gzip. */
const MAX_FIRST_LOAD = 150_000;

describe.skipIf(skipReason("access") !== null)("access", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
  });
  afterAll(() => bed?.stop());
  beforeEach(async () => {
    page = await bed.page("trace=starve.hitch");
    await page.waitForSelector("[data-answer]");
    await settled(page);
  });
  afterEach(({ task }) => bed.end(page, `access ${task.name}`, task));

  test("no view has a serious finding", async () => {
    for (const [key, ready] of [
      ["Digit1", "[data-answer]"],
      ["Digit2", ".tables"],
      ["Digit3", ".stacks"],
    ] as const) {
      await page.keyboard.press(key);
      await page.waitForSelector(ready);
      await settled(page);
      await expectAccessible(page);
    }
    await page.getByRole("button", { name: "Butterfly" }).click();
    await settled(page);
    await expectAccessible(page);
    await page.keyboard.press("Shift+Slash");
    await page.waitForSelector("dialog");
    await expectAccessible(page);
  });

  test("an event's details and an open menu have no serious finding", async () => {
    await page.locator(".answer .text-link[title*='event']").first().click();
    await page.waitForSelector(".details[data-event]:not([data-event=''])");
    await settled(page);
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("button", { name: "Copy ▾" }).click();
    await page.waitForSelector("[role=menu]");
    expect(await axeFindings(page)).toEqual([]);
  });

  test("the box of a drag has no serious finding, and its Compare leads on", async () => {
    const address = new URL(page.url());
    address.searchParams.set("swept", "3,4");
    await page.goto(address.href);
    await page.waitForSelector("[data-swept] ~ [data-swept]");
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("button", { name: "Compare", exact: true }).click();
    await page.waitForSelector("[data-compare='2']");
    expect(await page.locator(".tl-swept").count()).toBe(0);
  });

  test("the focus goes to the lanes from a box of a drag that is gone", async () => {
    const address = new URL(page.url());
    address.searchParams.set("range", "500000000-1500000000");
    address.searchParams.set("swept", "3,4");
    const focused = () => page.evaluate(() => document.activeElement?.className);
    for (const button of ["header .btn >> nth=0", "header .btn >> nth=1", "dt button >> nth=0"]) {
      await page.goto(address.href);
      await page.waitForSelector("[data-swept] ~ [data-swept]");
      await settled(page);
      await page.locator(`.tl-swept ${button}`).focus();
      await page.keyboard.press("Enter");
      await page.locator(".tl-swept").waitFor({ state: "detached" });
      expect(await focused()).toBe("tl-tree");
    }
    // By mouse, no lane is framed.
    await page.goto(address.href);
    await page.waitForSelector("[data-swept] ~ [data-swept]");
    await settled(page);
    await page.locator(".tl-swept dt button").first().click();
    await page.locator(".tl-swept").waitFor({ state: "detached" });
    expect(await focused()).not.toBe("tl-tree");
  });

  test("the list of traces has no serious finding", async () => {
    await page.goto(new URL("/", bed.address).href);
    await page.waitForSelector("[data-trace]");
    expect(await axeFindings(page)).toEqual([]);
  });

  test("the evidence, and ten rows of a table, are above the fold at 1280 × 720", async () => {
    const view = await page.locator(".answers-text").boundingBox();
    const evidence = await page.locator(".clause.evidence").boundingBox();
    if (!view || !evidence) throw new Error("no evidence");
    expect(evidence.y + evidence.height).toBeLessThan(view.y + view.height);
    for (const by of ["thread", "process,thread", "none"]) {
      const address = new URL("/?trace=starve.hitch&view=tables", page.url());
      address.searchParams.set("by", by);
      await page.goto(address.href);
      await page.waitForSelector(".grid-row");
      await settled(page);
      const room = await page.locator(".split-bar").boundingBox();
      const rows = await page.locator(".grid-row").evaluateAll(
        (list, bottom) =>
          list.filter((row) => {
            const box = row.getBoundingClientRect();
            // The sum below the table covers the last 20 px.
            return box.height > 0 && box.bottom <= bottom - 20;
          }).length,
        room?.y ?? 0,
      );
      expect(rows, by).toBeGreaterThanOrEqual(10);
    }
  });

  test("the palette runs a command by keyboard only", async () => {
    await page.keyboard.press("Control+Shift+KeyP");
    await page.waitForSelector("dialog input");
    await page.keyboard.type("tables");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".tables");
    await settled(page);
  });

  test("help lists every command with its keys, and closes", async () => {
    await page.keyboard.press("Shift+Slash");
    await page.waitForSelector("dialog");
    const text = await page.locator("dialog").innerText();
    for (const part of ["Zoom in", "W", "Wait chain", "[", "Search threads"])
      expect(text).toContain(part);
    // It begins with its beginning, although the button to close it is at its end.
    const [heading, dialog] = await Promise.all(
      [page.getByRole("heading", { name: "Keys and commands" }), page.locator("dialog")].map(
        (one) => one.boundingBox(),
      ),
    );
    expect(heading?.y ?? -1).toBeGreaterThan(dialog?.y ?? 0);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
  });

  test("the lanes are a tree for the keyboard", async () => {
    const tree = page.locator(".timeline [role=tree]");
    await tree.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    const active = await tree.getAttribute("aria-activedescendant");
    expect(active).not.toBeNull();
    expect(await page.locator(`[id='${active}']`).innerText()).not.toBe("");
    expect(await page.locator(".timeline [data-lane]").count()).toBeGreaterThan(2);
  });

  /**
   * Controls that are cut off by the window, or by an element that cannot be scrolled to show them.
   * Nothing may need horizontal scrolling.
   */
  function cutOff(): Promise<string[]> {
    return page.evaluate(() => {
      const out: string[] = [];
      if (
        document.documentElement.scrollWidth > innerWidth ||
        document.documentElement.scrollHeight > innerHeight
      )
        out.push("the document scrolls");
      for (const element of document.querySelectorAll(
        "button, input, select, textarea, summary, canvas, svg, h1, " +
          "[role=tab], [role=columnheader]",
      )) {
        const box = element.getBoundingClientRect();
        if (
          !element.checkVisibility({ visibilityProperty: true }) ||
          element.closest(".sr-only") ||
          box.width <= 1 ||
          box.height <= 1
        )
          continue;
        let [left, right, top, bottom] = [0, innerWidth, 0, innerHeight];
        let scrolls = false;
        for (let above = element.parentElement; above; above = above.parentElement) {
          const [style, edge] = [getComputedStyle(above), above.getBoundingClientRect()];
          if (style.overflowX !== "visible")
            [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
          scrolls ||= /auto|scroll/.test(style.overflowY);
          if (style.overflowY !== "visible" && !scrolls)
            [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
        }
        const outside =
          box.left < left - 1 ||
          box.right > right + 1 ||
          (!scrolls && (box.top < top - 1 || box.bottom > bottom + 1));
        // Another element may cover it only if it is scrolled out of sight.
        const hit = scrolls
          ? null
          : document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
        const covered =
          hit !== null &&
          !element.contains(hit) &&
          !hit.contains(element) &&
          element.matches("button, input, select");
        if (!outside && !covered) continue;
        const name = `${element.tagName} ${element.className} ${element.textContent.slice(0, 40)}`;
        const own = [box.left, box.top, box.right, box.bottom].map(Math.round);
        const room = [left, top, right, bottom].map(Math.round);
        out.push(`${name}: ${own} in ${room}`);
      }
      return out;
    });
  }

  for (const viewport of [
    { width: 1280, height: 720 },
    { width: 3840, height: 2160 },
  ]) {
    for (const theme of ["dark", "light"] as const) {
      test(`nothing is cut off at ${viewport.width} × ${viewport.height}, ${theme}`, async ({
        task,
      }) => {
        await page.setViewportSize(viewport);
        if (theme === "light") await page.keyboard.press("KeyT");
        const whole = async (what: string) => {
          await settled(page);
          await bed.screenshot(page, `access ${task.name} ${what}`);
          expect({ what, cut: await cutOff() }).toEqual({ what, cut: [] });
        };
        await whole("answers");
        const there = page.url();
        for (const [view, stack] of [
          ["answers", "unhitch_lab::starve::Editor::insert_character"],
          ["tables", "a_function_with_a_very_long_name".repeat(5)],
        ] as const) {
          const selected = new URL(there);
          for (const [name, value] of Object.entries({
            view,
            stack,
            thread: "1",
            process: "1",
          }))
            selected.searchParams.set(name, value);
          await page.goto(selected.href);
          await whole(`${view}, long selection`);
        }
        await page.goto(there);
        await page.waitForSelector("[data-answer]");
        await page.locator(".answer .text-link[title*='event']").first().click();
        await page.waitForSelector(".details[data-event]:not([data-event=''])");
        await whole("an event");
        await page.keyboard.press("Escape");
        await page.keyboard.press("Digit2");
        for (const preset of await page
          .getByRole("group", { name: "Presets" })
          .getByRole("button")
          .allInnerTexts()) {
          await page.getByRole("button", { name: preset, exact: true }).click();
          await whole(`table ${preset}`);
          // All columns fit without scrolling.
          const spill = await page
            .locator(".grid")
            .evaluate((grid) => grid.scrollWidth - grid.clientWidth);
          expect({ preset, spill }).toEqual({ preset, spill: 0 });
        }
        await page.keyboard.press("Digit3");
        for (const form of ["Flame", "Icicle", "Butterfly", "Compare", "By address"]) {
          await page.getByRole("button", { name: form, exact: true }).click();
          await whole(form);
        }
        await page.goto(new URL("/", bed.address).href);
        await page.waitForSelector("[data-trace]");
        await whole("traces");
      });
    }
  }

  test("the first load is small", async () => {
    let bytes = 0;
    const seen: Promise<Buffer>[] = [];
    page.on("response", (response) => {
      if (response.ok() && !response.url().includes("/api/")) seen.push(response.body());
    });
    await page.goto(new URL("/", bed.address).href);
    await page.waitForSelector("[data-trace]");
    await settled(page);
    for (const body of await Promise.all(seen)) bytes += gzipSync(body).length;
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(MAX_FIRST_LOAD);
  });
});
