/** A long recording: its newest part is shown while the rest is read. The server is made to say so. */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { expectAccessible } from "./axe";
import { STARVE, settled, skipReason, TestBed } from "./harness";

describe.skipIf(skipReason("newest") !== null)("newest", () => {
  let bed: TestBed;
  let page: Page;
  /** Whether all of the trace is read. */
  let isWhole: boolean;
  /** Of each resource, how often it was asked for. */
  let asked: Map<string, number>;

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
  });
  afterAll(() => bed?.stop());
  beforeEach(async () => {
    isWhole = false;
    asked = new Map();
    page = await bed.page();
    page.on("request", (request) => {
      const resource = new URL(request.url()).pathname.split("/").pop() ?? "";
      asked.set(resource, (asked.get(resource) ?? 0) + 1);
    });
    await page.route("**/api/t/starve.hitch/status", async (route) => {
      const answer = await route.fetch();
      const status = (await answer.json()) as { ready: { lanes: boolean; stalls: boolean } };
      const part = { stage: "newest", ready: { ...status.ready, stalls: false }, progress: 0.42 };
      const isRead = isWhole || !status.ready.lanes;
      await route.fulfill({ response: answer, json: isRead ? status : { ...status, ...part } });
    });
  });
  afterEach(({ task }) => bed.end(page, `newest ${task.name}`, task));

  const go = (query: string) => page.goto(new URL(`/?${query}`, bed.address).href);
  const banner = () => page.getByText("The rest is being read: 42 %");
  const readRest = async () => {
    isWhole = true;
    await banner().waitFor({ state: "detached" });
    await settled(page);
  };
  const times = (resource: string) => asked.get(resource) ?? 0;

  test("lanes and tables can be used, and all is asked anew once it is read", async () => {
    await go("trace=starve.hitch&view=tables");
    await banner().waitFor();
    await page.locator("[role='treegrid'] [role='row']").nth(2).waitFor();
    await page.locator("[data-lane='c0']").first().waitFor({ state: "attached" });
    await expect.poll(() => times("view")).toBeGreaterThan(0);
    const before = new Map(asked);
    await readRest();
    const again = () =>
      ["summary", "curve", "lanes", "view", "marks", "table", "tables"].filter(
        (resource) => times(resource) === (before.get(resource) ?? 0),
      );
    await expect.poll(again).toEqual([]);
  });

  test("axe finds nothing while the rest is read", async () => {
    await go("trace=starve.hitch&view=tables");
    await banner().waitFor();
    await page.locator("[role='treegrid'] [role='row']").nth(2).waitFor();
    expect(await page.locator("progress").count()).toBe(1);
    await expectAccessible(page);
  });

  test("an event that the address names is shown once its number is known", async () => {
    await go("trace=starve.hitch&view=tables&window=100000000-300000000&event=switch-5");
    await banner().waitFor();
    await page.locator("aside.details").getByText("Loading the event").waitFor();
    const address = page.url();
    expect(times("event")).toBe(0);
    await readRest();
    await page.locator("aside.details[data-event='switch-5']").waitFor();
    expect(page.url()).toBe(address);
  });

  test("what is explained is answered of the whole: events have other numbers in a part", async () => {
    await go("trace=starve.hitch&thread=3&range=500000000-1500000000");
    await banner().waitFor();
    await page.getByText("Following the wait chain").waitFor();
    expect(times("explain")).toBe(0);
    await readRest();
    await expect.poll(() => times("explain")).toBeGreaterThan(0);
    await page.getByText("Following the wait chain").waitFor({ state: "detached" });
  });

  test("a stall that the address names sorts the lanes once stalls are known", async () => {
    const named: boolean[] = [];
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.pathname.endsWith("/lanes")) named.push(url.searchParams.has("stall"));
    });
    await go("trace=starve.hitch&stall=1");
    await banner().waitFor();
    await expect.poll(() => named.length).toBeGreaterThan(0);
    expect(named).not.toContain(true);
    await readRest();
    await expect.poll(() => named.at(-1)).toBe(true);
  });
});
