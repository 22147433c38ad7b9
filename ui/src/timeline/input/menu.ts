/** The menus of the timeline: of a slice, a lane's name, a process, an arrow of the wait chain. */
import { batch } from "@preact/signals";
import {
  explainThread,
  flameOf,
  pinAndHide,
  processItems,
  tableOf,
  threadItems,
} from "../../actions";
import { getJson, tracePath } from "../../api/client";
import { threadName } from "../../api/data";
import { quoted } from "../../api/params";
import { asApiError } from "../../api/query";
import type { EventAnswer, StackAnswer, StackRef, StallAnswer } from "../../api/types";
import { copy } from "../../copy";
import { RAN } from "../../draw/states";
import { butterfly } from "../../functionMenu";
import { eventKey, navigateTo } from "../../navigate";
import { type MenuItem, openMenu } from "../../parts/MenuHost";
import { frameText } from "../../stacks/StackFrames";
import * as store from "../../state/store";
import { innermost } from "../../table/cells";
import { type Range, range, threadIx, timeText } from "../../units";
import { NONE } from "../data/decode";
import type { HeaderRow, LaneRow, Row } from "../data/layout";
import * as model from "../data/model";
import { laneNumber, type Slice } from "../data/protocol";
import { nearestArrow } from "../draw/arrows";
import { chainArrows } from "../draw/chain";
import { lookAt, toWaker } from "./actions";
import type { Hit } from "./hit";
import { headerLines, hitLines, laneLines } from "./tooltipText";
import { openTracks, trackItems } from "./tracks";

type ChainArrow = StallAnswer["arrows"][number];

export interface MenuTarget {
  readonly row: Row | null;
  readonly hit: Hit | null;
  /** Null over the label column. */
  readonly at: number | null;
  readonly arrow: ChainArrow | null;
}

/** The arrow of the wait chain at a point of the canvas. */
export function arrowAt(x: number, y: number): ChainArrow | null {
  const scene = model.scene.peek();
  const { arrows, sources } = chainArrows(scene, () => 0);
  const { labels } = scene.geometry;
  const found = nearestArrow(arrows, x - labels, y);
  return found ? (sources[found.first] ?? null) : null;
}

/** Where the last menu opened, for one that follows it. */
let lastPlace = { x: 0, y: 0 };

export function openTimelineMenu(target: MenuTarget, place: { x: number; y: number }): void {
  lastPlace = place;
  const { row, arrow } = target;
  const items = [
    ...(arrow ? arrowItems(arrow) : []),
    ...(row === null
      ? timeItems()
      : row.kind === "header"
        ? headerItems(row)
        : laneItems(row, target)),
  ];
  openMenu(
    row === null ? "Timeline" : row.kind === "header" ? row.name : row.lane.name,
    items,
    place,
  );
}

function arrowItems(arrow: ChainArrow): MenuItem[] {
  const show = (lane: string) => () =>
    navigateTo({
      lane,
      from: arrow.at,
      to: null,
      event: arrow.waking === null ? null : { waking: arrow.waking },
    });
  const woken = threadIx(laneNumber(arrow.to_lane));
  const { from } = store.extent.peek();
  const [by, of] = [arrow.from_lane, arrow.to_lane].map((lane) => threadName(laneNumber(lane)));
  const text = `${timeText(arrow.at, 1000)}: ${by} woke ${of} (${arrow.context}; ${arrow.evidence} evidence)`;
  return [
    { title: "Show the wake-up and its waker", run: show(arrow.from_lane) },
    { title: "Show the woken thread", run: show(arrow.to_lane) },
    {
      title: "Explain the wait that it ended",
      run: () => explainThread(woken, range(Math.max(from, arrow.at - arrow.waited_ns), arrow.at)),
    },
    {
      title: "Show the waker's stack",
      disabled: arrow.waking === null,
      run: () => showStack(arrow.waking),
    },
    {
      title: "Copy the waker's stack",
      disabled: arrow.waking === null,
      run: () => void withStack(arrow.waking, copyStack),
    },
    {
      title: "Callers and callees of the waker's function",
      disabled: arrow.waking === null,
      run: () => void withStack(arrow.waking, wakerFunction),
    },
    {
      title: "Flame graph of all its wake-ups",
      run: () => flameOf("wake", { threads: [woken], process: null }),
    },
    { title: "Copy the wake-up", run: () => void copy(text, "the wake-up") },
    endItem("The waker", arrow.from_lane),
    endItem("The woken thread", arrow.to_lane),
  ];
}

