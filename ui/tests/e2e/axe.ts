/** What axe, which checks pages for accessibility, finds in the page as it is shown now. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { expect } from "vitest";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** Every finding, whatever its severity, abbreviated. */
export async function axeFindings(page: Page): Promise<string[]> {
  // Evaluated by the debugger, to which the page's content security policy does not apply.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run: (what: Document, options: object) => Promise<{ violations: Violation[] }> };
    };
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) =>
      nodes
        .slice(0, 3)
        .map((node) => `${id}: ${node.html.slice(0, 160)} — ${node.failureSummary.slice(0, 200)}`),
    );
  });
}

/** Fails if axe finds something in the dark theme, then in the light one. */
export async function expectAccessible(page: Page): Promise<void> {
  for (const theme of ["dark", "light"]) {
    // As another tab does it: the page follows at once, and whatever is open stays open.
    const shown = await page.evaluate((theme) => {
      const key = "unhitch-look";
      const look = JSON.parse(localStorage.getItem(key) ?? "{}");
      localStorage.setItem(key, JSON.stringify({ ...look, theme }));
      dispatchEvent(new StorageEvent("storage", { key }));
      return document.documentElement.dataset.theme;
    }, theme);
    expect({ theme: shown, found: await axeFindings(page) }).toEqual({ theme, found: [] });
  }
}
