/**
 * Measures the page's drawing in headless Chromium against a running server:
 * `UNHITCH_ADDRESS=http://… npm run speed`.
 *
 * `UNHITCH_ADDRESS` is the line that `unhitch view TRACE` prints, with its token. `UNHITCH_TRACE`
 * names the trace if a folder is served. With `UNHITCH_VIEW`, which is the program, and
 * `UNHITCH_TRACE`, a file, the only figures are how long it takes until the timeline can be used: from
 * the start of `unhitch view TRACE`, and from a click on the trace in the list of its folder, in a
 * browser that runs already. Prints one line per figure with its goal. Exits with 0 if
 * all goals are met, 1 if one is missed, 2 if nothing could be measured.
 *
 * *What is measured:* the time from the start of a frame's callback until its picture is handed to
 * the browser, for every picture drawn while panning and zooming by keys and wheel. The browser's
 * own rastering shows in the intervals between frames.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { browserPath } from "../browser.mjs";

const GOALS = { drawMs: 16, memoryMib: 300, usableMs: 3000, openMs: 1000 };
const ROUNDS = 60;

function cannot(why) {
  console.log(`page drawing: not measured: ${why}`);
  process.exit(2);
}

const at = (sorted, share) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];

const spread = (sorted) =>
  `median ${at(sorted, 0.5).toFixed(1)} ms, 95 % ${at(sorted, 0.95).toFixed(1)} ms`;

let missed = false;
function figure(name, text, value, goal, unit) {
  const met = value <= goal;
  missed ||= !met;
  console.log(`page ${name}: ${text} (goal ≤ ${goal} ${unit}${met ? "" : ", missed"})`);
}

/**
 * A process's memory in MiB: resident (Rss), and its proportional share (Pss), which divides what
 * the browser's processes have in common, mostly code. Zero if the system does not report it.
 */
function memoryOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    const mib = (name) =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0) / 1024;
    return { resident: mib("Rss"), share: mib("Pss") };
  } catch {
    return { resident: 0, share: 0 };
  }
}

const { UNHITCH_VIEW: program, UNHITCH_TRACE: trace } = process.env;
const address = () =>
  process.env.UNHITCH_ADDRESS ??
  cannot(
    "UNHITCH_ADDRESS is not set; start `unhitch view TRACE` and give the address that it prints",
  );
if (!program) address();

/** Starts `unhitch view`; the process and the address that it prints. */
async function view(what) {
  const server = spawn(program, ["view", what], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: server.stdout }))
    return { server, address: line };
  return cannot(`${program} view ${what} printed no address`);
}

const timeline = ".tl[data-ready]";
const usable = (page) =>
  page.waitForFunction(
    (selector) => document.querySelector(selector)?.dataset.ready === "true",
    timeline,
  );

/** Both ways to open a file. */
async function opening(page) {
  await page.goto("data:text/html,<h1>warm</h1>");
  const begin = performance.now();
  const one = await view(trace);
  await page.goto(one.address);
  await usable(page);
  const started = performance.now() - begin;
  one.server.kill();
  const all = await view(dirname(trace));
  await page.goto(all.address);
  const row = page.getByText(basename(trace)).first();
  await row.waitFor();
  const clicked = performance.now();
  await row.click();
  await usable(page);
  const opened = performance.now() - clicked;
  all.server.kill();
  const text = (ms) => `${(ms / 1000).toFixed(2)} s`;
  figure("opened", text(opened), opened, GOALS.openMs, "ms");
  console.log(`page started: ${text(started)}`);
}

