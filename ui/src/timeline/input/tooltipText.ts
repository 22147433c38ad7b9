/** The tooltip's text: first what the page knows, then the server's details of the slice. */

import { RAN, stateOf } from "../../draw/states";
import { durationText, ns, percent, plural, timeText } from "../../units";
import { type LaneView, NONE } from "../data/decode";
import type { HeaderRow, LaneRow } from "../data/layout";
import type { Slice } from "../data/protocol";
import type { Scene } from "../data/scene";
import type { Hit } from "./hit";

/** The lines for a slice or cell under the pointer. */
export function hitLines(
  scene: Pick<Scene, "names">,
  row: LaneRow,
  view: LaneView,
  hit: Hit,
): string[] {
  const state = stateOf(hit.state);
  const name = hit.thread === NONE ? undefined : scene.names.get(hit.thread);
  const who = name
    ? `${name.name} ${name.tid}${name.process === name.name ? "" : ` (${name.process})`}`
    : "";
  const title =
    view.kind === "cpu" && hit.state === RAN && who !== ""
      ? `${row.lane.name}: ${who}`
      : `${row.lane.name}: ${state.name}`;
  if (hit.kind === "cell") {
    return [
      title,
      `and more in these ${durationText(hit.to - hit.from)}, busy ${percent(hit.share, 1)}`,
      "too short to show one by one: zoom in",
    ];
  }
  return [
    title,
    `${durationText(hit.to - hit.from)}, ` +
      `from ${timeText(ns(hit.from), (hit.to - hit.from) / 100)}`,
  ];
}

/** The lines for a slice, from the server's answer. */
export function sliceLines(row: LaneRow | null, slice: Slice): string[] {
  const long = durationText(slice.to - slice.from);
  const from = `from ${timeText(slice.from, (slice.to - slice.from) / 100)}`;
  const out = [
    `${row?.lane.name ?? slice.lane}: ${slice.text}`,
    slice.text.includes(long) ? from : `${long}, ${from}`,
  ];
  if (slice.cpu !== null && row?.lane.kind !== "cpu") out.push(`CPU ${slice.cpu}`);
  if (slice.wait_stack) out.push(`waited in ${slice.wait_stack.told}`);
  if (slice.wake?.stack) out.push(`woken in ${slice.wake.stack.told}`);
  if (slice.samples && slice.samples.count > 0) {
    const top = slice.samples.top ? `, most in ${slice.samples.top.told}` : "";
    out.push(`${plural(slice.samples.count, "sample")}${top}`);
  }
  return out;
}

export function headerLines(row: HeaderRow): string[] {
  const out = [row.name];
  const process = row.process;
  if (process) {
    if (process.command_line && process.command_line !== process.name)
      out.push(process.command_line.slice(0, 160));
    if (process.control_group) out.push(`control group ${process.control_group}`);
    const start = `${process.started ? "started at" : "running before"} ${timeText(process.from)}`;
    const end = `${process.ended ? "exited at" : "still running at"} ${timeText(process.to)}`;
    out.push(`${start}, ${end}`);
  }
  out.push(row.open ? "click: close" : "click: open");
  return out;
}

/** A thread's totals in the selected time range. */
export function sumsText({
  ran,
  runnable,
  switches,
}: NonNullable<LaneRow["lane"]["sums"]>): string {
  const parts = [
    `ran ${durationText(ran)}`,
    runnable === null ? "" : `runnable ${durationText(runnable)}`,
    plural(switches, "switch", "switches"),
  ];
  return parts.filter((part) => part !== "").join(", ");
}

/** The lines for a lane's name. */
export function laneLines(row: LaneRow): string[] {
  const out = [row.lane.name];
  if (row.lane.role) out.push(row.lane.role);
  const sums = row.lane.sums;
  if (sums) out.push(sumsText(sums));
  if (row.lane.kind === "thread") out.push("click: filter all views by this thread");
  return out;
}
