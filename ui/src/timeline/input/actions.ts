/** The timeline's actions, by mouse, key or palette: show a slice, walk along the chain, mark. */

import { batch } from "@preact/signals";
import { ApiError, getJson, isAbort, tracePath } from "../../api/client";
import { stallDetail } from "../../api/data";
import { whoText } from "../../api/who";
import * as store from "../../state/store";
import { durationText, ns, type Range, range, timeText } from "../../units";
import {
  CPUS,
  type LaneRow,
  processKey,
  type Row,
  rowOfLane,
  scrollTo,
  sectionOf,
} from "../data/layout";
import * as model from "../data/model";
import type { Slice } from "../data/protocol";
import { reveal, within } from "../data/scale";
import { lanesHeight } from "../data/scene";
import { type LaneTime, stepLink, wakerOf, wakeText } from "../data/walk";

let sliceRequest: AbortController | null = null;
/** Where `[` came from, for `]` to go back to. */
const visited: LaneTime[] = [];

async function sliceAt(lane: string, at: number, step: number): Promise<Slice | null> {
  sliceRequest?.abort();
  const controller = new AbortController();
  sliceRequest = controller;
  try {
    return await getJson<Slice>(
      tracePath(store.trace.peek() ?? "", "slice"),
      { lane, at: Math.round(at), step },
      controller.signal,
    );
  } catch (error) {
    if (!isAbort(error))
      store.notify(
        error instanceof ApiError && error.status !== 404
          ? error.message
          : step === 0
            ? "There is nothing at this time."
            : "This lane has no further event.",
      );
    return null;
  }
}

/**
 * Makes the slice of a lane at a time (or `step` slices on) the current one. With `move`, scrolls
 * the window and the lanes just enough to show it.
 */
export async function lookAt(
  lane: string,
  at: number,
  step = 0,
  move = true,
): Promise<Slice | null> {
  const slice = await sliceAt(lane, at, step);
  if (!slice) return null;
  model.focus.value = { lane, from: slice.from, to: slice.to, slice };
  if (move) showOnLane(lane, startOf(range(slice.from, slice.to)));
  return slice;
}

/** What to show of a slice: its start, if it is longer than the window, to keep the user's zoom. */
function startOf(what: Range): Range {
  const window = store.window.peek();
  const length = window.to - window.from;
  if (what.to - what.from < length) return what;
  return what.from < window.to && what.to > window.from && what.from >= window.from
    ? window
    : range(what.from, what.from + length / 10);
}

/** A slice that would be narrower is zoomed in on. */
const MIN_VISIBLE_PX = 6;

/** Moves window and lanes to show a range of a lane. */
export function showOnLane(lane: string, what: Range): void {
  const whole = store.extent.peek();
  const window = store.window.peek();
  const clipped = range(Math.max(what.from, whole.from), Math.min(what.to, whole.to));
  const tooSmall = (clipped.to - clipped.from) * model.scale.peek().pxPerNs < MIN_VISIBLE_PX;
  const long = Math.max((clipped.to - clipped.from) * 12, 2000);
  const middle = (clipped.from + clipped.to) / 2;
  store.show(
    tooSmall
      ? within(range(middle - long / 2, middle + long / 2), whole)
      : reveal(window, clipped, whole),
  );
  showLane(lane);
}

/**
 * Scrolls to a lane, or to the lanes of a process, opening its section if it is closed, and even if
 * the user hid it.
 */
export function showLane(lane: string): void {
  const { cpus, processes } = model.lanes.peek();
  const process = processes.find(
    (one) => processKey(one.process) === lane || one.threads.some((t) => t.lane === lane),
  );
  const section = process
    ? processKey(process.process)
    : cpus.some((cpu) => cpu.lane === lane)
      ? CPUS
      : null;
  const hidden = store.hidden.peek();
  const left = hidden.filter((key) => key !== lane && key !== section);
  if (left.length < hidden.length) store.hidden.value = left;
  const find = () => {
    const { rows } = model.rowLayout.value;
    return rows[rowOfLane(rows, lane)];
  };
  let row = find();
  const isClosed = row?.kind === "header" ? !row.open : row === undefined;
  if (isClosed && section !== null) {
    model.toggle(section);
    row = find();
  }
  if (row) scrollToRow(row);
}

export function scrollToRow(row: Row): void {
  model.lookedAt.value = sectionOf(row);
  const geometry = model.canvasGeometry.peek();
  model.scroll.value = Math.max(
    0,
    Math.min(
      scrollTo(row, model.scroll.peek(), lanesHeight(geometry), model.rowLayout.peek().fixed),
      model.scrollEnd(),
    ),
  );
}

