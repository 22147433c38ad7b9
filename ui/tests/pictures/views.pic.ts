/**
 * Takes the pictures for docs/page.md: each view dark and light, on a small and on a 4K screen, and
 * some details. Run by `tools/page pictures`. They are WebP, and the 4K ones are halved in size, to
 * keep the repository small.
 */
import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { lanePoint, STARVE, settled, skipReason, TestBed, writeGolden } from "../e2e/harness";

const INTO = resolve(import.meta.dirname, "../../../docs/images");
/** Maximum size of all pictures together, in bytes. */
const MAX_TOTAL = 4_000_000;
const QUALITY = 0.7;

const SMALL = { viewport: { width: 1280, height: 720 } };
/** 4K at the usual scaling of 2. */
const LARGE = { viewport: { width: 1920, height: 1080 }, deviceScaleFactor: 2 };

let bed: TestBed;

beforeAll(async () => {
  expect(skipReason("pictures")).toBeNull();
  rmSync(INTO, { recursive: true, force: true });
  mkdirSync(INTO, { recursive: true });
  bed = await TestBed.start(async (folder) => {
    await writeGolden(folder);
    TestBed.copy(STARVE)(folder);
  });
});
afterAll(async () => {
  await bed?.stop();
  expect(
    readdirSync(INTO).reduce((sum, name) => sum + statSync(join(INTO, name)).size, 0),
  ).toBeLessThanOrEqual(MAX_TOTAL);
});

/** Converts a picture to WebP, reduced by the factor `shrunk`. */
async function webp(png: Buffer, shrunk: number): Promise<Buffer> {
  const page = await bed.browser.newPage();
  const text = await page.evaluate(
    async ({ base64, shrunk, quality }) => {
      const image = await createImageBitmap(
        await (await fetch(`data:image/png;base64,${base64}`)).blob(),
      );
      const canvas = new OffscreenCanvas(image.width / shrunk, image.height / shrunk);
      const context = canvas.getContext("2d");
      if (!context) throw new Error("no canvas");
      context.imageSmoothingQuality = "high";
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      const bytes = new Uint8Array(
        await (await canvas.convertToBlob({ type: "image/webp", quality })).arrayBuffer(),
      );
      let out = "";
      for (const byte of bytes) out += String.fromCharCode(byte);
      return btoa(out);
    },
    { base64: png.toString("base64"), shrunk, quality: QUALITY },
  );
  await page.close();
  return Buffer.from(text, "base64");
}

async function take(page: Page, name: string, shrunk = 1): Promise<void> {
  await settled(page);
  // Moves the pointer away, so that nothing is hovered.
  await page.mouse.move(0, 0);
  await bed.screenshot(page, `picture ${name}`);
  writeFileSync(join(INTO, `${name}.webp`), await webp(await page.screenshot(), shrunk));
}

interface View {
  name: string;
  /** The trace; `null` for the list of traces, unless `query` is another address. */
  trace: string | null;
  query?: string;
  act?: (page: Page) => Promise<unknown>;
}

const VIEWS: readonly View[] = [
  { name: "answer", trace: "starve.hitch" },
  {
    name: "chain",
    trace: "move-my-mouse.hitch",
    act: async (page) => {
      await page.keyboard.press("BracketLeft");
      await page.waitForSelector(".link-details");
      await page.keyboard.press("KeyZ");
      await page.keyboard.press("KeyZ");
    },
  },
  { name: "tables", trace: "starve.hitch", act: (page) => page.keyboard.press("Digit2") },
  { name: "flame", trace: "starve.hitch", act: (page) => page.keyboard.press("Digit3") },
  {
    name: "butterfly",
    trace: "move-my-mouse.hitch",
    act: async (page) => {
      await page.keyboard.press("Digit3");
      await page.getByRole("button", { name: "Wakes" }).click();
      await page.getByRole("button", { name: "Butterfly" }).click();
      await page.locator("[data-function='NtGdiCloseProcess']").click();
    },
  },
  {
    name: "address",
    trace: "starve.hitch",
    act: async (page) => {
      await page.keyboard.press("Digit3");
      await page.getByRole("button", { name: "By address" }).click();
      await page.locator(".ranked .name").first().click();
    },
  },
  {
    name: "traces",
    trace: null,
    act: (page) =>
      page.waitForFunction(() => !/Being analysed|Not analysed/.test(document.body.innerText)),
  },
];

