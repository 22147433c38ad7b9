import { expect, test } from "vitest";
import { nameOf } from "./words";

test("a thread is called by both names where they differ", () => {
  expect(nameOf({ process: "app", thread: "ui" })).toBe("ui of app");
  expect(nameOf({ process: "app", thread: "app" })).toBe("app");
  expect(nameOf({ process: "rustc", thread: "" })).toBe("rustc");
  expect(nameOf(null)).toBe("");
});
