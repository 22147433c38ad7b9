/** The ids by which filters know threads and processes. */
import * as store from "../state/store";
import type { ProcessIx, ThreadIx } from "../units";
import { getJson, type Params, tracePath } from "./client";
import { knownId, recordedId } from "./data";
import type { Lanes } from "./types";

/** All lanes, with those of a thread or a process even if it never ran. */
async function lanes(of: Params): Promise<Lanes["processes"]> {
  const trace = store.trace.peek() ?? "";
  return (await getJson<Lanes>(tracePath(trace, "lanes"), of)).processes;
}

export async function tidOf(thread: ThreadIx): Promise<number | null> {
  const known = knownId(`t${thread}`);
  if (known !== null) return known;
  const threads = (await lanes({ thread })).flatMap((process) => process.threads);
  return recordedId(threads.find((one) => one.thread === thread)?.tid);
}

export async function pidOf(process: ProcessIx): Promise<number | null> {
  const known = knownId(`p${process}`);
  return (
    known ?? recordedId((await lanes({ process })).find((one) => one.process === process)?.pid)
  );
}