/** Other details shown in docs/page.md. */
const PARTS: readonly (View & { colorScheme: "dark" | "light" })[] = [
  { name: "machine", trace: "sixty-three-cores.hitch", colorScheme: "dark" },
  {
    name: "event",
    trace: "starve.hitch",
    colorScheme: "dark",
    act: async (page) => {
      await page.locator(".answer .text-link[title*='event']").first().click();
      await page.waitForSelector(".details[data-event]:not([data-event=''])");
    },
  },
  {
    name: "reported",
    trace: "move-my-mouse.etl",
    colorScheme: "light",
    act: async (page) => {
      await page.getByRole("button", { name: /^Windows reported/ }).click();
      await page.waitForSelector(".details[data-event]:not([data-event=''])");
    },
  },
  {
    name: "wakes",
    trace: "move-my-mouse.hitch",
    colorScheme: "light",
    act: async (page) => {
      await page.keyboard.press("Digit2");
      await page.getByRole("button", { name: "Who wakes" }).click();
      await settled(page);
      await page.getByRole("button", { name: "View", exact: true }).click();
    },
  },
  {
    name: "series",
    trace: "starve.hitch",
    colorScheme: "dark",
    act: async (page) => {
      await page.keyboard.press("Digit2");
      await page.getByRole("button", { name: "CPU over time" }).click();
      await page.waitForSelector(".series[data-ready=true]");
    },
  },
  {
    name: "tracks",
    trace: "starve.hitch",
    query: "trace=starve.hitch&tracks=cpu-over-time,queue-over-time&layout=timeline",
    colorScheme: "dark",
  },
  {
    name: "pinned",
    trace: "starve.hitch",
    colorScheme: "light",
    act: async (page) => {
      for (const role of ["victim", "culprit"]) {
        const lane = page.locator("[data-in=chain]", { hasText: role }).first();
        const id = await lane.getAttribute("data-lane");
        const { x, y } = await lanePoint(page, `[data-in=chain][data-lane=${id}]`, null);
        await page.mouse.move(x, y);
        await page.keyboard.press("KeyP");
        await page.waitForSelector(`[data-in=pinned][data-lane=${id}]`, { state: "attached" });
      }
      await page.keyboard.press("KeyZ");
      await page.keyboard.press("KeyZ");
    },
  },
  {
    name: "menu",
    trace: "starve.hitch",
    colorScheme: "dark",
    act: async (page) => {
      const { x, y } = await lanePoint(page, "[data-in=chain]", 0.5);
      await page.mouse.click(x, y, { button: "right" });
      await page.getByRole("menu").waitFor();
    },
  },
  {
    name: "compare",
    trace: "starve.hitch",
    colorScheme: "light",
    act: async (page) => {
      const lanes = await page.evaluate(
        async () =>
          (await (await fetch("/api/t/starve.hitch/lanes")).json()) as {
            processes: { name: string; threads: { thread: number; name: string }[] }[];
          },
      );
      const threads = lanes.processes.find(({ name }) => name === "lab-starve")?.threads ?? [];
      const address = new URL(page.url());
      for (const name of ["stall", "hop"]) address.searchParams.delete(name);
      address.searchParams.set("range", "1000000000-2000000000");
      const ids = threads.map(({ thread }) => thread);
      address.searchParams.set("thread", ids.slice(0, 3).join(","));
      await page.goto(address.href);
      await page.waitForSelector("[data-compare]");
    },
  },
  {
    name: "diff",
    trace: null,
    query: "before=type-an-email.hitch&after=move-my-mouse.hitch&widths=before",
    colorScheme: "dark",
    act: (page) => page.getByRole("heading", { name: "What differs" }).waitFor(),
  },
  {
    name: "search",
    trace: "starve.hitch",
    colorScheme: "dark",
    act: async (page) => {
      await page.keyboard.press("Slash");
      await page.keyboard.type("futex");
      await page.waitForSelector("#search-hits [role=option]");
    },
  },
  {
    name: "palette",
    trace: "starve.hitch",
    colorScheme: "dark",
    act: (page) => page.keyboard.press("Control+Shift+KeyP"),
  },
  {
    name: "help",
    trace: "starve.hitch",
    colorScheme: "light",
    act: (page) => page.keyboard.press("Shift+Slash"),
  },
];

async function picture(view: View, options: object, name: string, shrunk?: number): Promise<void> {
  const query = view.query ?? (view.trace === null ? "" : `trace=${view.trace}`);
  const page = await bed.page(query, options);
  // The worst stall opens automatically first.
  if (!view.query)
    await page.waitForSelector(view.trace === null ? "[data-trace]" : "[data-answer]");
  await settled(page);
  await view.act?.(page);
  await take(page, name, shrunk);
  await page.context().close();
}

for (const part of PARTS)
  test(part.name, () => picture(part, { ...SMALL, colorScheme: part.colorScheme }, part.name));

for (const view of VIEWS) {
  for (const colorScheme of ["dark", "light"] as const) {
    test(`${view.name}, ${colorScheme}`, () =>
      picture(view, { ...SMALL, colorScheme }, `${view.name}-${colorScheme}`));
    test(`${view.name}, ${colorScheme}, 4K`, () =>
      picture(view, { ...LARGE, colorScheme }, `${view.name}-${colorScheme}-4k`, 2));
  }
}
