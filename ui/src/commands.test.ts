import { expect, test } from "vitest";
import { all, available, chordOf, chordText, register, run } from "./commands";

const key = (
  code: string,
  modifiers: Partial<Record<"ctrlKey" | "metaKey" | "altKey" | "shiftKey", boolean>> = {},
) => ({ code, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...modifiers });

test("chords name the physical key, with modifiers in a fixed order", () => {
  expect(chordOf(key("KeyP", { shiftKey: true, ctrlKey: true }))).toBe("Ctrl+Shift+KeyP");
  expect(chordOf(key("KeyK", { metaKey: true }))).toBe("Ctrl+KeyK");
  expect(chordText("Ctrl+Shift+KeyP")).toBe("Ctrl+Shift+P");
  expect(chordText("BracketLeft")).toBe("[");
  expect(chordText("Shift+Slash")).toBe("?");
});

test("commands are registered and unregistered together, and their ids are unique", () => {
  let ran = 0;
  let possible = false;
  const away = register(
    { id: "a", group: "View", title: "A", run: () => (ran += 1) },
    { id: "b", group: "View", title: "B", when: () => possible, run: () => (ran += 10) },
  );
  expect(() => register({ id: "a", group: "View", title: "again", run: () => {} })).toThrow(
    "two commands",
  );
  expect(run("a")).toBe(true);
  expect(run("b")).toBe(false);
  possible = true;
  expect(all().filter(available)).toHaveLength(2);
  expect(run("b")).toBe(true);
  expect(ran).toBe(11);
  away();
  expect(run("a")).toBe(false);
  expect(all()).toHaveLength(0);
});
