import { expect, test } from "vitest";
import { nameOf, signed } from "./words";

test("a difference has a sign", () => {
  expect(signed(5e6)).toBe("+5.0 ms");
  expect(signed(-5e6)).toBe("−5.0 ms");
  expect(signed(0)).toBe("±0");
});

test("a thread is called by both names where they differ", () => {
  expect(nameOf({ process: "app", thread: "ui" })).toBe("ui of app");
  expect(nameOf({ process: "app", thread: "app" })).toBe("app");
  expect(nameOf({ process: "rustc", thread: "" })).toBe("rustc");
  expect(nameOf(null)).toBe("");
});