const executablePath = browserPath() ?? cannot("no chromium; install it, or set CHROMIUM");

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});
try {
  const context = await browser.newContext({
    viewport: { width: 1600, height: 900 },
    colorScheme: "dark",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  if (program) {
    await opening(page);
    await browser.close();
    process.exit(missed ? 1 : 0);
  }
  const url = new URL(address());
  url.searchParams.set("layout", "timeline");
  if (trace) url.searchParams.set("trace", trace);
  const begin = performance.now();
  await page.goto(url.href);
  await usable(page);
  const first = performance.now() - begin;
  figure(
    "usable after",
    `${(first / 1000).toFixed(2)} s with loading what was not loaded`,
    first,
    GOALS.usableMs,
    "ms",
  );

  await page.evaluate((selector) => {
    const root = document.querySelector(selector);
    const seen = { draws: [], frames: [] };
    globalThis.unhitchSpeed = seen;
    root.addEventListener("timeline-drawn", (event) => seen.draws.push(event.detail));
    let last = performance.now();
    const frame = (now) => {
      seen.frames.push(now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }, timeline);
  const take = () =>
    page.evaluate(() => ({
      draws: globalThis.unhitchSpeed.draws.splice(0),
      frames: globalThis.unhitchSpeed.frames.splice(0),
    }));

  const box = await page.locator(timeline).boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.5);
  const turn = async (dx, dy) => {
    await page.mouse.wheel(dx, dy);
    await page.evaluate(
      () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
    );
  };
  /** The wheel alone scrolls the lanes; with Ctrl it zooms. */
  const zoom = async (dy) => {
    await page.keyboard.down("Control");
    await turn(0, dy);
    await page.keyboard.up("Control");
  };
  const draws = [];
  const frames = [];
  const act = async (name, run) => {
    await take();
    await run();
    await usable(page);
    const seen = await take();
    draws.push(...seen.draws);
    frames.push(...seen.frames);
    const sorted = seen.draws.sort((a, b) => a - b);
    if (sorted.length > 0)
      console.log(`page ${name}: ${sorted.length} pictures, ${spread(sorted)}`);
  };
  await act("zooming by wheel", async () => {
    for (let n = 0; n < ROUNDS; n++) await zoom(n % 20 < 14 ? -120 : 120);
  });
  await act("panning by wheel", async () => {
    for (let n = 0; n < ROUNDS; n++) await turn(n % 20 < 10 ? 160 : -160, 0);
  });
  await act("zooming and panning by keys", async () => {
    for (const key of ["KeyS", "KeyD", "KeyA", "KeyW", "KeyD", "KeyS"]) {
      await page.keyboard.down(key);
      await page.waitForTimeout(400);
      await page.keyboard.up(key);
    }
  });
  await act("everything, again and again", async () => {
    for (let n = 0; n < 10; n++) {
      await page.keyboard.press("Shift+KeyF");
      await usable(page);
      await zoom(-400);
    }
  });
  if (draws.length === 0) cannot("nothing was drawn");
  draws.sort((a, b) => a - b);
  frames.sort((a, b) => a - b);
  figure(
    "draw, median",
    `${at(draws, 0.5).toFixed(1)} ms of ${draws.length} pictures of 1600×900`,
    at(draws, 0.5),
    GOALS.drawMs,
    "ms",
  );
  console.log(`page draw, 95 %: ${at(draws, 0.95).toFixed(1)} ms`);
  console.log(`page frames: ${spread(frames)} apart`);

  const cdp = await context.newCDPSession(page);
  await cdp.send("Performance.enable");
  await cdp.send("HeapProfiler.collectGarbage");
  const metrics = await cdp.send("Performance.getMetrics");
  const heap = (metrics.metrics.find((m) => m.name === "JSHeapUsedSize")?.value ?? 0) / 1024 / 1024;
  const { processInfo } = await (await browser.newBrowserCDPSession()).send(
    "SystemInfo.getProcessInfo",
  );
  const renderers = processInfo.filter((p) => p.type === "renderer").map((p) => memoryOf(p.id));
  const most = renderers.sort((a, b) => b.share - a.share)[0];
  console.log(`page JavaScript heap: ${heap.toFixed(1)} MiB`);
  if (!most?.share) cannot("the system does not tell the memory of the browser's processes");
  figure(
    "memory of the tab's process",
    `${most.share.toFixed(0)} MiB; ${most.resident.toFixed(0)} resident with what all tabs share`,
    most.share,
    GOALS.memoryMib,
    "MiB",
  );
} finally {
  await browser.close();
}
process.exit(missed ? 1 : 0);
