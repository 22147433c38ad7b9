/** The ids by which filters know threads and processes. */
import * as store from "../state/store";
import type { ProcessIx, ThreadIx } from "../units";
import { getJson, tracePath } from "./client";
import type { Lanes } from "./types";

async function lanes(): Promise<Lanes["processes"]> {
  const trace = store.trace.peek() ?? "";
  return (await getJson<Lanes>(tracePath(trace, "lanes"))).processes;
}

export async function tidOf(thread: ThreadIx): Promise<number | null> {
  const threads = (await lanes()).flatMap((process) => process.threads);
  return threads.find((one) => one.thread === thread)?.tid ?? null;
}

export async function pidOf(process: ProcessIx): Promise<number | null> {
  return (await lanes()).find((one) => one.process === process)?.pid ?? null;
}
