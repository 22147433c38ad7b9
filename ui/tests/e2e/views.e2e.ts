/** Series over time, stacks without idle waits, several threads compared. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { lanePoint, STARVE, settled, skipReason, TestBed, writeGolden } from "./harness";

/** Gives a trace three readings of counters: the example is older than they are. */
function addCounters(trace: string): void {
  const reading = (seconds: number, waited: number) => ({
    time_ns: 9_531_000_000_000 + seconds * 1e9,
    pressure: { cpu: { some_ns: waited * 1e6 }, io: { some_ns: waited * 2e5 } },
    interrupts: waited * 100,
    soft_interrupts: waited * 10,
    disks: {
      vda: {
        read_bytes: waited * 4096,
        written_bytes: waited * 8192,
        busy_ns: waited * 1e5,
        queued_ns: waited * 3e5,
      },
    },
  });
  const file = { version: 1, readings: [reading(0, 10), reading(2, 110), reading(4, 610)] };
  const script = "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'a').writestr(*sys.argv[2:])";
  execFileSync("python3", ["-c", script, trace, "machine.json", JSON.stringify(file)]);
}

describe.skipIf(skipReason("views") !== null)("views", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(async (folder) => {
      await writeGolden(folder);
      TestBed.copy(STARVE)(folder);
      addCounters(join(folder, "starve.hitch"));
    });
    page = await bed.page("trace=starve.hitch");
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
  });
  afterAll(() => bed?.stop());
  afterEach(async ({ task }) => {
    await bed.screenshot(page, `views ${task.name}`, task);
    bed.expectNoComplaints();
  });

  const json = <T>(path: string): Promise<T> =>
    page.evaluate(async (url) => (await (await fetch(url)).json()) as T, `/api/t/${path}`);

  test("a measure over time sums to the table, and shares the timeline's selection", async () => {
    await page.keyboard.press("Digit2");
    await page.getByRole("button", { name: "Waits over time" }).click();
    await page.waitForSelector(".series[data-ready=true]");
    await settled(page);
    const { groups, others } = await json<{
      groups: { cell: string; total: number; values: number[] }[];
      others: number[];
    }>("starve.hitch/series?table=waits&by=reason&measure=sum:waited&px=333&groups=3");
    const { rows, totals } = await json<{ rows: { cells: [string, number] }[]; totals: number[] }>(
      "starve.hitch/table?table=waits&by=reason&show=sum:waited&sort=sum:waited:desc",
    );
    const sum = (values: number[]) => values.reduce((all, value) => all + value, 0);
    for (const [at, group] of groups.entries()) {
      expect([group.cell, sum(group.values)]).toEqual(rows[at]?.cells);
      expect(group.total).toBe(rows[at]?.cells[1]);
    }
    expect(sum(groups.map((group) => group.total)) + sum(others)).toBe(totals[1]);
    // The same drag as on the timeline.
    const svg = await page.locator(".series svg").boundingBox();
    if (!svg) throw new Error("no series");
    const before = new URL(page.url()).searchParams.get("range");
    await page.mouse.move(svg.x + svg.width * 0.3, svg.y + 40);
    await page.mouse.down();
    await page.mouse.move(svg.x + svg.width * 0.5, svg.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(
      (was) => new URLSearchParams(location.search).get("range") !== was,
      before,
    );
    await settled(page);
    // Aligned with the timeline to the pixel.
    const plot = await page.locator(".tl-over").boundingBox();
    const labels = await page
      .locator(".timeline")
      .evaluate((element) => Number((element as HTMLElement).dataset.labels));
    expect(Math.abs(svg.x - ((plot?.x ?? 0) + labels))).toBeLessThan(2);
    expect(Math.abs(svg.width - ((plot?.width ?? 0) - labels))).toBeLessThan(2);
    await page.getByRole("button", { name: "Over time", exact: true }).click();
    await page.locator(".series").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "CPU over time" }).click();
    await page.waitForSelector(".series[data-ready=true]");
    await settled(page);
    expect(await page.locator(".series-names").innerText()).toContain("lab-starve");
    await page.keyboard.press("Escape");
  });

  test("counters of the machine are drawn over time", async () => {
    await page.keyboard.press("Digit2");
    await page.getByRole("button", { name: "Pressure" }).click();
    await page.waitForSelector(".series[data-ready=true]");
    await settled(page);
    expect(new URL(page.url()).searchParams.get("where")).toBe('counter = "some waited"');
    expect(await page.locator(".series-names").innerText()).toContain("cpu");
    expect(await page.locator(".series svg text").textContent()).toMatch(/^spent: up to 0?\.?\d/);
    await bed.screenshot(page, "views pressure over time");
    const { unit, groups } = await json<{ unit: string; groups: { total: number }[] }>(
      "starve.hitch/series?table=counters&by=of&measure=sum:spent&px=50" +
        "&where=counter+%3D+%22some+waited%22",
    );
    const { totals } = await json<{ totals: number[] }>(
      "starve.hitch/table?table=counters&by=of&show=sum:spent&where=counter+%3D+%22some+waited%22",
    );
    expect(unit).toBe("ns");
    const drawn = groups.reduce((all, group) => all + group.total, 0);
    // A reading was taken before the recording began.
    expect(drawn).toBeGreaterThan(0);
    expect(drawn).toBeLessThanOrEqual(totals[1] ?? 0);
    // Another preset takes its own filter along.
    await page.getByRole("button", { name: "Waits", exact: true }).click();
    await settled(page);
    expect(new URL(page.url()).searchParams.get("where")).toBeNull();
  });

  test("an edge of the selection is dragged in a graph over time", async () => {
    const range = () => new URL(page.url()).searchParams.get("range");
    await page.keyboard.press("Digit1");
    await page.locator("[data-stall-row]").first().click();
    await page.keyboard.press("Digit2");
    await page.getByRole("button", { name: "CPU over time" }).click();
    await page.waitForSelector(".series[data-ready=true] path");
    await settled(page);
    const stall = range();
    const svg = await page.locator(".series svg").boundingBox();
    const edge = await page.locator(".series-outside rect").last().boundingBox();
    if (!svg || !edge) throw new Error("no edge");
    const drag = async (from: number, to: number) => {
      await page.mouse.move(from, svg.y + 50);
      await page.mouse.down();
      await page.mouse.move(to, svg.y + 50, { steps: 4 });
      await page.mouse.up();
      await settled(page);
    };
    await drag(edge.x, edge.x - 200);
    expect(range()?.split("-")[0]).toBe(stall?.split("-")[0]);
    expect(range()).not.toBe(stall);
    // Back near the stall's end: to it, to the nanosecond.
    await drag(edge.x - 200, edge.x - 4);
    expect(range()).toBe(stall);
  });

  test("the run queue and every counter have something to show", async () => {
    for (const preset of ["Run queue", "Pressure", "Disk queue", "Disk bytes", "Interrupts"]) {
      await page.getByRole("button", { name: preset, exact: true }).click();
      await page.waitForSelector(".series[data-ready=true]");
      await settled(page);
      const scale = await page.locator(".series svg text").textContent();
      expect([preset, scale]).toEqual([preset, expect.stringMatching(/up to 0?[.\d]*[1-9]/)]);
      expect(await page.locator(".series svg path").count()).toBeGreaterThan(0);
      expect(await page.locator(".grid-row").count()).toBeGreaterThan(1);
    }
    await page.getByRole("button", { name: "Waits", exact: true }).click();
    await settled(page);
  });

  test("Alt and a click on a cell filter by its value", async () => {
    const where = () => new URL(page.url()).searchParams.get("where");
    const cells = page.locator(".grid-row:not(.totals) .cell:first-child");
    const name = (await cells.nth(1).innerText()).replace(/^[▸▾]\s*/, "");
    await cells.nth(1).click({ modifiers: ["Alt"] });
    await settled(page);
    expect(where()).toBe(`process = '${name}'`);
    expect(await cells.count()).toBe(1);
    // A sum is the value of no row.
    await page
      .locator(".grid-row:not(.totals) .cell.num")
      .nth(1)
      .click({ modifiers: ["Alt"] });
    await page.getByText("There is no single value to filter by.").first().waitFor();
    expect(where()).toBe(`process = '${name}'`);
    await page.getByRole("button", { name: "Waits", exact: true }).click();
    await settled(page);
  });

  test("what is without a thread, a process or a function, and the graph of a group", async () => {
    const root = () => page.locator(".flame [data-frame='(all)']").innerText();
    const menu = async (selector: string, item: string | RegExp) => {
      await page.locator(selector).first().click({ button: "right" });
      await page.getByRole("menuitem", { name: item }).click();
      await settled(page);
    };
    await page.goto(
      new URL("/?trace=starve.hitch&view=tables&by=reason,thread&where=reason = lock", bed.address)
        .href,
    );
    await settled(page);
    await page.locator(".grid-row .cell").first().click();
    await settled(page);
    await menu(".grid-row[data-depth='1'] .cell:nth-child(2)", "Flame graph of this group");
    expect(new URL(page.url()).searchParams.get("filter")).toMatch(
      /^reason = lock and reason = 'lock' and thread = '\w+'$/,
    );
    const { rows } = await json<{ rows: { cells: [string, number] }[] }>(
      "starve.hitch/table?table=waits&by=thread&show=sum:waited&where=reason+%3D+lock" +
        "&sort=sum:waited:desc",
    );
    const seconds = ((rows[0]?.cells[1] ?? 0) / 1e9).toFixed(3);
    expect(await root()).toContain(`${seconds} s`);
    // Nothing is left without the only thread that waits so.
    await page.keyboard.press("Digit2");
    await settled(page);
    await page.locator(".grid-row .cell").first().click();
    await settled(page);
    const waiting = await page.locator(".grid-row[data-depth='1']").count();
    await menu(".grid-row[data-depth='1'] .cell:nth-child(2)", "Without this thread");
    await expect
      .poll(() => new URL(page.url()).searchParams.get("where"))
      .toMatch(/^reason = lock and tid != \d+$/);
    await settled(page);
    await page.locator(".grid-row .cell").first().click();
    await settled(page);
    expect(await page.locator(".grid-row[data-depth='1']").count()).toBe(waiting - 1);
    // The chip takes the filter of the stacks away.
    await page.keyboard.press("Digit3");
    await settled(page);
    const filtered = await root();
    await page.getByRole("button", { name: "Remove the filter of the stacks" }).click();
    await settled(page);
    expect(await root()).not.toBe(filtered);
    await page.getByRole("button", { name: "Leave out idle threads" }).click();
    await settled(page);
  });

  test("a track shows the same on the timeline, and is in the address", async () => {
    await page.keyboard.press("Digit1");
    await page.keyboard.press("Control+Shift+KeyP");
    await page.keyboard.type("track pressure");
    await page.keyboard.press("Enter");
    const track = "[data-in=tracks][data-lane=pressure-over-time]";
    await page.waitForSelector(track, { state: "attached" });
    await page.reload();
    await page.waitForSelector(track, { state: "attached" });
    await settled(page);
    const { x, y } = await lanePoint(page, track, 0.5);
    await page.mouse.move(x, y);
    await page.locator(".tl-tip", { hasText: /Pressure\s*cpu: 0\.\d+ at once\s*io: / }).waitFor();
    await bed.screenshot(page, "views a track");
    // Another by the menu, and the first one away by its own.
    await page.mouse.click(x, y, { button: "right" });
    await page.getByRole("menuitem", { name: "Tracks …" }).click();
    await page.getByRole("menuitem", { name: "Add Interrupts" }).click();
    await page.waitForSelector("[data-lane=interrupts-over-time]", { state: "attached" });
    await settled(page);
    await page.mouse.click(x, y, { button: "right" });
    await page.getByRole("menuitem", { name: "Remove the track" }).click();
    await page.locator(track).waitFor({ state: "detached" });
    expect(new URL(page.url()).searchParams.get("tracks")).toBe("interrupts-over-time");
    const other = await lanePoint(page, "[data-lane=interrupts-over-time]", 0.5);
    await page.mouse.move(other.x, other.y + 2);
    await page.locator(".tl-tip", { hasText: /interrupts: [\d,]+ in \d/ }).waitFor();
    await page.mouse.click(other.x, other.y, { button: "right" });
    await page.getByRole("menuitem", { name: "Show as a table" }).click();
    await page.waitForSelector(".series[data-ready=true] path");
    await page.mouse.click(other.x, other.y, { button: "right" });
    await page.getByRole("menuitem", { name: "Remove the track" }).click();
    await page.locator("[data-section=tracks]").waitFor({ state: "detached" });
  });

  test("idle waits are left out of flame graphs, until the chip is removed", async () => {
    await page.keyboard.press("Digit3");
    await settled(page);
    const root = () => page.locator(".flame [data-frame='(all)']").innerText();
    const without = await root();
    expect(await page.locator("[data-chip=idle]").innerText()).toContain("idle waits");
    await page.getByRole("button", { name: "Show idle waits, too" }).click();
    await settled(page);
    const withIdle = await root();
    expect(withIdle).not.toBe(without);
    expect(new URL(page.url()).searchParams.get("idle")).toBe("1");
    await page.getByRole("button", { name: "Leave out idle threads" }).click();
    await settled(page);
    expect(await root()).toBe(without);
    // Time without a stack is a box with a name.
    expect(await page.locator(".flame [data-frame='(no stack was recorded)']").count()).toBe(1);
  });

  test("the butterfly leaves out idle waits, too, and has the same scope", async () => {
    await page.getByRole("button", { name: "Butterfly" }).click();
    await settled(page);
    const names = () => page.locator(".ranked [data-function]").allInnerTexts();
    const without = await names();
    await page.getByRole("button", { name: "Show idle waits, too" }).click();
    await settled(page);
    const all = await names();
    expect(without).not.toContain("worker_thread");
    expect(all).toContain("worker_thread");
    await page.getByRole("button", { name: "Victim only" }).click();
    await settled(page);
    const victims = await names();
    expect(victims.length).toBeGreaterThan(0);
    expect(victims.length).toBeLessThan(all.length);
    expect(victims).not.toContain("worker_thread");
    await page.getByRole("button", { name: "All", exact: true }).click();
    await page.getByRole("button", { name: "Leave out idle threads" }).click();
    await page.getByRole("button", { name: "Flame", exact: true }).click();
    await settled(page);
  });

  /** The root is the first or the last row of the pane, from its left edge to its right one. */
  const expectRootAt = async (edge: "top" | "bottom") => {
    const box = await page.locator(".fl-scroll").boundingBox();
    if (!box) throw new Error("no graph");
    const bottom = box.y + box.height;
    expect(bottom).toBeLessThanOrEqual(page.viewportSize()?.height ?? 0);
    const y = edge === "top" ? box.y + 9 : bottom - 9;
    for (const x of [box.x + 4, box.x + box.width - 24]) {
      // Again, if it was still being drawn.
      const root = page.locator(".fl-tip-title", { hasText: "(all)" });
      const isThere = async () => {
        await page.mouse.move(x, 5);
        await page.mouse.move(x, y);
        return root.isVisible();
      };
      await expect.poll(isThere).toBe(true);
      await page.mouse.move(x, 5);
    }
  };

  test("a flame graph opens at its root, in sight, and as wide as its pane", async () => {
    for (const viewport of [
      { width: 1280, height: 720 },
      { width: 3840, height: 2160 },
    ]) {
      await page.setViewportSize(viewport);
      await settled(page);
      const pane = await page.locator(".fl-scroll").evaluate((e) => ({
        below: e.scrollHeight - e.clientHeight - e.scrollTop,
        beside: e.scrollWidth - e.clientWidth,
      }));
      expect({ viewport, ...pane }).toEqual({ viewport, below: 0, beside: 0 });
      await expectRootAt("bottom");
    }
    await page.setViewportSize({ width: 1280, height: 720 });
    await settled(page);
  });

  test("an icicle graph opens at its root, in sight, and as wide as its pane", async () => {
    await page.getByRole("button", { name: "Icicle", exact: true }).click();
    for (const viewport of [
      { width: 3840, height: 2160 },
      { width: 1280, height: 720 },
    ]) {
      await page.setViewportSize(viewport);
      await settled(page);
      const pane = () =>
        page.locator(".fl-scroll").evaluate((e) => ({
          above: e.scrollTop,
          beside: e.scrollWidth - e.clientWidth,
        }));
      // A graph that was wider is narrower a frame after its pane is.
      await expect.poll(pane, { message: `${viewport.width}` }).toEqual({ above: 0, beside: 0 });
      await expectRootAt("top");
    }
    await page.getByRole("button", { name: "Flame", exact: true }).click();
    await settled(page);
  });

  test("stacks of the victim, or of the chain, only", async () => {
    const { victim, lanes } = await json<{
      victim: { thread: number };
      lanes: { who: { thread: number } }[];
    }>("starve.hitch/stall/1");
    const asked = async (button: string) => {
      const [request] = await Promise.all([
        page.waitForRequest((one) => one.url().includes("/flame?")),
        page.getByRole("button", { name: button }).click(),
      ]);
      await settled(page);
      return new URL(request.url()).searchParams.get("thread");
    };
    expect(await asked("Victim only")).toBe(String(victim.thread));
    expect(await asked("Chain only")).toBe(lanes.map((lane) => lane.who.thread).join(","));
    expect(new URL(page.url()).searchParams.get("scope")).toBe("chain");
    await page.getByRole("button", { name: "All", exact: true }).click();
    await settled(page);
  });

  test("several threads are compared in the selected time", async () => {
    const { processes } = await json<{
      processes: { name: string; threads: { thread: number; name: string }[] }[];
    }>("starve.hitch/lanes");
    const threads = processes.find((p) => p.name === "lab-starve")?.threads ?? [];
    const ids = threads.slice(0, 3).map((t) => t.thread);
    const address = new URL(page.url());
    for (const name of ["stall", "view", "hop"]) address.searchParams.delete(name);
    address.searchParams.set("thread", ids.join(","));
    address.searchParams.set("range", "1000000000-2000000000");
    await page.goto(address.href);
    await page.waitForSelector("[data-compare='3']");
    await settled(page);
    const table = page.locator(".compare-figures");
    for (const { name } of threads.slice(0, 3)) expect(await table.innerText()).toContain(name);
    expect(await table.innerText()).toContain("lock held");
    expect(await page.locator(".compare-bar svg").count()).toBe(3);
    // Tables and graphs over time have them as groups, too.
    await page.keyboard.press("Digit2");
    await page.getByRole("button", { name: "CPU over time" }).click();
    await page.waitForSelector(".series[data-ready=true]");
    await settled(page);
    expect(await page.locator(".head").first().getAttribute("data-column")).toBe("thread");
    // One of them did not run.
    const legend = (await page.locator(".series-names").innerText()).split("\n").sort();
    expect(legend).toEqual(["inspector", "typing"]);
  });

  test("a thread that had nothing to do was idle, in the answer, its bar and its lane", async () => {
    const { processes } = await json<{
      processes: { threads: { thread: number; lane: string }[] }[];
    }>("starve.hitch/lanes");
    const range = { from: 1_000_000_000, to: 1_200_000_000 };
    let found = 0;
    for (const { thread, lane } of processes.flatMap((p) => p.threads)) {
      const slice = await json<{ class: string | null; from: number; to: number }>(
        `starve.hitch/slice?lane=${lane}&at=${range.from}`,
      );
      if (slice.class !== "idle" || slice.from > range.from || slice.to < range.to) continue;
      const { partition } = await json<{
        partition: { what: string; ns: number; state: number }[];
      }>(`starve.hitch/explain?thread=${thread}&from=${range.from}&to=${range.to}`);
      expect(partition).toMatchObject([{ what: "idle", ns: 200_000_000, state: 8 }]);
      found++;
    }
    expect(found).toBeGreaterThan(0);
  });

  test("every table is drawn over time, or says that there is nothing to draw", async () => {
    await page.goto(new URL("/?trace=starve.hitch&view=tables", bed.address).href);
    await settled(page);
    const choice = page.locator("select[aria-label=Table]");
    const tables = await choice.locator("option").allInnerTexts();
    expect(tables.length).toBeGreaterThan(8);
    let drawn = 0;
    for (const table of tables) {
      await choice.selectOption(table);
      await settled(page);
      await page.getByRole("button", { name: "Over time", exact: true, pressed: false }).click();
      const series = page.locator(`.series[aria-label*=' of ${table} over time']`);
      await series.waitFor();
      await settled(page);
      const caption = await series.locator("svg text").textContent();
      const curves = await series.locator("svg path").count();
      const rows = await page.locator(".grid-row:not(.totals)").count();
      expect([table, caption]).toEqual([
        table,
        expect.stringMatching(rows > 0 ? /up to 0?[.\d]*[1-9]/ : /^nothing in this time range$/),
      ]);
      expect([table, curves > 0]).toEqual([table, rows > 0]);
      if (curves > 0) drawn++;
    }
    expect(drawn).toBeGreaterThan(6);
  });

  test("a crowd of one name is one line of the partition, which opens", async () => {
    await page.goto(new URL("/?trace=move-my-mouse.hitch", bed.address).href);
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    const crowd = page.locator(".parts button", { hasText: /\d+ gomacc$/ }).first();
    const rows = await page.locator(".parts tr").count();
    const members = Number.parseInt((await crowd.innerText()).replace(/\D+/, ""), 10);
    const others = await page.locator(".parts [aria-expanded]").count();
    await crowd.click();
    // It alone: what else is one line stays one, and it closes again.
    expect(await page.locator(".parts tr").count()).toBe(rows + members);
    expect(await page.locator(".parts [aria-expanded=true]").count()).toBe(1);
    expect(await page.locator(".parts [aria-expanded]").count()).toBe(others);
    await crowd.click();
    expect(await page.locator(".parts tr").count()).toBe(rows);
    expect(await page.locator(".parts .sum").innerText()).toMatch(/100\.0 %.*the whole stall/s);
  });
});
