/** axe over what lies above or instead of the views: dialogs, menus, lists, errors, empty states. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { quiet } from "../fixtures/quiet";
import { expectAccessible } from "./axe";
import {
  commandsIn,
  lanePoint,
  STARVE,
  settled,
  skipReason,
  TestBed,
  writeGolden,
} from "./harness";

interface Surface {
  readonly name: string;
  /** The address, without the trace. */
  readonly query: string;
  readonly show: (page: Page) => Promise<unknown>;
}

const STARVED = "trace=starve.hitch";

const SURFACES: readonly Surface[] = [
  {
    name: "several threads compared",
    query: `${STARVED}&thread=3,4,5&range=1000000000-2000000000`,
    show: (page) => page.waitForSelector("[data-compare]"),
  },
  ...["83,84", "83,84,85"].map((threads) => ({
    name: `stacks of the threads ${threads} compared`,
    query: `${STARVED}&view=stacks&form=compare&idle=1&thread=${threads}`,
    show: (page: Page) => page.waitForSelector(".diff-box"),
  })),
  {
    name: "the butterfly of several threads",
    query: `${STARVED}&view=stacks&form=butterfly&idle=1&thread=83,84,85`,
    show: (page) => page.waitForSelector(".ranked th[data-of]"),
  },
  {
    name: "tracks on the timeline",
    query: `${STARVED}&tracks=queue-over-time,waits-over-time`,
    show: (page) => page.waitForSelector(".tl-tree [data-in=tracks]", { state: "attached" }),
  },
  {
    name: "the timeline alone",
    query: STARVED,
    show: async (page) => {
      await page.getByRole("button", { name: "Timeline", exact: true }).click();
      await page.locator(".answers").waitFor({ state: "detached" });
    },
  },
  {
    name: "the details of an event",
    query: `${STARVED}&event=switch-5`,
    show: (page) => page.waitForSelector(".details[data-event='switch-5']"),
  },
  {
    name: "the box of a drag",
    query: `${STARVED}&range=500000000-1500000000&swept=3,4`,
    show: (page) => page.waitForSelector("[data-swept] ~ [data-swept]"),
  },
  {
    name: "a measure over time",
    query: `${STARVED}&view=tables`,
    show: async (page) => {
      await page.getByRole("button", { name: "CPU over time" }).click();
      await page.waitForSelector(".series[data-ready=true]");
    },
  },
  {
    name: "samples by address",
    query: `${STARVED}&view=stacks&of=sample&form=address`,
    show: (page) => page.locator(".ranked .name").first().waitFor(),
  },
  {
    name: "the whole stack of a cell",
    query: `${STARVED}&view=tables&by=wait stack`,
    show: async (page) => {
      await page.locator(".grid-row .cell.stack").first().click({ button: "right" });
      await page.getByRole("menuitem", { name: "Show the whole stack" }).click();
      await page.locator(".frames .frame").first().waitFor();
    },
  },
  {
    name: "a pinned tooltip",
    query: STARVED,
    show: async (page) => {
      const { x, y } = await lanePoint(page, ".tl-tree [data-in^=p][data-lane^=t]", 0.5);
      await page.mouse.click(x, y);
      await page.waitForSelector(".tl-tip.pinned");
    },
  },
  {
    name: "the menu of the start view",
    query: STARVED,
    show: async (page) => {
      await page.getByRole("button", { name: "Start view" }).click();
      await page.getByRole("menu").waitFor();
    },
  },
  {
    name: "the palette",
    query: STARVED,
    show: async (page) => {
      await page.keyboard.press("Control+Shift+KeyP");
      await page.keyboard.type("time");
      await page.waitForSelector("dialog");
    },
  },
  {
    name: "search",
    query: STARVED,
    show: async (page) => {
      await page.keyboard.press("Slash");
      await page.keyboard.type("lock");
      await page.waitForSelector(".hit");
    },
  },
  {
    name: "the legend",
    query: STARVED,
    show: async (page) => {
      await page.getByRole("button", { name: "Legend" }).click();
      await page.waitForSelector(".tl-legend dl");
    },
  },
  {
    name: "a wrong filter",
    query: `${STARVED}&view=tables&where=${encodeURIComponent("waited > > 5")}`,
    show: (page) => page.waitForSelector(".tables [role=alert], .tables .bad"),
  },
  {
    name: "the completions of a filter",
    query: `${STARVED}&view=tables`,
    show: async (page) => {
      await page.locator(".tables [role=combobox]").click();
      await page.getByRole("listbox", { name: "Completions" }).waitFor();
    },
  },
  {
    name: "the notes",
    query: STARVED,
    show: async (page) => {
      await page.getByRole("button", { name: /^Notes/ }).click();
      await page.waitForSelector("dialog");
    },
  },
  {
    name: "the menu of a lane",
    query: STARVED,
    show: async (page) => {
      const { x, y } = await lanePoint(page, ".tl-tree [data-in^=p][data-lane^=t]", 0.5);
      await page.mouse.click(x, y, { button: "right" });
      await page.getByRole("menu").waitFor();
    },
  },
  {
    name: "the menu of a stall",
    query: STARVED,
    show: async (page) => {
      await page.locator("[data-stall-row]").first().click({ button: "right" });
      await page.getByRole("menu").waitFor();
    },
  },
  {
    name: "a notice",
    query: STARVED,
    show: async (page) => {
      await page.locator("[data-stall-row]").first().click({ button: "right" });
      await page.getByRole("menuitem", { name: "Copy the line" }).click();
      await page.waitForSelector(".toast");
    },
  },
  {
    name: "a recording without a stall",
    query: "trace=quiet.txt",
    show: (page) => page.getByRole("heading", { name: "No stall was found" }).waitFor(),
  },
  {
    name: "the menu of a column",
    query: `${STARVED}&view=tables`,
    show: async (page) => {
      await page.locator(".head").first().click({ button: "right" });
      await page.getByRole("menu").waitFor();
    },
  },
  {
    name: "an open crowd of the partition",
    query: "trace=move-my-mouse.hitch",
    show: async (page) => {
      const rows = page.locator(".parts tr");
      const crowd = page.locator(".parts button", { hasText: /\d+ gomacc$/ }).first();
      await crowd.waitFor();
      const before = await rows.count();
      await crowd.click();
      await page.waitForSelector(".parts [aria-expanded=true]");
      expect(await rows.count()).toBeGreaterThan(before);
    },
  },
  {
    name: "a damaged trace",
    query: "trace=cut.data",
    show: (page) => page.locator(".error-box").waitFor(),
  },
  {
    name: "a trace that is not there",
    query: "trace=none.hitch",
    show: (page) => page.locator(".error-box").waitFor(),
  },
  {
    name: "the menu of a trace of the folder",
    query: "",
    show: async (page) => {
      await page.locator("[data-trace='starve.hitch'] .trace-open").click({ button: "right" });
      await page.getByRole("menu").waitFor();
    },
  },
  ...["Rename …", "Delete …"].map((item) => ({
    name: `the dialog of ${item}`,
    query: "",
    show: async (page: Page) => {
      await page.getByRole("button", { name: "More for starve.hitch" }).click();
      await page.getByRole("menuitem", { name: item }).click();
      await page.waitForSelector("dialog");
    },
  })),
  {
    name: "a filter of the folder that no trace matches",
    query: "",
    show: async (page) => {
      await page.getByPlaceholder(/^Filter: any word/).fill("no such word");
      await page.getByText("No trace matches the filter.").waitFor();
    },
  },
  {
    name: "a selected row of the folder",
    query: "",
    show: (page) => page.getByRole("checkbox", { name: "Select starve.hitch" }).check(),
  },
];