/** `.` and `,`: the next or previous event of the current lane. */
export async function stepEvent(by: 1 | -1): Promise<void> {
  const focus = model.focus.peek();
  const window = store.window.peek();
  if (focus) {
    await lookAt(focus.lane, by > 0 ? focus.to - 1 : focus.from, by);
    return;
  }
  const lane = currentLane();
  if (lane) await lookAt(lane, (window.from + window.to) / 2);
}

/**
 * The lane that keys act on: the keyboard's row, the selected thread, the victim, the first thread.
 */
function currentLane(): string | null {
  const rows = model.rowLayout.peek().rows.filter((r): r is LaneRow => r.kind === "lane");
  const selected = store.selection.peek().threads[0];
  const found =
    rows.find((r) => r.key === model.row.peek()) ??
    rows.find((r) => r.lane.kind === "thread" && r.lane.number === selected) ??
    rows.find((r) => r.depth !== null) ??
    rows.find((r) => r.lane.kind === "thread");
  return found?.lane.id ?? null;
}

/**
 * `[` and `]`: along the answer's chain; without one, from the current slice to its waker and
 * back.
 */
export async function walk(by: 1 | -1): Promise<void> {
  // The chain is about to be another one.
  if (stallDetail.peek().loading) return;
  const chain = model.chain.peek();
  if (chain) {
    const next = stepLink(chain.chain, store.chainLink.peek(), by);
    if (next !== null) lookAtLink(next);
    return;
  }
  if (by > 0) {
    const back = visited.pop();
    if (back) await lookAt(back.lane, back.at);
    else store.notify("This is where you started.");
    return;
  }
  await toWaker();
}

/** From the current slice to the wake-up that ended it, and says whose it was. */
export async function toWaker(): Promise<void> {
  const focus = model.focus.peek();
  if (!focus) {
    store.notify("Click a slice or open a stall first: then [ goes to the waker.");
    return;
  }
  const waker = wakerOf(focus.slice);
  if (!waker) {
    store.notify(
      focus.slice.wake
        ? `${wakeText(focus.slice, whoText)}: no thread to go to.`
        : "No known wake-up ended this.",
    );
    return;
  }
  const here = { lane: focus.lane, at: focus.from };
  const said = wakeText(focus.slice, whoText);
  if (!(await lookAt(waker.lane, waker.at))) return;
  visited.push(here);
  store.notify(`${said}.`);
}

/** Shows a link of the open chain and announces it. */
export function lookAtLink(index: number): void {
  const chain = model.chain.peek();
  const link = chain?.chain[index];
  if (!chain || !link) return;
  batch(() => {
    store.chainLink.value = index;
    model.focus.value = null;
    showOnLane(link.lane, range(link.from, link.to));
  });
  const wake = link.wake
    ? `, ended by ${whoText(link.wake.by)} from ${link.wake.context}, ${link.wake.evidence}`
    : "";
  const what = `${whoText(link.who)} ${link.class ?? link.state} for ${durationText(link.ns)}`;
  model.announcement.value = `Link ${index + 1} of ${chain.chain.length}: ${what}${wake}`;
}

/** M marks the selection or the current slice; Shift+M keeps the mark. A second time removes it. */
export function mark(keep: boolean): void {
  const focus = model.focus.peek();
  const selected = store.selection.peek().range;
  const x = model.pointerX.peek();
  const geometry = model.canvasGeometry.peek();
  const at = x !== null && x > geometry.labels ? model.scale.peek().at(x - geometry.labels) : null;
  const marked =
    selected ?? (focus ? range(focus.from, focus.to) : at !== null ? range(at, at) : null);
  model.passingMark.value = null;
  if (!marked) {
    store.notify("Nothing to mark: select a slice or a range, or point at a time.");
    return;
  }
  // Whole nanoseconds, as in the URL.
  const what = range(Math.round(marked.from), Math.round(marked.to));
  const marks = store.pageMarks.peek();
  const others = marks.filter((m) => m.from !== what.from || m.to !== what.to);
  if (others.length < marks.length) {
    store.pageMarks.value = others;
    store.notify("Mark removed.");
    return;
  }
  if (keep) store.pageMarks.value = [...marks, what];
  else model.passingMark.value = what;
  const length = what.to > what.from ? `, ${durationText(what.to - what.from)}` : "";
  store.notify(`${keep ? "Kept a mark" : "Marked"} at ${timeText(ns(what.from), 1000)}${length}.`);
}

/** What F can fit: the selected range, the current slice, the answer's time. */
export function fitCandidates(): Range[] {
  const out: Range[] = [];
  const selected = store.selection.peek().range;
  const focus = model.focus.peek();
  const chain = model.chain.peek();
  if (selected) out.push(selected);
  if (focus) out.push(range(focus.from, focus.to));
  if (chain) out.push(range(chain.from, chain.to));
  return out;
}