/** Leads to the menu of the thread at an end of an arrow. */
function endItem(which: string, lane: string): MenuItem {
  const thread = threadIx(laneNumber(lane));
  const called = threadName(thread);
  const { range } = store.selection.peek();
  return {
    title: `${which}, ${called} …`,
    run: () => openMenu(called, threadItems(thread, range, true), lastPlace),
  };
}

/** The arrow that the keyboard's row is about: that to the link which is open, or its last one. */
function arrowTo(row: Row): ChainArrow | null {
  if (row.kind !== "lane" || row.depth === null) return null;
  const arrows = model.chain.peek()?.arrows.filter((arrow) => arrow.to_lane === row.lane.id) ?? [];
  return arrows.find((arrow) => arrow.link === store.chainLink.peek()) ?? arrows.at(-1) ?? null;
}

/** Opens the wake-up, with the waker's stack, and leaves the timeline where it is. */
function showStack(waking: number | null): void {
  if (waking === null) return;
  batch(() => {
    store.event.value = eventKey({ waking });
    store.showView(store.view.peek());
  });
}

/** Does something with the waker's stack, or says why it cannot. */
async function withStack(
  waking: number | null,
  run: (stack: StackRef, trace: string) => Promise<void> | void,
): Promise<void> {
  const trace = store.trace.peek() ?? "";
  try {
    const { stack } = await getJson<EventAnswer>(tracePath(trace, "event"), { waking });
    if (stack === null) store.notify("No stack was recorded.");
    else if (store.trace.peek() === trace) await run(stack, trace);
  } catch (error) {
    store.notify(asApiError(error).message);
  }
}

/** The callers and callees of the function that the thread was woken from. */
function wakerFunction(stack: StackRef): void {
  const name = innermost(stack);
  if (name === null) store.notify("No function of this stack is known.");
  else butterfly(name, stack.kind);
}

async function copyStack(stack: StackRef, trace: string): Promise<void> {
  const params = { id: stack.stack, kind: stack.kind };
  const { frames } = await getJson<StackAnswer>(tracePath(trace, "stack"), params);
  await copy(frames.map(frameText).join("\n"), "the stack");
}

/** What the menu explains: the selected range if the pointer is in it, else the slice. */
function rangeOf({ hit, at }: MenuTarget): Range | null {
  const selected = store.selection.peek().range;
  if (selected && at !== null && at >= selected.from && at <= selected.to) {
    const slice = hit?.kind === "slice" ? hit.to - hit.from : Infinity;
    if (selected.to - selected.from < slice || hit?.kind !== "slice") return selected;
  }
  return hit?.kind === "slice" ? whole(hit) : null;
}

const whole = ({ from, to }: { from: number; to: number }): Range => {
  const { from: start, to: end } = store.extent.peek();
  return range(Math.max(start, Math.round(from)), Math.min(end, Math.round(to)));
};

/** On a CPU's lane, the items are about the thread that ran. */
function threadOf(row: LaneRow, hit: Hit | null): number | null {
  if (row.lane.kind === "thread") return row.lane.number;
  const ran = hit !== null && hit.state === RAN && hit.thread !== NONE && hit.thread !== 0;
  return ran ? hit.thread : null;
}

function laneItems(row: LaneRow, target: MenuTarget): MenuItem[] {
  if (row.lane.kind === "track") return [...trackItems(row.lane.id), ...timeItems()];
  const { hit, at } = target;
  const view = model.views.get(row.lane.id);
  const scene = model.scene.peek();
  const lines = hit && view ? hitLines(scene, row, view, hit) : laneLines(row);
  const thread = threadOf(row, hit);
  const selects = rangeOf(target) ?? store.selection.peek().range;
  const isCpu = row.lane.kind === "cpu";
  return [
    ...(thread === null ? [] : threadItems(threadIx(thread), selects, !isCpu)),
    ...(isCpu ? pinAndHide(row.lane.id, "this CPU") : []),
    ...(hit && at !== null ? sliceItems(row, hit, at) : []),
    ...timeItems(),
    { title: "Copy the description", run: () => void copy(lines.join("\n"), "the description") },
  ];
}

