/** Headings, colours of the selection, legend, caveats, and names that are cut without need. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { STATES, type State } from "../../src/draw/states";
import { OUTSIDE_DIM } from "../../src/timeline/draw/overlay";
import { REPORT } from "../fixtures/fleet";
import {
  lanePoint,
  STARVE,
  settled,
  shownWindow,
  skipReason,
  TestBed,
  writeGolden,
} from "./harness";

/** The height of a compact lane's picture. */
const LANE_PX = 11;

describe.skipIf(skipReason("looks") !== null)("looks", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(
      async (folder) => {
        await writeGolden(folder);
        TestBed.copy(STARVE)(folder);
        writeFileSync(join(folder, "cut.data"), "PERFILE2");
        writeFileSync(join(folder, "report.json"), JSON.stringify(REPORT));
      },
      (folder) => ["--fleet", join(folder, "report.json")],
    );
  });
  afterAll(() => bed?.stop());
  beforeEach(async () => {
    page = await bed.page();
  });
  afterEach(({ task }) => bed.end(page, `looks ${task.name}`, task));

  const go = (query: string) => page.goto(new URL(`/?${query}`, bed.address).href);
  const starve = async () => {
    await go("trace=starve.hitch");
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
  };

  test("each view has one h1, also while it loads and when it failed", async () => {
    const one = async (what: string, heading: RegExp) => {
      const found = await page.locator("h1").allInnerTexts();
      expect({ what, found: found.map((text) => heading.test(text)) }).toEqual({
        what,
        found: [true],
      });
    };
    await settled(page);
    await one("the folder", /^Traces/);
    let answer = () => {};
    const held = new Promise<void>((done) => (answer = done));
    await page.route("**/api/t/starve.hitch/status", async (route) => {
      await held;
      await route.continue();
    });
    await go("trace=starve.hitch");
    await page.locator(".loading").waitFor();
    await one("loading", /^Opening … 0 %/);
    answer();
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    await one("answers", /HANG/);
    for (const [key, heading] of [
      ["Digit2", /Tables/],
      ["Digit3", /Stacks/],
    ] as const) {
      await page.keyboard.press(key);
      await settled(page);
      await one(key, heading);
    }
    await page.getByRole("button", { name: "Timeline", exact: true }).click();
    await one("the timeline alone", /Timeline/);
    let tables = () => {};
    const late = new Promise<void>((done) => (tables = done));
    await page.route("**/api/t/starve.hitch/tables", async (route) => {
      await late;
      await route.continue();
    });
    await go("trace=starve.hitch&view=tables");
    await page.getByText("Preparing the tables …").waitFor();
    await one("tables, loading", /Tables/);
    tables();
    await settled(page);
    await one("tables", /Tables/);
    await go("trace=cut.data");
    await page.locator(".error-box").waitFor();
    await one("a damaged trace", /^cut\.data cannot be/);
    await go("trace=none.hitch");
    await page.locator(".error-box").waitFor();
    await one("a trace that is not there", /^none\.hitch cannot be/);
    bed.allow(/status of (404|422)/);
  });

  test("the overview dims what is outside the selection and leaves the inside alone", async () => {
    await starve();
    const rects = page.locator("#overview-picture rect");
    const fills = await rects.evaluateAll((all) => all.map((rect) => rect.getAttribute("fill")));
    expect(fills).not.toContain("var(--select)");
    const [left, right] = await page
      .locator(".overview-outside rect")
      .evaluateAll((all) => all.slice(0, 2).map((rect) => rect.getBoundingClientRect().toJSON()));
    const stall = await page.locator("[data-stall='1'] rect").first().boundingBox();
    if (!stall) throw new Error("no stall");
    // They end where the open stall, which is selected, begins and ends.
    expect(Math.abs((left as DOMRect).right - stall.x)).toBeLessThan(2);
    expect(Math.abs((right as DOMRect).left - (stall.x + stall.width))).toBeLessThan(2);
  });

  /** The pixels of a column of a canvas of the timeline, below `y`, as `r,g,b,a`. */
  const column = (canvas: ".tl-base" | ".tl-over", x: number, y: number, height: number) =>
    page.locator(canvas).evaluate(
      (element, at) => {
        const box = element.getBoundingClientRect();
        const scale = (element as HTMLCanvasElement).width / box.width;
        const [left, top] = [(at.x - box.x) * scale, (at.y - box.y) * scale];
        const data = (element as HTMLCanvasElement)
          .getContext("2d")
          ?.getImageData(left, top, 1, at.height * scale).data;
        return Array.from({ length: (data?.length ?? 0) / 4 }, (_, n) =>
          [...(data?.slice(n * 4, n * 4 + 4) ?? [])].join(","),
        );
      },
      { x, y, height },
    );

  test("the timeline dims what is outside the selection, and nothing inside", async () => {
    await starve();
    const range = new URL(page.url()).searchParams.get("range") ?? "";
    const [from, to] = range.split("-").map(Number) as [number, number];
    const shown = await shownWindow(page);
    const share = (at: number) => (at - shown.from) / (shown.to - shown.from);
    const alpha = async (at: number) => {
      const { x, y } = await lanePoint(page, ".tl-tree [data-in^=p]", at);
      return Number((await column(".tl-over", x, y, 1))[0]?.split(",")[3]);
    };
    expect(await alpha((share(from) + share(to)) / 2)).toBe(0);
    for (const outside of [share(from) / 2, (1 + share(to)) / 2])
      expect(await alpha(outside)).toBeCloseTo(OUTSIDE_DIM * 255, -1);
    bed.allow(/willReadFrequently/);
  });

  test("a lane that is idle is a thin grey line", async () => {
    await starve();
    await page.keyboard.press("Escape");
    await settled(page);
    const window = await shownWindow(page);
    const middle = Math.round((window.from + window.to) / 2);
    const lane = await page.evaluate(async (at) => {
      const get = async (path: string) => (await fetch(`/api/t/starve.hitch/${path}`)).json();
      const { processes } = (await get("lanes")) as {
        processes: { threads: { lane: string }[] }[];
      };
      for (const { lane } of processes.flatMap((p) => p.threads)) {
        const slice = (await get(`slice?lane=${lane}&at=${at}`)) as {
          class: string | null;
          from: number;
          to: number;
        };
        if (slice.class === "idle" && slice.to - slice.from > 2e8) return lane;
      }
      return null;
    }, middle);
    expect(lane).not.toBeNull();
    const { x, y } = await lanePoint(page, `[data-in^=p][data-lane=${lane}]`, 0.5);
    await page.mouse.move(5, 5);
    const pixels = await column(".tl-base", x, y - 8 + 1, 11);
    const ground = pixels[0];
    const drawn = pixels.filter((pixel) => pixel !== ground);
    expect(drawn.length).toBeGreaterThan(0);
    expect(drawn.length).toBeLessThanOrEqual(3);
    for (const pixel of drawn) {
      const [red = 0, green = 0, blue = 0] = pixel.split(",").map(Number);
      expect(Math.max(red, green, blue) - Math.min(red, green, blue)).toBeLessThan(30);
    }
    bed.allow(/willReadFrequently/);
  });

  /** The two longest waits that pass a filter. */
  const longest = (filter: string) =>
    page.evaluate(async (where) => {
      const query = { table: "waits", by: "none", show: "reason", sort: "waited:desc", where };
      const answer = await fetch(`/api/t/starve.hitch/table?${new URLSearchParams(query)}&limit=2`);
      return (await answer.json()).rows as { lane: string; from: number; to: number }[];
    }, filter);

  /** What a lane of the open trace shows in the fourth quarter of a time. */
  const laneAt = async ({ lane, from, to }: { lane: string; from: number; to: number }) => {
    await go(`trace=starve.hitch&window=${from}-${to}`);
    await settled(page);
    const { x, y } = await lanePoint(page, `[data-in^=p][data-lane=${lane}]`, 0.75);
    return column(".tl-base", x, y - 8 + 2, LANE_PX);
  };

  test("a lane that is idle looks the same, whatever ended that", async () => {
    await starve();
    await page.mouse.move(5, 5);
    const looks = new Map<string, string[]>();
    for (const context of ["idle", "task", "interrupt"]) {
      const [wait] = await longest(`reason = idle and wake context = ${context}`);
      if (!wait) throw new Error(`no idle wait was ended by ${context}`);
      looks.set(context, await laneAt(wait));
    }
    const first = looks.get("idle");
    expect(new Set(first).size).toBe(2);
    for (const [context, look] of looks)
      expect({ context, look }).toEqual({ context, look: first });
    bed.allow(/willReadFrequently/);
  });

  test("a lane shows a wait in the state of its reason in the table of waits", async () => {
    await starve();
    await page.mouse.move(5, 5);
    for (const [reason, id] of [
      ["idle", "idle"],
      ["unknown", "slept"],
      ["timer", "timer"],
      ["condition", "condition"],
      ["lock", "lock"],
    ] as const) {
      const rows = await longest(`reason = ${reason}`);
      expect(rows.length).toBe(2);
      const state = STATES.find((one) => one.id === id) as State;
      const colour = await page.evaluate((variable) => {
        const ctx = document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
        ctx.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(variable);
        ctx.fillRect(0, 0, 1, 1);
        return [...ctx.getImageData(0, 0, 1, 1).data].join(",");
      }, state.variable);
      for (const row of rows) {
        const pixels = await laneAt(row);
        const drawn = pixels.filter((pixel) => pixel !== pixels[0]);
        const height = LANE_PX - Math.round(LANE_PX * (1 - state.height));
        expect({ reason, height: drawn.length }).toEqual({ reason, height });
        // The rest is its pattern.
        const plain = drawn.filter((pixel) => pixel === colour).length;
        expect({ reason, plain: plain > height / 2 }).toEqual({ reason, plain: true });
      }
    }
    bed.allow(/willReadFrequently/);
  });

  test("at 4K no name of a lane is cut", async () => {
    await page.setViewportSize({ width: 3840, height: 2160 });
    for (const name of ["move-my-mouse.hitch", "starve.hitch"]) {
      await go(`trace=${name}`);
      await page.waitForSelector("[data-answer='1']");
      await settled(page);
      const cut = await page.evaluate(async (trace) => {
        const { processes } = (await (await fetch(`/api/t/${trace}/lanes`)).json()) as {
          processes: { name: string; pid: number; threads: { name: string; tid: number }[] }[];
        };
        const names = processes.flatMap((p) => [
          `${p.name} ${p.pid}`,
          ...p.threads.map((t) => `${t.name} ${t.tid}`),
        ]);
        const ctx = document.createElement("canvas").getContext("2d");
        const style = getComputedStyle(document.documentElement);
        if (!ctx) return ["no canvas"];
        ctx.font = `11px ${style.getPropertyValue("--font")}`;
        const labels = Number(document.querySelector<HTMLElement>(".timeline")?.dataset.labels);
        // Beside a name are its triangle, the deepest indentation, and the number of threads.
        return names.filter((text) => ctx.measureText(text).width > labels - 110);
      }, name);
      expect({ name, cut }).toEqual({ name, cut: [] });
    }
  });

  test("a hovered lane keeps its colours", async () => {
    await starve();
    await page.keyboard.press("Escape");
    const { x, y } = await lanePoint(page, ".tl-tree [data-in^=p][data-lane^=t]", 0.5);
    await page.mouse.move(x, y);
    const alpha = (at: number) =>
      page.locator(".tl-over").evaluate(
        (canvas, point) => {
          const box = canvas.getBoundingClientRect();
          const scale = (canvas as HTMLCanvasElement).width / box.width;
          return (canvas as HTMLCanvasElement)
            .getContext("2d")
            ?.getImageData((point.x - box.x) * scale, (point.y - box.y) * scale, 1, 1).data[3];
        },
        { x: at, y },
      );
    const box = await page.locator(".tl-over").boundingBox();
    // Its name is tinted, what it shows is not.
    await expect.poll(() => alpha((box?.x ?? 0) + 6)).toBeGreaterThan(0);
    expect(await alpha(x + 40)).toBe(0);
    expect(await alpha(x - 40)).toBe(0);
    // About the test's own reading of the picture.
    bed.allow(/willReadFrequently/);
  });

  test("the legend has every state, and folds away", async () => {
    await starve();
    const legend = page.locator(".tl-legend dl");
    expect(await legend.count()).toBe(0);
    await page.getByRole("button", { name: "Legend" }).click();
    const text = await legend.innerText();
    for (const { name, description } of STATES) {
      expect(text).toContain(name);
      expect(text).toContain(description);
    }
    await page.getByRole("button", { name: "Legend" }).click();
    await legend.waitFor({ state: "detached" });
    await page.keyboard.press("KeyL");
    await legend.waitFor();
  });

  test("caveats stand once, behind one mark", async () => {
    const caveats = ["the clock jumped", "three stacks are cut"];
    await page.route("**/api/t/starve.hitch/summary", async (route) => {
      const response = await route.fetch();
      const summary = (await response.json()) as object;
      await route.fulfill({ response, json: { ...summary, warnings: caveats, lost: 0 } });
    });
    await starve();
    const marks = page.getByText("2 caveats");
    expect(await marks.count()).toBe(1);
    expect(await page.getByText(caveats[0] ?? "").isVisible()).toBe(false);
    await marks.click();
    for (const caveat of caveats) {
      expect(await page.getByText(caveat).count()).toBe(1);
      expect(await page.getByText(caveat).isVisible()).toBe(true);
    }
  });

  test("what a table lacks is behind the same mark", async () => {
    await page.route("**/api/t/starve.hitch/table?**", async (route) => {
      const response = await route.fetch();
      const answer = (await response.json()) as object;
      const lacking = { column: "waited", why: "no wake-ups", advice: "Record them." };
      await route.fulfill({ response, json: { ...answer, not_recorded: [lacking] } });
    });
    await starve();
    await page.keyboard.press("Digit2");
    await settled(page);
    expect(await page.locator(".tables > .note").count()).toBe(0);
    const note = page.getByText("Not recorded (waited): no wake-ups. Record them.");
    expect(await note.isVisible()).toBe(false);
    await page.locator(".warnings summary").click();
    expect(await note.isVisible()).toBe(true);
    await page.keyboard.press("Digit3");
    await note.waitFor({ state: "detached" });
  });

  /** Texts that are cut although the row that they are in, or the window, has room left. */
  const cut = () =>
    page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>("body :not(.sr-only)")]
        .filter((element) => {
          const { textOverflow, webkitLineClamp, overflowX } = getComputedStyle(element);
          const { scrollWidth, clientWidth, scrollHeight, clientHeight } = element;
          // Lines are left out although the window has room for more.
          if (webkitLineClamp !== "none") return scrollHeight > clientHeight;
          if (scrollWidth <= clientWidth || clientWidth === 0) return false;
          if (/auto|scroll/.test(overflowX)) return scrollWidth <= innerWidth;
          if (textOverflow !== "ellipsis") return false;
          const missing = scrollWidth - clientWidth;
          const parent = element.parentElement;
          if (!parent) return false;
          const used = [...parent.children].reduce(
            (sum, child) => sum + child.getBoundingClientRect().width,
            0,
          );
          const rowOf = element.closest("tr, li, .grid, .page-main, .header");
          const room = (rowOf?.getBoundingClientRect().width ?? 0) - used;
          return room >= missing;
        })
        .map((element) => `${element.className}: ${element.textContent?.slice(0, 60)}`),
    );

  test("at 4K no name is cut beside empty space", async () => {
    await page.setViewportSize({ width: 3840, height: 2160 });
    for (const name of ["move-my-mouse.hitch", "starve.hitch"]) {
      await go(`trace=${name}`);
      await page.waitForSelector("[data-answer='1']");
      await settled(page);
      expect({ name, cut: await cut() }).toEqual({ name, cut: [] });
      await page.keyboard.press("Digit2");
      await settled(page);
      expect({ name, cut: await cut() }).toEqual({ name, cut: [] });
    }
    const presets = page.getByRole("group", { name: "Presets" }).getByRole("button");
    for (const preset of await presets.allInnerTexts()) {
      await page.getByRole("button", { name: preset, exact: true }).click();
      await settled(page);
      expect({ preset, cut: await cut() }).toEqual({ preset, cut: [] });
    }
    await go("");
    await page.waitForSelector("[data-trace]");
    await settled(page);
    expect(await cut()).toEqual([]);
  });

  /** Text of an answer, with names so long that a narrow place cuts them. */
  const lengthened = (text: string) =>
    text
      .replaceAll("release_document", "release_document_after_all_of_its_changes_were_written")
      .replace(/"(file|module)": ?"[^"]*"/g, '"$1":"/src/generated_bindings_of_the_editor.rs"');

  test("at 4K nothing is cut beside empty space in stacks, events, two traces, and a fleet", async () => {
    await page.setViewportSize({ width: 3840, height: 2160 });
    for (const answers of ["**/stack?**", "**/api/fleet"])
      await page.route(answers, async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, body: lengthened(await response.text()) });
      });
    const event = "event=sample-100&layout=view";
    const hot = "unhitch_lab::starve::count_pages";
    for (const [query, ...parts] of [
      [
        `trace=starve.hitch&view=stacks&form=butterfly&function=${hot}&of=sample&${event}`,
        ".wings .branch",
        ".frame-where",
      ],
      [`trace=starve.hitch&view=stacks&form=address&of=sample&function=${hot}&${event}`, ".code"],
      ["trace=type-an-email.hitch&view=stacks&form=compare&thread=3,4&layout=view", ".diff-tree"],
      ["before=type-an-email.hitch&after=starve.hitch", ".diff-parts"],
      ["", ".fleet-table"],
    ] as const) {
      await go(query);
      for (const part of parts) await page.locator(part).first().waitFor();
      await settled(page);
      expect({ query, cut: await cut() }).toEqual({ query, cut: [] });
    }
  });
});
