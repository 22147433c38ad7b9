/**
 * Starts the real server and a real browser for a test file, and stops both.
 *
 * Tests wait for the page's own signs (`data-ready`, texts, the URL), never for a time. Any error
 * or warning on the console, and any request that would leave the machine, fails the test.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { expect, type RunnerTestCase } from "vitest";
import { browserPath } from "../browser.mjs";

/** The last screen of tests, to look at after a failure; git ignores it. */
const SHOTS = resolve(import.meta.dirname, "../../shots");

const ROOT = resolve(import.meta.dirname, "../../..");
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");

/** The program under test. */
export const UNHITCH = process.env.UNHITCH_BIN ?? join(TARGET, "debug/unhitch");
export const STARVE = join(ROOT, "examples/starve.hitch");

/**
 * Advice that is a command line, where the page can do it itself. Recording, another recorder's
 * options and what serves the page are no such advice.
 */
const COMMANDS =
  /.{0,60}(unhitch (why|waits|hot|info|table|threads|callers|callees|list|diff|report|export)\b|--(victim|from|to|in-progress|top|json|wide|where|by|show|sort|of)\b).{0,60}/g;

/** Why the tests cannot run here, which is also printed; `null` if they can. */
export function skipReason(name: string): string | null {
  const why =
    browserPath() === null
      ? "no chromium"
      : !existsSync(UNHITCH)
        ? `${UNHITCH} was not built`
        : null;
  if (why !== null) console.log(`page, ${name}: skipped, ${why}`);
  return why;
}

/** Generates the golden traces in `folder`. */
export async function writeGolden(folder: string): Promise<void> {
  const built = join(TARGET, "debug/examples/write");
  const [command, args] = existsSync(built)
    ? [built, [folder]]
    : [
        "cargo",
        ["run", "--quiet", "--locked", "-p", "unhitch-golden", "--example", "write", "--", folder],
      ];
  await new Promise<void>((done, failed) => {
    const child = spawn(command, args, { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
    child.on("error", failed);
    child.on("exit", (code) =>
      code === 0 ? done() : failed(new Error(`${command} exited with ${code}`)),
    );
  });
}

/** A server and a browser for one test file. */
export class TestBed {
  private complaints: string[] = [];

  private constructor(
    readonly folder: string,
    readonly address: string,
    private readonly server: ChildProcess,
    readonly browser: Browser,
  ) {}

  /** Serves a new folder, which `fill` fills with traces. */
  static async start(
    fill: (folder: string) => Promise<void> | void,
    options: (folder: string) => string[] = () => [],
  ): Promise<TestBed> {
    return TestBed.startOn((folder) => folder, fill, options);
  }

  /** Serves a single trace. */
  static async single(file: string): Promise<TestBed> {
    return TestBed.startOn((folder) => join(folder, basename(file)), TestBed.copy(file));
  }

  private static async startOn(
    served: (folder: string) => string,
    fill: (folder: string) => Promise<void> | void,
    options: (folder: string) => string[] = () => [],
  ): Promise<TestBed> {
    const home = mkdtempSync(join(tmpdir(), "unhitch-page-"));
    const folder = join(home, "traces");
    mkdirSync(folder);
    await fill(folder);
    // The golden traces' symbols of Windows functions.
    const symbols = join(folder, "symbols");
    const words = ["view", served(folder), "--symbols", symbols, ...options(folder)];
    const server = spawn(UNHITCH, words, {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, BROWSER: "true", DISPLAY: "" },
    });
    const address = await firstLine(server);
    // With scroll bars, which take space in real browsers, too.
    const browser = await chromium.launch({
      executablePath: browserPath() ?? "",
      timeout: 90_000,
      ignoreDefaultArgs: ["--hide-scrollbars"],
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--font-render-hinting=none",
      ],
    });
    return new TestBed(folder, address, server, browser);
  }

  static copy(...files: string[]): (folder: string) => void {
    return (folder) => {
      for (const file of files) cpSync(file, join(folder, basename(file)));
    };
  }

  /** Opens a new page with the token; `query` is added to the URL. */
  async page(query = "", options: Parameters<Browser["newContext"]>[0] = {}): Promise<Page> {
    const context: BrowserContext = await this.browser.newContext({
      viewport: { width: 1280, height: 720 },
      colorScheme: "dark",
      reducedMotion: "reduce",
      ...options,
    });
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    // For work on the page: serves ui/dist, so that the binary need not be rebuilt.
    if (process.env.UNHITCH_DIST) await serveBuilt(context, process.env.UNHITCH_DIST);
    const page = await context.newPage();
    page.setDefaultTimeout(Number(process.env.UNHITCH_PATIENCE ?? 30_000));
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning")
        this.complaints.push(message.text());
    });
    page.on("pageerror", (error) => this.complaints.push(String(error)));
    const origin = new URL(this.address).origin;
    page.on("request", (request) => {
      if (!request.url().startsWith(origin) && !/^(blob|data):/.test(request.url()))
        this.complaints.push(`a request left the machine: ${request.url()}`);
    });
    const address = new URL(this.address);
    for (const [name, value] of new URLSearchParams(query)) address.searchParams.set(name, value);
    await page.goto(address.href);
    // The URL with the token redirects to the one without.
    await page.waitForURL((url) => !url.searchParams.has("token"));
    await page.waitForSelector(".header");
    return page;
  }

  /** Fails if browser or page complained since the last call. */
  expectNoComplaints(): void {
    const complaints = this.complaints;
    this.complaints = [];
    // Thrown, not asserted: an assertion's message shows the length of a list only.
    if (complaints.length > 0) throw new Error(`the browser complained: ${complaints.join("; ")}`);
  }

  /** Drops complaints that a test provokes: the browser reports refused requests. */
  allow(what: RegExp): void {
    this.complaints = this.complaints.filter((text) => !what.test(text));
  }

  /**
   * Saves a screenshot of a test that failed. With `UNHITCH_SHOTS` set, of every one: a picture can
   * take longer than its test.
   */
  async screenshot(page: Page, test: string, task?: Readonly<RunnerTestCase>): Promise<void> {
    if (!process.env.UNHITCH_SHOTS && task?.result?.state !== "fail") return;
    mkdirSync(SHOTS, { recursive: true });
    await page.screenshot({
      path: join(
        SHOTS,
        `${test
          .replace(/[^\p{L}\d]+/gu, "-")
          .replace(/^-|-$/g, "")
          .slice(0, 120)}.png`,
      ),
    });
  }

  /** Ends a test and its page; fails if browser or page complained of anything but `expected`. */
  async end(page: Page, name: string, task?: Readonly<RunnerTestCase>, expected?: RegExp) {
    await this.screenshot(page, name, task);
    await close(page);
    if (expected) this.allow(expected);
    this.expectNoComplaints();
  }

  async stop(): Promise<void> {
    const pages = this.browser.contexts().flatMap((context) => context.pages());
    await Promise.all(pages.map(close));
    await this.browser.close();
    this.server.kill("SIGTERM");
    rmSync(join(this.folder, ".."), { recursive: true, force: true });
  }
}

