/** The trace folder: notes, renaming, adding and deleting files, files that are not traces. */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { expectAccessible } from "./axe";
import { open, STARVE, settled, skipReason, TestBed, UNHITCH } from "./harness";

describe.skipIf(skipReason("folder") !== null)("folder", () => {
  let bed: TestBed;
  let page: Page;

  beforeAll(async () => {
    bed = await TestBed.start((folder) => {
      TestBed.copy(STARVE)(folder);
      writeFileSync(join(folder, "bare.data"), "PERFILE2");
    });
    page = await bed.page();
    await settled(page);
  });
  afterAll(() => bed?.stop());
  afterEach(async ({ task }) => {
    await bed.screenshot(page, `folder ${task.name}`, task);
    bed.expectNoComplaints();
  });

  const toList = async () => {
    await page.getByRole("button", { name: "Unhitch", exact: true }).click();
    await page.waitForSelector("[data-trace]");
    await settled(page);
  };
  const card = (name: string) => page.locator(`[data-trace='${name}']`);

  test("an added file opens", async () => {
    await page.locator("input[type=file]").setInputFiles({
      name: "second.hitch",
      mimeType: "application/octet-stream",
      buffer: readFileSync(STARVE),
    });
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    expect(new URL(page.url()).searchParams.get("trace")).toBe("second.hitch");
    expect(await page.locator(".trace-file").innerText()).toBe("second.hitch");
    expect(readFileSync(join(bed.folder, "second.hitch")).equals(readFileSync(STARVE))).toBe(true);
    await toList();
    await card("second.hitch").waitFor();
  });

  test("several added files do not open", async () => {
    const file = (name: string) => ({
      name,
      mimeType: "application/octet-stream",
      buffer: readFileSync(STARVE),
    });
    await page
      .locator("input[type=file]")
      .setInputFiles([file("many-1.hitch"), file("many-2.hitch")]);
    await card("many-1.hitch").waitFor();
    await card("many-2.hitch").waitFor();
    expect(new URL(page.url()).searchParams.get("trace")).toBeNull();
  });

  test("a file dropped onto the page opens", async () => {
    const bytes = readFileSync(STARVE).toString("base64");
    await page.evaluate((text) => {
      const data = new DataTransfer();
      data.items.add(
        new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], "dropped.hitch"),
      );
      document
        .querySelector(".traces")
        ?.dispatchEvent(
          new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }),
        );
    }, bytes);
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    expect(await page.locator(".trace-file").innerText()).toBe("dropped.hitch");
    await toList();
    await card("dropped.hitch").waitFor();
  });

  test("a file that is not a trace is rejected with a reason", async () => {
    await page.locator("input[type=file]").setInputFiles({
      name: "letter.hitch",
      mimeType: "text/plain",
      buffer: Buffer.from("Dear Sir or Madam"),
    });
    const refusal = page.locator(".upload .bad");
    await refusal.waitFor();
    expect(await refusal.innerText()).toMatch(/^letter\.hitch: this file is not a trace/);
    bed.allow(/status of 422/);
    expect(await card("letter.hitch").count()).toBe(0);
    expect(
      readdirSync(bed.folder).filter((name) => name.includes("letter") || name.startsWith(".")),
    ).toEqual([]);
    expect(new URL(page.url()).searchParams.get("trace")).toBeNull();
  });

  test("notes are kept", async () => {
    const notes = card("starve.hitch").getByRole("textbox");
    await notes.fill("typed a letter, nothing came");
    await page.locator("h1").click();
    await page.getByText("Notes saved.").first().waitFor({ state: "attached" });
    await page.reload();
    await settled(page);
    expect(await card("starve.hitch").getByRole("textbox").inputValue()).toBe(
      "typed a letter, nothing came",
    );
  });

  test("an open trace's notes can be read and edited", async () => {
    await open(page, "starve.hitch");
    const dialog = page.getByRole("dialog", { name: "Notes" });
    await page.getByRole("button", { name: "Notes •" }).click();
    expect(await dialog.getByRole("textbox").inputValue()).toBe("typed a letter, nothing came");
    await dialog.getByRole("textbox").fill("it was the inspector");
    // Esc closes the dialog and keeps the text.
    await page.keyboard.press("Escape");
    await page.getByText("Notes saved.").first().waitFor({ state: "attached" });
    await page.waitForFunction(
      () =>
        document.querySelector("button[aria-haspopup=dialog]")?.getAttribute("title") ===
        "it was the inspector",
    );
    // The trace stays open and was not read again.
    expect(await page.locator("[data-answer='1']").count()).toBe(1);
    await toList();
    expect(await card("starve.hitch").getByRole("textbox").inputValue()).toBe(
      "it was the inspector",
    );
    expect(await card("starve.hitch").locator(".first-answer").innerText()).toContain(
      "lock starvation",
    );
  });

  test("every trace is judged without being opened, and the list can be sorted", async () => {
    // Each by its own verdict, not by the end of a list that may not have begun.
    for (const name of ["starve", "many-1", "many-2", "dropped"])
      await card(`${name}.hitch`).getByText("lock starvation").waitFor();
    await page.locator(".judging").waitFor({ state: "detached" });
    expect(await card("many-1.hitch").innerText()).toMatch(/lock starvation/);
    const names = () => page.locator(".trace-open").allInnerTexts();
    await page.getByRole("button", { name: "Trace", exact: true }).click();
    const up = await names();
    await page.getByRole("button", { name: "Trace", exact: false }).first().click();
    expect(await names()).toEqual([...up].reverse());
    await page.getByRole("button", { name: "Date" }).click();
  });

  test("the list can be filtered by words, by a column and by size", async () => {
    const field = page.getByRole("searchbox", { name: "Filter the traces" });
    const names = async () => (await page.locator(".trace-open").allInnerTexts()).sort();
    const all = await names();
    const many = all.filter((name) => name.startsWith("many"));
    expect(many.length).toBe(2);
    expect(all.length).toBeGreaterThan(many.length);
    for (const [text, expected] of [
      ["many", many],
      ["name:many cause:lock", many],
      ["cause:nowhere", []],
      ['many cause:"lock starvation"', many],
      ['cause:"starvation lock"', []],
      ["many victim:typing", many],
      ["victim:nobody", []],
      ["stall>1s many-1", ["many-1.hitch"]],
      ["stall<1s", []],
      ["size<1KB", all.filter((name) => name === "bare.data")],
    ] as const) {
      await field.fill(text);
      expect({ text, names: await names() }).toEqual({ text, names: expected });
    }
    await page.getByText("No trace matches the filter.").waitFor({ state: "detached" });
    await field.fill("nowhere");
    await page.getByText("No trace matches the filter.").waitFor();
    await field.fill("");
    expect(await names()).toEqual(all);
  });

  test("filter and order of the list are in the address", async () => {
    const field = page.getByRole("searchbox", { name: "Filter the traces" });
    const shown = async () => [
      await field.inputValue(),
      await page.locator("th[aria-sort]").evaluate((head) => `${head.innerText} ${head.ariaSort}`),
      await page.locator(".trace-open").count(),
    ];
    const entries = () => page.evaluate(() => history.length);
    const before = await entries();
    // Slower than what follows at once, which is one entry anyway.
    await field.pressSequentially("man", { delay: 450 });
    expect(await entries()).toBe(before);
    await page.getByRole("button", { name: "Size" }).click();
    const expected = ["man", "Size ▾ descending", 2];
    await expect.poll(shown).toEqual(expected);
    expect(await entries()).toBe(before + 1);
    await page.reload();
    await settled(page);
    expect(await shown()).toEqual(expected);
    await open(page, "many-1.hitch");
    await toList();
    expect(await shown()).toEqual(expected);
    await page.goto(bed.address);
    await settled(page);
  });

  test("a file too large to judge says so, and the progress ends without it", async () => {
    const large = join(bed.folder, "large.data");
    // Sparse: it takes no room on the disk.
    writeFileSync(large, "PERFILE2");
    truncateSync(large, 513 * 1024 * 1024);
    await page.reload();
    await settled(page);
    await card("large.data").getByText("Too large to judge before it is opened.").waitFor();
    await page.locator(".judging").waitFor({ state: "detached" });
    // Nor is there a word on notes: this kind of file cannot store any.
    const notes = (name: string) => card(name).locator(".trace-notes").count();
    expect([await notes("large.data"), await notes("starve.hitch")]).toEqual([0, 1]);
    rmSync(large);
    await page.reload();
    await settled(page);
  });

  test("a file that appears or vanishes is noticed, and what is being done stays", async () => {
    const added = join(bed.folder, "appeared.hitch");
    const notes = card("starve.hitch").getByRole("textbox");
    const list = page.locator(".trace-table");
    await list.evaluate((element) => element.setAttribute("data-same", ""));
    const chosen = page.getByRole("checkbox", { name: "Select many-1.hitch" });
    await chosen.check();
    const before = await notes.inputValue();
    await notes.fill("half a sen");
    writeFileSync(added, readFileSync(STARVE));
    await card("appeared.hitch").waitFor();
    expect(await notes.inputValue()).toBe("half a sen");
    expect(await notes.evaluate((element) => element === document.activeElement)).toBe(true);
    await notes.fill(before);
    await page.getByRole("button", { name: "More for many-2.hitch" }).click();
    await page.getByRole("menu").waitFor();
    rmSync(added);
    await card("appeared.hitch").waitFor({ state: "detached" });
    expect(await page.getByRole("menu").count()).toBe(1);
    expect(await chosen.isChecked()).toBe(true);
    expect(await list.getAttribute("data-same")).toBe("");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Clear", exact: true }).click();
  });

  test("a hidden page does not ask for the list, and does when it is shown again", async () => {
    let asked = 0;
    await page.clock.install();
    await page.route("**/api/traces", (route) => {
      asked += 1;
      return route.continue();
    });
    const show = (hidden: boolean) =>
      page.evaluate((to) => {
        Object.defineProperty(document, "hidden", { value: to, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await page.reload();
    await settled(page);
    await show(true);
    const before = asked;
    await page.clock.runFor(30_000);
    expect(asked).toBe(before);
    await show(false);
    await expect.poll(() => asked).toBe(before + 1);
    await page.unroute("**/api/traces");
  });

  test("damaged and empty files are listed with what is wrong and what to do", async () => {
    writeFileSync(join(bed.folder, "empty.hitch"), "");
    writeFileSync(join(bed.folder, "letter.hitch"), "Dear Sir or Madam");
    await page.reload();
    await settled(page);
    expect(await card("empty.hitch").locator(".trace-error").innerText()).toMatch(
      /the file is empty\. .*Delete it/,
    );
    expect(await card("letter.hitch").locator(".trace-error").innerText()).toMatch(
      /this is no trace.*Copy it again/,
    );
    await card("bare.data").locator(".trace-error").waitFor();
    expect(await card("bare.data").getByRole("textbox").count()).toBe(0);
    for (const name of ["empty.hitch", "letter.hitch"]) rmSync(join(bed.folder, name));
    await page.reload();
    await settled(page);
  });

  test("a trace can be renamed, but not to a name that exists", async () => {
    await page.getByRole("button", { name: "More for second.hitch" }).click();
    await page.getByRole("menuitem", { name: "Rename …" }).click();
    await page.getByRole("textbox", { name: "New name" }).fill("starve.hitch");
    await page.getByRole("button", { name: "Rename", exact: true }).click();
    await page.waitForSelector("dialog [role=alert]");
    bed.allow(/status of 409/);
    await page.getByRole("textbox", { name: "New name" }).fill("third.hitch");
    await page.getByRole("button", { name: "Rename", exact: true }).click();
    await card("third.hitch").waitFor();
    expect(existsSync(join(bed.folder, "third.hitch"))).toBe(true);
    expect(existsSync(join(bed.folder, "second.hitch"))).toBe(false);
  });

  test("deleting asks first", async () => {
    await page.getByRole("button", { name: "More for third.hitch" }).click();
    await page.getByRole("menuitem", { name: "Delete …" }).click();
    await page.getByRole("button", { name: "Cancel" }).click();
    expect(await card("third.hitch").count()).toBe(1);
    await page.getByRole("button", { name: "More for third.hitch" }).click();
    await page.getByRole("menuitem", { name: "Delete …" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await card("third.hitch").waitFor({ state: "detached" });
    expect(existsSync(join(bed.folder, "third.hitch"))).toBe(false);
  });
});

describe.skipIf(skipReason("judging") !== null)("judging", () => {
  let bed: TestBed;

  beforeAll(async () => {
    bed = await TestBed.start((folder) => {
      TestBed.copy(STARVE)(folder);
      const { trace } = JSON.parse(execFileSync(UNHITCH, ["why", "--json", STARVE]).toString());
      // Its cause is in no words of the server's own.
      const stall = {
        pattern: "lock_starvation",
        who: "typing",
        cause: "told once",
        duration_ns: 1e9,
      };
      writeFileSync(
        join(folder, "starve.verdict.json"),
        JSON.stringify({ ...trace, line: "HANG", stalls: 1, stall }),
      );
      // Sparse, and so long that the server waits for two seconds before it judges it.
      writeFileSync(join(folder, "long.data"), "PERFILE2");
      truncateSync(join(folder, "long.data"), 32 << 20);
    });
  });
  afterAll(() => bed?.stop());

  test("a verdict beside a trace stands, and the progress is told until the rest is judged", async ({
    task,
  }) => {
    const page = await bed.page();
    const row = (name: string) => page.locator(`[data-trace='${name}']`);
    await row("long.data").getByText("Being analysed …").waitFor();
    expect(await page.locator(".judging").innerText()).toContain("1 of 2 traces analysed");
    const told = row("starve.hitch").getByText("told once");
    expect(await told.count()).toBe(1);
    await bed.screenshot(page, task.name, task);
    await row("long.data").locator(".trace-error").waitFor();
    await page.locator(".judging").waitFor({ state: "detached" });
    expect(await told.count()).toBe(1);
    bed.expectNoComplaints();
  });
});

describe.skipIf(skipReason("a vanished file") !== null)("a vanished file", () => {
  let bed: TestBed;

  beforeAll(async () => {
    bed = await TestBed.start(TestBed.copy(STARVE));
  });
  afterAll(() => bed?.stop());

  test("it says so and keeps what is loaded", async ({ task }) => {
    const page = await bed.page("trace=starve.hitch");
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    renameSync(join(bed.folder, "starve.hitch"), join(bed.folder, ".gone"));
    await page.locator(".gone").waitFor();
    // Everything still answers.
    await page.keyboard.press("Digit2");
    await page.waitForSelector(".grid-row");
    await settled(page);
    expect(await page.locator(".error-box").count()).toBe(0);
    await expectAccessible(page);
    await bed.screenshot(page, task.name, task);
    renameSync(join(bed.folder, ".gone"), join(bed.folder, "starve.hitch"));
    await page.locator(".gone").waitFor({ state: "detached" });
    bed.expectNoComplaints();
  });
});

describe.skipIf(skipReason("a single file") !== null)("a single file", () => {
  let bed: TestBed;

  beforeAll(async () => {
    bed = await TestBed.single(STARVE);
  });
  afterAll(() => bed?.stop());

  test("it opens automatically, with its notes", async ({ task }) => {
    const page = await bed.page();
    await page.waitForSelector("[data-answer='1']");
    await settled(page);
    await page.getByRole("button", { name: "Notes •" }).click();
    const dialog = page.getByRole("dialog", { name: "Notes" });
    expect(await dialog.getByRole("textbox").inputValue()).toContain("lab starve");
    await dialog.getByRole("textbox").fill("seen on its own");
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByText("Notes saved.").first().waitFor({ state: "attached" });
    await page.reload();
    await page.waitForSelector("[data-answer='1']");
    await page.waitForFunction(
      () =>
        document.querySelector("button[aria-haspopup=dialog]")?.getAttribute("title") ===
        "seen on its own",
    );
    await settled(page);
    await bed.screenshot(page, task.name, task);
    bed.expectNoComplaints();
  });
});
