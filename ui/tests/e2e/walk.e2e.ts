/**
 * A walk through all views with many recordings: ten real ones, made now; synthetic ones, other
 * tools', and those of Windows that have no lanes, no stalls or no time at all. No error on the
 * console, and every view settles; in all views of the real ones and of one of each other kind, axe
 * finds nothing.
 *
 * With `UNHITCH_CORPUS`, the real traces of other systems in that folder are walked through, too.
 */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { REPORT } from "../fixtures/fleet";
import { axeFindings } from "./axe";
import { COMMANDS, STARVE, settled, skipReason, TestBed, UNHITCH, writeGolden } from "./harness";
import { LIVE, recordLive } from "./live";

const GOLDEN = ["type-an-email", "move-my-mouse", "sixty-three-cores"];
/** Recordings as the files of other tools, by the format to export to. */
const EXPORTS = [
  { from: "starve.hitch", to: "perf.data", file: "starve.data" },
  { from: "starve.hitch", to: "perfetto", file: "starve.perfetto-trace" },
  { from: "move-my-mouse.hitch", to: "perfetto", file: "move-my-mouse.perfetto-trace" },
] as const;

/** The traces in the folder of real ones. */
function corpus(): string[] {
  const root = process.env.UNHITCH_CORPUS;
  if (!root) return [];
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(etl|etl\.zip|hitch|data|perfetto-trace)$/.test(name))
    .map((name) => join(root, name))
    .sort();
}

const REAL = corpus();
const RECORDINGS = [
  basename(STARVE),
  ...GOLDEN.flatMap((name) => [`${name}.hitch`, `${name}.etl`]),
  ...EXPORTS.map(({ file }) => file),
  ...LIVE,
  ...REAL.map((path) => basename(path)),
];

/**
 * Those whose views axe looks at: other files have the same views of the same data, or no data. Those
 * made now have the colours of the others.
 */
const LOOKED_AT: ReadonlySet<string> = new Set([
  basename(STARVE),
  "type-an-email.etl",
  "starve.perfetto-trace",
  "HTTP_Server.etl",
  ...LIVE,
]);

/** Ten recordings and a walk take long on a busy machine. */
const PATIENCE_MS = 600_000;

async function fill(folder: string): Promise<void> {
  await writeGolden(folder);
  for (const file of [STARVE, ...REAL]) cpSync(file, join(folder, basename(file)));
  for (const { from, to, file } of EXPORTS) {
    const args = ["export", "--to", to, "-o", join(folder, file), join(folder, from)];
    const { status, stderr } = spawnSync(UNHITCH, args, { encoding: "utf8" });
    if (status !== 0 || !existsSync(join(folder, file))) throw new Error(`${file}: ${stderr}`);
  }
  writeFileSync(join(folder, "report.json"), JSON.stringify(REPORT));
  await recordLive(folder);
}

describe.skipIf(skipReason("walk") !== null)("walk", () => {
  let bed: TestBed;
  let page: Page;
  let isOpen = false;
  /** Whether axe looks at the views of this recording, also at their colours, and what it finds. */
  let looksAt = true;
  let looksAtColours = true;
  let found: { what: string; findings: string[] }[] = [];

  beforeAll(async () => {
    bed = await TestBed.start(fill, (folder) => ["--fleet", join(folder, "report.json")]);
  }, PATIENCE_MS);
  afterAll(() => bed?.stop());
  afterEach(async ({ task }) => {
    if (!isOpen) return;
    isOpen = false;
    await bed.screenshot(page, `walk ${task.name}`, task);
    await page.context().close();
    bed.expectNoComplaints();
  });

  /** What is shown now settles, and is looked at by axe. */
  const look = async (what: string) => {
    await settled(page);
    if (!looksAt) return;
    const findings = await axeFindings(page, looksAtColours ? [] : ["color-contrast"]);
    if (findings.length > 0) found.push({ what, findings });
  };
  const press = (name: string) => page.getByRole("button", { name, exact: true }).click();
  /** The first thread's whole time, explained by keyboard. */
  const explainFirstThread = async () => {
    const thread = page.locator(".tl-tree [data-lane^=t]");
    if ((await thread.count()) === 0) return;
    const lane = await thread.first().getAttribute("data-lane");
    const address = new URL(page.url());
    for (const name of ["stall", "hop", "event"]) address.searchParams.delete(name);
    address.searchParams.set("thread", (lane ?? "").slice(1));
    await page.goto(address.href);
    await look("a thread");
    await page.keyboard.press("Shift+KeyF");
    await page.keyboard.press("KeyE");
    await look("what a thread did");
  };

  test("ten recordings are real", ({ skip }) => {
    const made = LIVE.filter((name) => existsSync(join(bed.folder, name)));
    // Nobody may record here, which `recordLive` has said.
    if (made.length === 0) skip();
    expect(made).toEqual(LIVE);
    expect(LIVE.length).toBeGreaterThanOrEqual(10);
  });

  test("the folder with the report over a fleet", async () => {
    found = [];
    page = await bed.page();
    isOpen = true;
    await page.waitForSelector(".fleet[data-ready=true]");
    await look("the folder");
    expect(found).toEqual([]);
  });

  test("two traces side by side", async () => {
    found = [];
    page = await bed.page(`before=${basename(STARVE)}&after=type-an-email.hitch`);
    isOpen = true;
    await page.getByRole("heading", { name: "What differs" }).waitFor();
    await look("what differs");
    for (const button of ["Wakes", "Samples", "Widths of before", "Whole recordings"]) {
      await press(button);
      await look(`what differs, ${button}`);
    }
    expect(found).toEqual([]);
  });

  for (const name of RECORDINGS)
    test(
      name,
      async ({ skip }) => {
        found = [];
        looksAt = LOOKED_AT.has(name);
        looksAtColours = !LIVE.includes(name);
        // It could not be made here, which `recordLive` has said.
        if (!existsSync(join(bed.folder, name))) skip();
        page = await bed.page(`trace=${encodeURIComponent(name)}`);
        isOpen = true;
        await page.waitForSelector(".answers");
        await look("answers");
        expect(await page.locator(".answers").innerText()).not.toMatch(COMMANDS);
        await page.keyboard.press("Digit2");
        await page.waitForSelector(".tables");
        const presets = page.getByRole("group", { name: "Presets" }).getByRole("button");
        for (const preset of await presets.allInnerTexts()) {
          await press(preset);
          await look(`table ${preset}`);
        }
        // Those that have no preset.
        for (const table of ["events", "contention", "lifetimes"]) {
          const choice = page.locator("select[aria-label=Table]");
          if ((await choice.locator(`option[value=${table}]`).count()) === 0) continue;
          await choice.selectOption(table);
          await look(`table ${table}`);
        }
        await page.keyboard.press("Digit3");
        for (const [of, form] of [
          ["Waits", "Flame"],
          ["Waits", "Icicle"],
          ["Waits", "Butterfly"],
          ["Wakes", "Butterfly"],
          ["Wakes", "Flame"],
          ["Samples", "Flame"],
          ["Samples", "Butterfly"],
        ] as const) {
          await press(of);
          await press(form);
          await look(`${form} of ${of}`);
        }
        await press("By address");
        await look("samples by address");
        await press("Timeline");
        await look("the timeline alone");
        await press("Both");
        await page.keyboard.press("Digit1");
        await explainFirstThread();
        expect(found).toEqual([]);
      },
      PATIENCE_MS,
    );
});
