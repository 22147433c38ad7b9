/** The menus of the timeline: of a slice, a lane's name, a process, an arrow of the wait chain. */
import { processItems, threadItems } from "../../actions";
import type { StallAnswer } from "../../api/types";
import { copy } from "../../copy";
import { RAN } from "../../draw/states";
import { navigateTo } from "../../navigate";
import { type MenuItem, openMenu } from "../../parts/MenuHost";
import * as store from "../../state/store";
import { type Range, range, threadIx } from "../../units";
import { NONE } from "../data/decode";
import type { HeaderRow, LaneRow, Row } from "../data/layout";
import * as model from "../data/model";
import { chainArrows } from "../draw/chain";
import { lookAt, walk } from "./actions";
import type { Hit } from "./hit";
import { headerLines, hitLines, laneLines } from "./tooltipText";

type ChainArrow = StallAnswer["arrows"][number];

export interface MenuTarget {
  readonly row: Row | null;
  readonly hit: Hit | null;
  /** Null over the label column. */
  readonly at: number | null;
  readonly arrow: ChainArrow | null;
}

/** The pointer may miss an arrow by this much. */
const ARROW_SLACK_PX = 4;

/** The arrow of the wait chain at a point of the canvas. */
export function arrowAt(x: number, y: number): ChainArrow | null {
  const scene = model.scene.peek();
  const { arrows, sources } = chainArrows(scene, () => 0);
  const { labels } = scene.geometry;
  const found = arrows.find(
    (arrow) =>
      x >= labels + arrow.fromX - ARROW_SLACK_PX &&
      x <= labels + arrow.x + ARROW_SLACK_PX &&
      y >= Math.min(arrow.fromY, arrow.toY) &&
      y <= Math.max(arrow.fromY, arrow.toY),
  );
  return found ? (sources[found.first] ?? null) : null;
}

export function openTimelineMenu(target: MenuTarget, place: { x: number; y: number }): void {
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
  return [
    { title: "Show the wake-up and its waker", run: show(arrow.from_lane) },
    { title: "Show the woken thread", run: show(arrow.to_lane) },
  ];
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
  const { hit, at } = target;
  const view = model.views.get(row.lane.id);
  const scene = model.scene.peek();
  const lines = hit && view ? hitLines(scene, row, view, hit) : laneLines(row);
  const thread = threadOf(row, hit);
  const selects = rangeOf(target) ?? store.selection.peek().range;
  const pinned = store.pins.peek().includes(row.lane.id);
  return [
    ...(thread === null
      ? [
          {
            title: pinned ? "Unpin the lane" : "Pin the lane",
            run: () => store.togglePin(row.lane.id),
          },
        ]
      : threadItems(threadIx(thread), selects)),
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
      hint: "[",
      run: () =>
        void lookAt(row.lane.id, inside, 0, false).then((slice) => (slice ? walk(-1) : null)),
    },
  ];
}

function headerItems(row: HeaderRow): MenuItem[] {
  const toggle = {
    title: row.open ? "Close" : "Open",
    run: () => model.toggle(row.key),
  };
  if (!row.process) return [toggle, ...timeItems()];
  const { process, command_line } = row.process;
  return [
    toggle,
    ...processItems(process, store.selection.peek().range),
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
    { row, hit, at: on ? on.from : null, arrow: null },
    { x: canvas.left + 20, y: canvas.top + geometry.head + top },
  );
}