describe.skipIf(skipReason("surfaces") !== null)("surfaces", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start(async (folder) => {
      await writeGolden(folder);
      TestBed.copy(STARVE)(folder);
      writeFileSync(join(folder, "cut.data"), "PERFILE2");
      writeFileSync(join(folder, "quiet.txt"), quiet());
    });
  });
  afterAll(() => bed?.stop());
  afterEach(async ({ task }) => {
    // A damaged or missing trace and a wrong filter are refused, which the browser reports.
    await bed.end(page, `surfaces ${task.name}`, task, /status of (400|404|422)/);
  });

  for (const { name, query, show } of SURFACES)
    test(name, async () => {
      page = await bed.page(query);
      if (/^trace=(starve|move|quiet)/.test(query)) {
        await page.waitForSelector(".answers, .tables, .stacks");
        await settled(page);
      }
      await show(page);
      expect(await commandsIn(page)).toEqual([]);
      await expectAccessible(page);
    });

  test("loading", async () => {
    page = await bed.page();
    let answer = () => {};
    const held = new Promise<void>((done) => (answer = done));
    await page.route("**/status", async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(new URL(`/?${STARVED}`, bed.address).href);
    await page.locator(".loading").waitFor();
    await expectAccessible(page);
    answer();
  });
});

describe.skipIf(skipReason("an empty folder") !== null)("an empty folder", () => {
  let bed: TestBed;

  beforeAll(async () => {
    bed = await TestBed.start((folder) => mkdirSync(join(folder, "symbols")));
  });
  afterAll(() => bed?.stop());

  test("axe finds nothing, dark and light", async () => {
    const page = await bed.page();
    await page.getByText("No traces yet.").waitFor();
    await expectAccessible(page);
    bed.expectNoComplaints();
  });
});