function sliceItems(row: LaneRow, hit: Hit, at: number): MenuItem[] {
  const inside = Math.max(hit.from, Math.min(at, hit.to - 1));
  return [
    { title: "Select its time range", run: () => store.select({ range: whole(hit) }) },
    { title: "Zoom to it", hint: "double-click", run: () => store.showAround(whole(hit)) },
    {
      title: "Who ended this wait?",
      run: () =>
        void lookAt(row.lane.id, inside, 0, false).then((slice) => (slice ? toWaker() : null)),
    },
    {
      title: "Functions of this wait …",
      run: () => void lookAt(row.lane.id, inside, 0, false).then((slice) => sliceFunctions(slice)),
    },
  ];
}

/** A menu of the functions in which a thread waited, and from which it was woken. */
function sliceFunctions(slice: Slice | null): void {
  if (slice === null) return;
  const stacks = [slice.wait_stack, slice.wake?.stack ?? null, slice.samples?.top ?? null];
  const items = stacks.flatMap((stack) => {
    const name = stack === null ? null : innermost(stack);
    if (stack === null || name === null) return [];
    const role = { wait: "waited in", wake: "woken from", sample: "ran in" }[stack.kind];
    return [
      {
        title: `Callers and callees of ${name}`,
        hint: role,
        run: () => butterfly(name, stack.kind),
      },
      ...(stack.kind === "sample"
        ? []
        : [
            {
              title: `Waits without ${name}, as a table`,
              hint: role,
              run: () => tableOf("waits", {}, without(stack.kind, name)),
            },
          ]),
    ];
  });
  if (items.length === 0) store.notify("No stack was recorded for this.");
  else openMenu("Functions of this wait", items, lastPlace);
}

/** The filter that leaves a function's waits out. */
const without = (kind: "wait" | "wake" | "sample", name: string): string =>
  `not ${kind} stack ~ ${quoted(name)}`;

function headerItems(row: HeaderRow): MenuItem[] {
  const toggle = {
    title: row.open ? "Close" : "Open",
    run: () => model.toggle(row.key),
  };
  if (!row.process) return [toggle, ...timeItems()];
  const { process, command_line } = row.process;
  return [
    toggle,
    ...processItems(
      process,
      row.process.threads.map((thread) => thread.thread),
      store.selection.peek().range ?? store.extent.peek(),
      true,
    ),
    ...timeItems(),
    {
      title: "Copy the command line",
      disabled: command_line === "",
      run: () => void copy(command_line, "the command line"),
    },
    {
      title: "Copy the description",
      run: () => void copy(headerLines(row).slice(0, -1).join("\n"), "the description"),
    },
  ];
}

/** Items that every menu of the timeline has. */
function timeItems(): MenuItem[] {
  const hidden = store.hidden.peek().length;
  return [
    { title: "Show the whole trace", hint: "Shift+F", run: () => store.show(null) },
    {
      title: "Sort the lanes by relevance",
      run: () => {
        model.resort.value += 1;
      },
    },
    { title: "Tracks …", run: () => openTracks(lastPlace) },
    ...(hidden > 0
      ? [{ title: `Show all hidden lanes (${hidden})`, run: () => (store.hidden.value = []) }]
      : []),
  ];
}

/** Opens the menu of the keyboard's row, below it. */
export function openRowMenu(row: Row, canvas: DOMRect): void {
  const geometry = model.canvasGeometry.peek();
  const focus = model.focus.peek();
  const on = row.kind === "lane" && focus?.lane === row.lane.id ? focus : null;
  const hit: Hit | null = on
    ? { kind: "slice", index: 0, from: on.from, to: on.to, state: 0, thread: NONE }
    : null;
  const top = row.top + row.height - (row.fixed ? 0 : model.scroll.peek());
  openTimelineMenu(
    { row, hit, at: on ? on.from : null, arrow: arrowTo(row) },
    { x: canvas.left + 20, y: canvas.top + geometry.head + top },
  );
}
