import { expect, test } from "vitest";
import { shorten, slotWidth } from "./Graph";

test("a group of the graph is as wide as its name needs, if there is room", () => {
  const long = "a name of thirty characters   ";
  expect(slotWidth(1000, ["short", "name"])).toBe(90);
  expect(slotWidth(1000, ["short", long])).toBe(31 * 6);
  expect(slotWidth(300, [long, long, long])).toBe(100);
  expect(slotWidth(300, [])).toBe(90);
});

test("a cut name has the ellipsis where it was cut", () => {
  expect(shorten("kthread → worker_thread", 8, true)).toBe("…_thread");
  expect(shorten("kthread → worker_thread", 8, false)).toBe("kthread…");
  expect(shorten("short", 8, true)).toBe("short");
});
