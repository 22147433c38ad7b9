/** A walk through all views of a recording: every view settles, nothing complains, and axe looks. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { axeFindings } from "./axe";
import { commandsIn, settled, skipReason, TestBed } from "./harness";

/** Recordings and a walk take long on a busy machine. */
const PATIENCE_MS = 600_000;

/** One of something, said as if there were several. */
const ONE_OF_MANY =
  /(?<![\d.,])1 (lanes|threads|CPUs|processes|traces|stalls|rows|groups|functions|modules|files|samples|waits|wakes|switches|events|stacks|marks|links|hops|machines|recordings|caveats)\b/;

/** A share in a sentence, unless it is one of CPU samples. */
const SHARE_OF_TIME = /\d+\.\d %(?! of [\d,]+ samples?\b)/g;

/** A page that is walked through. */
export class Walk {
  private readonly found: { what: string; findings: string[] }[] = [];

  constructor(
    readonly page: Page,
    private readonly isLookedAt: boolean,
  ) {}

  /**
   * What is shown now settles, advises no command, and has no wrong plural; and axe looks at it, if it
   * is to look at this walk.
   */
  async look(what: string): Promise<void> {
    await settled(this.page);
    const findings = await commandsIn(this.page);
    const text = await this.page.locator("body").evaluate((body) => {
      const told = [...body.querySelectorAll("[title], [aria-label]")].flatMap((element) =>
        ["title", "aria-label"].map((name) => element.getAttribute(name) ?? ""),
      );
      return [body.innerText, ...told].join("\n");
    });
    findings.push(...(text.match(ONE_OF_MANY) ?? []).slice(0, 1));
    if (this.isLookedAt) findings.push(...(await axeFindings(this.page)));
    if (findings.length > 0) this.found.push({ what, findings });
  }

  press(name: string): Promise<void> {
    return this.page.getByRole("button", { name, exact: true }).click();
  }

  /** Fails if something was found, and says all of it. */
  end(): void {
    expect(this.found.flatMap(({ what, findings }) => [what, ...findings]).join("\n")).toBe("");
  }

  /** All views of the open recording. */
  async throughAllViews(): Promise<void> {
    const { page } = this;
    await page.waitForSelector(".answers");
    await this.look("answers");
    await this.agrees();
    await page.keyboard.press("Digit2");
    await page.waitForSelector(".tables");
    const presets = page.getByRole("group", { name: "Presets" }).getByRole("button");
    for (const preset of await presets.allInnerTexts()) {
      await this.press(preset);
      await this.look(`table ${preset}`);
    }
    // Those that have no preset.
    for (const table of ["events", "contention", "lifetimes"]) {
      const choice = page.locator("select[aria-label=Table]");
      if ((await choice.locator(`option[value=${table}]`).count()) === 0) continue;
      await choice.selectOption(table);
      await this.look(`table ${table}`);
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
      await this.press(of);
      await this.press(form);
      await this.look(`${form} of ${of}`);
    }
    await this.press("By address");
    await this.look("samples by address");
    await this.press("Timeline");
    await this.look("the timeline alone");
    await this.press("Both");
    await this.compareTwoThreads();
    await page.keyboard.press("Digit1");
    await this.explainFirstThread();
  }

  /** Each share of time that the answer's sentences name is in the table below the bar. */
  private async agrees(): Promise<void> {
    const answer = this.page.locator("[data-answer]");
    if ((await answer.count()) === 0) return;
    const [said, shown] = await Promise.all(
      [".cause", ".parts"].map(async (part) =>
        (await answer.locator(part).allInnerTexts()).join("\n").replace(/\s/g, " "),
      ),
    );
    const findings = (said?.match(SHARE_OF_TIME) ?? []).filter((share) => !shown?.includes(share));
    if (findings.length > 0) this.found.push({ what: `${said}, but not in its table`, findings });
  }

  /** The stacks of the first two threads, if there are two. */
  private async compareTwoThreads(): Promise<void> {
    const { page } = this;
    const lanes = await page
      .locator(".tl-tree [data-lane^=t]")
      .evaluateAll((rows) => rows.map((row) => (row as HTMLElement).dataset.lane?.slice(1)));
    const threads = [...new Set(lanes)].slice(0, 2);
    if (threads.length < 2) return;
    const before = page.url();
    const address = new URL(before);
    for (const [name, value] of [
      ["of", "wait"],
      ["form", "compare"],
      ["thread", threads.join()],
    ] as const)
      address.searchParams.set(name, value);
    await page.goto(address.href);
    await page.waitForSelector(".stacks-compare");
    await this.look("stacks of two threads compared");
    await page.goto(before);
    await page.waitForSelector(".stacks");
    await settled(page);
  }

  /** The first thread's whole time, explained by keyboard. */
  private async explainFirstThread(): Promise<void> {
    const { page } = this;
    const thread = page.locator(".tl-tree [data-lane^=t]");
    if ((await thread.count()) === 0) return;
    const lane = await thread.first().getAttribute("data-lane");
    const address = new URL(page.url());
    for (const name of ["stall", "hop", "event"]) address.searchParams.delete(name);
    address.searchParams.set("thread", (lane ?? "").slice(1));
    await page.goto(address.href);
    await this.look("a thread");
    await page.keyboard.press("Shift+KeyF");
    await page.keyboard.press("KeyE");
    await this.look("what a thread did");
  }
}

interface Walks {
  readonly fill: (folder: string) => Promise<void>;
  /** Further options of the server. */
  readonly options?: (folder: string) => string[];
  /** Recordings to walk through. */
  readonly recordings: readonly string[];
  /** Whether axe looks at the views of a recording. */
  readonly isLookedAt: (name: string) => boolean;
  /** Further tests. */
  readonly more: (begin: (query: string) => Promise<Walk>, has: (name: string) => boolean) => void;
}

export function walks(title: string, { fill, options, recordings, isLookedAt, more }: Walks): void {
  describe.skipIf(skipReason(title) !== null)(title, () => {
    let bed: TestBed;
    let walk: Walk | null = null;

    beforeAll(async () => {
      bed = await TestBed.start(fill, options);
    }, PATIENCE_MS);
    afterAll(() => bed?.stop());
    afterEach(async ({ task }) => {
      if (!walk) return;
      await bed.end(walk.page, `${title} ${task.name}`, task);
      walk = null;
    });

    const begin = async (query: string, isLookedAt = true) => {
      walk = new Walk(await bed.page(query), isLookedAt);
      return walk;
    };
    const has = (name: string) => existsSync(join(bed.folder, name));
    more(begin, has);

    for (const name of recordings)
      test(
        name,
        async ({ skip }) => {
          // It could not be made here, which was said.
          if (!has(name)) skip();
          const walk = await begin(`trace=${encodeURIComponent(name)}`, isLookedAt(name));
          await walk.throughAllViews();
          walk.end();
        },
        PATIENCE_MS,
      );
  });
}
