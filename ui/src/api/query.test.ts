import { signal } from "@preact/signals";
import { expect, test } from "vitest";
import { ApiError } from "./client";
import { liveQuery } from "./query";

/** Runs all pending microtasks. */
const settle = () => new Promise((resolve) => setTimeout(resolve));

test("the newest request wins, the older one is cancelled", async () => {
  const text = signal("a");
  const open = new Map<string, { answer: (value: string) => void; signal: AbortSignal }>();
  const { state, stop } = liveQuery<string>(() => {
    const key = text.value;
    return {
      key,
      subject: "s",
      fetch: (abort) => new Promise((resolve) => open.set(key, { answer: resolve, signal: abort })),
    };
  });
  text.value = "b";
  expect(open.get("a")?.signal.aborted).toBe(true);
  expect(open.get("b")?.signal.aborted).toBe(false);
  open.get("b")?.answer("B");
  open.get("a")?.answer("A");
  await settle();
  expect(state.value).toEqual({ data: "B", error: null, loading: false });
  text.value = "c";
  expect(state.value).toEqual({ data: "B", error: null, loading: true });
  stop();
  expect(open.get("c")?.signal.aborted).toBe(true);
});

test("an answer about another subject is dropped, and an error is reported", async () => {
  const subject = signal(1);
  const { state } = liveQuery<number>(() => ({
    key: String(subject.value),
    subject: String(subject.value),
    fetch: () =>
      subject.peek() === 1
        ? Promise.resolve(1)
        : Promise.reject(new ApiError(404, "no such trace", "look again")),
  }));
  await settle();
  expect(state.value.data).toBe(1);
  subject.value = 2;
  expect(state.value.data).toBeNull();
  await settle();
  expect(state.value.error?.hint).toBe("look again");
});
