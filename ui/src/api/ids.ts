/** The ids by which filters know threads and processes. */
import * as store from "../state/store";
import type { ProcessIx, ThreadIx } from "../units";
import { getJson, tracePath } from "./client";
import { knownId, recordedId } from "./data";
import type { Lanes } from "./types";

async function lanes(): Promise<Lanes["processes"]> {
  const trace = store.trace.peek() ?? "";
  return (await getJson<Lanes>(tracePath(trace, "lanes"))).processes;
}

export async function tidOf(thread: ThreadIx): Promise<number | null> {
  const known = knownId(`t${thread}`);
  if (known !== null) return known;
  const threads = (await lanes()).flatMap((process) => process.threads);
  return recordedId(threads.find((one) => one.thread === thread)?.tid);
}

export async function pidOf(process: ProcessIx): Promise<number | null> {
  const known = knownId(`p${process}`);
  return known ?? recordedId((await lanes()).find((one) => one.process === process)?.pid);
}