/** Closes a page, also while a route of it waits for its answer, which would fail the whole run. */
async function close(page: Page): Promise<void> {
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.context().close();
}

async function serveBuilt(context: BrowserContext, dist: string): Promise<void> {
  await context.route(
    (url) => url.pathname.startsWith("/assets/") || url.pathname === "/",
    async (route) => {
      const { pathname, searchParams } = new URL(route.request().url());
      if (searchParams.has("token")) return route.continue();
      return route.fulfill({ path: join(dist, pathname === "/" ? "index.html" : pathname) });
    },
  );
}

/** The first line that the server prints: its URL. */
function firstLine(server: ChildProcess): Promise<string> {
  return new Promise((done, failed) => {
    let text = "";
    server.on("error", failed);
    server.on("exit", (code) =>
      failed(new Error(`the server exited with ${code} before it printed its URL`)),
    );
    server.stdout?.on("data", (data: Buffer) => {
      text += data.toString();
      const line = /https?:\/\/\S+/.exec(text.split("\n")[0] ?? "");
      if (text.includes("\n") && line) done(line[0]);
    });
  });
}

/** Opens a trace from the list, as a user does. */
export async function open(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name, exact: true }).click();
  await page.waitForSelector("[data-answer]");
  await settled(page);
}

/** Waits until everything requested has arrived and is drawn. */
export async function settled(page: Page): Promise<void> {
  try {
    await page.waitForFunction(() => {
      const parts = [...document.querySelectorAll<HTMLElement>("[data-ready]")];
      return (
        parts.length > 0 &&
        parts.every((part) => part.dataset.ready === "true") &&
        document.querySelector(".busy, [aria-busy=true]") === null
      );
    });
  } catch (error) {
    const open = await page.evaluate(() =>
      [
        ...document.querySelectorAll<HTMLElement>(
          "[data-ready]:not([data-ready=true]), .busy, [aria-busy=true], .error-box, .tl-problem",
        ),
      ].map((part) => `${part.className} ${part.innerText.slice(0, 80)}`),
    );
    throw new Error(`never settled: ${open.join("; ") || "the page is empty"}`, {
      cause: error,
    });
  }
}

