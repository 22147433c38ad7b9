/**
 * No two folders of the page import each other. Biome's `noImportCycles` sees files only; a circle
 * between folders means that neither can be understood alone.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const SRC = join(import.meta.dirname, "../src");

/** The folder of a file as `timeline/draw`; a file at the top stands for itself. */
function unitOf(file: string): string {
  const path = relative(SRC, file);
  return path.includes("/") ? dirname(path) : path.replace(/\.tsx?$/, "");
}

function importsByUnit(): Map<string, Set<string>> {
  const units = new Map<string, Set<string>>();
  for (const entry of readdirSync(SRC, { recursive: true, encoding: "utf8" })) {
    if (!/\.tsx?$/.test(entry) || entry.endsWith(".test.ts")) continue;
    const file = join(SRC, entry);
    const unit = unitOf(file);
    const imports = units.get(unit) ?? new Set();
    units.set(unit, imports);
    for (const [, path = ""] of readFileSync(file, "utf8").matchAll(/from "(\.[^"]+)"/g)) {
      const target = unitOf(resolve(dirname(file), path));
      if (target !== unit) imports.add(target);
    }
  }
  return units;
}

/** A circle of imports through `unit`, or `null`. */
function circle(units: ReadonlyMap<string, ReadonlySet<string>>, unit: string): string[] | null {
  const seen = new Set<string>();
  const search = (path: readonly string[]): string[] | null => {
    for (const next of units.get(path.at(-1) ?? "") ?? []) {
      if (next === unit) return [...path, next];
      if (seen.has(next)) continue;
      seen.add(next);
      const found = search([...path, next]);
      if (found) return found;
    }
    return null;
  };
  return search([unit]);
}

test("folders do not import each other in a circle", () => {
  const units = importsByUnit();
  expect(units.size).toBeGreaterThan(10);
  const circles = [...units.keys()].flatMap((unit) => circle(units, unit)?.join(" → ") ?? []);
  expect(circles).toEqual([]);
});
