import { expect, test } from "vitest";
import { NO_SELECTION } from "../state/store";
import { range, threadIx } from "../units";
import { hasStacks, joined, quoted, whereParams } from "./params";

test("a selected function filters the table's own stack column", () => {
  const selection = {
    ...NO_SELECTION,
    range: range(1.4, 7),
    threads: [threadIx(3)],
    stack: "lock",
  };
  expect(whereParams(selection, "waits")).toEqual({
    from: 1,
    to: 7,
    thread: ["3"],
    process: null,
    where: "wait stack ~ 'lock'",
  });
  expect(whereParams(selection, "sample", "tid = 5 or tid = 6").where).toBe(
    "(tid = 5 or tid = 6) and (stack ~ 'lock')",
  );
  expect(whereParams(selection, "lifetimes", " ").where).toBeNull();
  expect(["waits", "sample", "lifetimes", "stalls"].map(hasStacks)).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

test("values are quoted with the kind of quotes that they do not contain", () => {
  expect(quoted("a b")).toBe("'a b'");
  expect(quoted("don't")).toBe('"don\'t"');
  expect(quoted(`a'b"c`)).toBe("'a'");
});

test("filters are joined so that all apply", () => {
  expect(joined("", "tid = 1")).toBe("tid = 1");
  expect(joined("a = 1 or a = 2", "tid = 1")).toBe("(a = 1 or a = 2) and tid = 1");
  expect(joined("tid = 1", "a = 1 or a = 2")).toBe("tid = 1 and (a = 1 or a = 2)");
  expect(joined("", "a = 1 or a = 2")).toBe("a = 1 or a = 2");
});