/** Where the page advises a command, also in what is closed. Rows of tables show those of processes. */
export async function commandsIn(page: Page): Promise<string[]> {
  const text = await page.locator("main").evaluate((main) => {
    const told = main.cloneNode(true) as HTMLElement;
    for (const row of told.querySelectorAll(".grid-row")) row.remove();
    return told.textContent ?? "";
  });
  return text.match(COMMANDS) ?? [];
}

/** The time range that the timeline shows, in ns. */
export async function shownWindow(page: Page): Promise<{ from: number; to: number }> {
  return page.locator(".timeline").evaluate((element) => ({
    from: Number((element as HTMLElement).dataset.from),
    to: Number((element as HTMLElement).dataset.to),
  }));
}

/** The timeline is zoomed to the selected time, as when a stall of the list was opened. */
export async function expectZoomed(page: Page): Promise<void> {
  const selected = new URL(page.url()).searchParams.get("range") ?? "";
  const [from, to] = selected.split("-").map(Number) as [number, number];
  const shown = await shownWindow(page);
  expect(shown.from).toBeLessThan(from);
  expect(shown.to).toBeGreaterThan(to);
  expect(shown.to - shown.from).toBeLessThan(1.3 * (to - from));
}

/** A point of a row of the timeline: over its name, or at a share of the plot's width. */
export async function lanePoint(
  page: Page,
  lane: string,
  share: number | null,
): Promise<{ x: number; y: number }> {
  const box = await page.locator(".tl-over").boundingBox();
  if (!box) throw new Error("no timeline");
  const top = Number(await page.locator(lane).first().getAttribute("data-top"));
  const { head, labels } = await page.locator(".timeline").evaluate((element) => ({
    head: Number((element as HTMLElement).dataset.head),
    labels: Number((element as HTMLElement).dataset.labels),
  }));
  // Scrolls only if the lane is not on the screen.
  const scroll = await page.locator(".tl-scroll").evaluate(
    (element, { top, room }) => {
      if (top < element.scrollTop || top + 30 > element.scrollTop + room)
        element.scrollTop = Math.max(0, top - 30);
      return element.scrollTop;
    },
    { top, room: box.height - head },
  );
  // The lanes follow at the next frame. A click before that would hit what was there.
  await page.waitForFunction(
    (to) => document.querySelector<HTMLElement>(".timeline")?.dataset.scroll === String(to),
    Math.round(scroll),
  );
  return {
    x: box.x + (share === null ? labels / 2 : labels + (box.width - labels) * share),
    y: box.y + head + top - scroll + 8,
  };
}

/** Runs an action that changes the timeline's window, and waits for the change. */
export async function windowChanges(
  page: Page,
  act: () => Promise<unknown>,
): Promise<{ before: { from: number; to: number }; after: { from: number; to: number } }> {
  const before = await shownWindow(page);
  await act();
  await page.waitForFunction((was) => {
    const data = document.querySelector<HTMLElement>(".timeline")?.dataset;
    return data !== undefined && (data.from !== String(was.from) || data.to !== String(was.to));
  }, before);
  await settled(page);
  return { before, after: await shownWindow(page) };
}

/** Steps back through the open stall's chain by mouse. Returns the links' texts in time order. */
export async function walkBack(page: Page): Promise<string[]> {
  const earlier = page.getByRole("button", { name: "‹ earlier" });
  const links = Number.parseInt(await page.locator("[data-link]").innerText(), 10);
  expect(links).toBeGreaterThan(0);
  const texts: string[] = [];
  for (let at = links - 1; at >= 0; at--) {
    await earlier.click();
    await page.waitForSelector(`[data-link='${at}']`);
    texts.unshift(await page.locator(".link-details").innerText());
    expect(new URL(page.url()).searchParams.get("hop")).toBe(String(at));
  }
  expect(await earlier.isDisabled()).toBe(true);
  await settled(page);
  return texts;
}
