/** The ids by which filters know threads and processes. */
import * as store from "../state/store";
import type { ProcessIx, ThreadIx } from "../units";
import { getJson, tracePath } from "./client";
import { knownId } from "./data";
import type { Lanes } from "./types";

async function lanes(): Promise<Lanes["processes"]> {
  const trace = store.trace.peek() ?? "";
  return (await getJson<Lanes>(tracePath(trace, "lanes"))).processes;
}

export async function tidOf(thread: ThreadIx): Promise<number | null> {
  const known = knownId(`t${thread}`);
  if (known !== null) return known;
  const threads = (await lanes()).flatMap((process) => process.threads);
  return threads.find((one) => one.thread === thread)?.tid ?? null;
}

export async function pidOf(process: ProcessIx): Promise<number | null> {
  const known = knownId(`p${process}`);
  return known ?? (await lanes()).find((one) => one.process === process)?.pid ?? null;
}
