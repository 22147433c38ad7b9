/** Mouse, pen, touch and wheel on the timeline: select a range, pan, zoom, hover, pin a tooltip. */
import { batch } from "@preact/signals";
import { getJson, tracePath } from "../../api/client";
import { RAN } from "../../draw/states";
import { edgeAt, snapped } from "../../parts/edges";
import * as store from "../../state/store";
import { wheel as wheelHabit } from "../../state/theme";
import { replacing } from "../../state/url";
import { ns, type ProcessIx, range, type ThreadIx, threadIx, timeText } from "../../units";
import { NONE } from "../data/decode";
import { type LaneRow, type Row, sectionOf } from "../data/layout";
import * as model from "../data/model";
import type { Slice } from "../data/protocol";
import { pan, zoom } from "../data/scale";
import { rowUnder } from "../data/scene";
import { curveText, markAt } from "../draw/head";
import { trackLines } from "../draw/track";
import { lookAt, lookAtLink } from "./actions";
import { boundaries } from "./edges";
import { type Hit, hit } from "./hit";
import { arrowAt, openTimelineMenu } from "./menu";
import { type Fingers, fingers, type Point, pinched, wheelZoom } from "./motion";
import { headerLines, hitLines, laneLines, sliceLines } from "./tooltipText";

/** A drag shorter than this is a click by a shaky hand. */
const DRAG_PX = 4;
const TOOLTIP_DELAY_MS = 150;

interface Drag {
  readonly kind: "range" | "pan";
  /** Of a range: whether it is another one, or one end of that which is selected. */
  readonly moves: "new" | "edge";
  /** Of a range: the end that stays. */
  readonly start: number;
  readonly x: number;
  readonly y: number;
  readonly from: number;
  readonly scroll: number;
  moved: boolean;
}

interface PointerTarget {
  readonly row: Row | null;
  readonly hit: Hit | null;
  /** Null over the label column. */
  readonly at: number | null;
}

/** What is at a point of the canvas. */
function under(x: number, y: number): PointerTarget {
  const geometry = model.canvasGeometry.peek();
  const scale = model.scale.peek();
  const at = x > geometry.labels ? scale.at(x - geometry.labels) : null;
  if (y < geometry.head) return { row: null, hit: null, at };
  const row = rowUnder(model.rowLayout.peek(), model.scroll.peek(), y - geometry.head);
  const view = row?.kind === "lane" ? model.views.get(row.lane.id) : undefined;
  return { row, hit: view && at !== null ? hit(view, scale, x - geometry.labels) : null, at };
}

/** The time at a point of the canvas; without Alt, that of an event near it. */
function timeAt(x: number, y: number, exact: boolean): number {
  const { labels } = model.canvasGeometry.peek();
  const scale = model.scale.peek();
  const at = scale.at(Math.max(0, x - labels));
  if (exact) return at;
  const { row } = under(x, y);
  const view = row?.kind === "lane" ? model.views.get(row.lane.id) : undefined;
  const marks = [...store.pageMarks.peek(), model.passingMark.peek(), model.chain.peek()];
  const others = marks.flatMap((mark) => (mark ? [mark.from, mark.to] : []));
  return snapped(at, [...boundaries(view, at), ...others], scale.pxPerNs);
}

/** The threads whose lanes are between two heights of the canvas, in their order there. */
function threadsBetween(a: number, b: number): ThreadIx[] {
  const { head } = model.canvasGeometry.peek();
  const { rows } = model.rowLayout.peek();
  const at = (y: number) =>
    rowUnder(model.rowLayout.peek(), model.scroll.peek(), Math.max(0, y - head));
  const [first, last] = [at(Math.min(a, b)), at(Math.max(a, b))];
  if (Math.max(a, b) < head || first === null || last === null) return [];
  const crossed = rows.slice(rows.indexOf(first), rows.indexOf(last) + 1);
  const threads = crossed.flatMap((row) =>
    row.kind === "lane" && row.lane.kind === "thread" ? [threadIx(row.lane.number)] : [],
  );
  return [...new Set(threads)];
}

export class Pointer {
  private drag: Drag | null = null;
  /** Where fingers touch the canvas, by the pointer's id. */
  private readonly touches = new Map<number, Point>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private sliceRequest: AbortController | null = null;
  /** What the first click of a double-click met: what it does moves the lanes below the second. */
  private met: { hit: Hit | null; address: string } = { hit: null, address: "" };
  private readonly off = new AbortController();

  constructor(private readonly canvas: HTMLElement) {
    const on = <K extends keyof HTMLElementEventMap>(
      name: K,
      run: (event: HTMLElementEventMap[K]) => void,
      passive = true,
    ) => canvas.addEventListener(name, run, { signal: this.off.signal, passive });
    on("pointerdown", (e) => this.down(e));
    on("pointermove", (e) => this.move(e));
    on("pointerup", (e) => this.up(e));
    on("pointercancel", (e) => {
      this.cancel();
      if (this.touches.delete(e.pointerId)) this.goOn();
    });
    on("pointerleave", () => this.leave());
    on("mousedown", (e) => this.meet(e));
    on("dblclick", () => this.double());
    on("contextmenu", (e) => this.menu(e), false);
    // Not passive: zooming must prevent the wheel from scrolling the lanes.
    on("wheel", (e) => this.wheel(e), false);
  }

  stop(): void {
    this.off.abort();
    this.hideTooltip();
  }

  private canvasPoint(event: MouseEvent): Point {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private down(event: PointerEvent): void {
    const { x, y } = this.canvasPoint(event);
    const { labels } = model.canvasGeometry.peek();
    const inPlot = x > labels;
    if (event.button > 1 || (!inPlot && event.button !== 0)) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.hideTooltip();
    if (event.pointerType === "touch") this.touches.set(event.pointerId, { x, y });
    if (this.touches.size > 1) {
      this.cancel();
      return;
    }
    const { row } = under(x, y);
    if (row) model.lookedAt.value = sectionOf(row);
    const panning =
      !inPlot || event.button === 1 || event.shiftKey || event.pointerType === "touch";
    const selected = store.selection.peek().range;
    const edge =
      inPlot && !panning ? edgeAt(selected, (at) => model.scale.peek().x(at), x - labels) : null;
    this.drag = {
      kind: panning ? "pan" : "range",
      moves: edge === null ? "new" : "edge",
      start:
        edge === null || selected === null
          ? timeAt(x, y, event.altKey)
          : edge === "from"
            ? selected.to
            : selected.from,
      x,
      y,
      from: store.window.peek().from,
      scroll: model.scroll.peek(),
      moved: false,
    };
    if (event.button === 1) event.preventDefault();
  }

  private move(event: PointerEvent): void {
    const { x, y } = this.canvasPoint(event);
    if (this.touches.has(event.pointerId) && this.pinch(event.pointerId, { x, y })) return;
    const drag = this.drag;
    if (!drag) {
      this.point(x, y);
      return;
    }
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < DRAG_PX) return;
    drag.moved = true;
    const scale = model.scale.peek();
    const { labels } = model.canvasGeometry.peek();
    batch(() => {
      model.pointerX.value = x;
      if (drag.kind === "range") {
        model.dragged.value = range(drag.start, timeAt(x, y, event.altKey));
        return;
      }
      if (drag.x > labels) {
        const window = store.window.peek();
        const from = drag.from - (x - drag.x) / scale.pxPerNs;
        store.show(range(from, from + (window.to - window.from)));
      }
      scrollLanes(drag.scroll - (y - drag.y));
    });
  }

  /** Zooms and pans as one of two fingers moves; false if there is but one. */
  private pinch(finger: number, to: Point): boolean {
    const before = this.pair();
    this.touches.set(finger, to);
    const after = this.pair();
    if (before && after) followFingers(before, after);
    return after !== null;
  }

  /** The first two fingers, if as many touch the canvas. */
  private pair(): Fingers | null {
    const [a, b] = this.touches.values();
    return a && b ? fingers([a, b]) : null;
  }

  private up(event: PointerEvent): void {
    if (this.touches.delete(event.pointerId) && this.touches.size > 0) {
      this.goOn();
      return;
    }
    const drag = this.drag;
    this.drag = null;
    const chosen = model.dragged.peek();
    model.dragged.value = null;
    if (!drag) return;
    if (drag.moved) {
      const whole = store.extent.peek();
      if (chosen)
        store.sweep(
          range(
            Math.max(whole.from, Math.round(chosen.from)),
            Math.min(whole.to, Math.round(chosen.to)),
          ),
          drag.moves === "new"
            ? threadsBetween(drag.y, this.canvasPoint(event).y)
            : store.swept.peek(),
        );
      return;
    }
    if (event.button === 0) this.click(drag.x, drag.y, event);
  }

  /** The finger that is left goes on to pan. */
  private goOn(): void {
    const [left] = this.touches.values();
    if (!left || this.touches.size > 1) return;
    this.drag = {
      kind: "pan",
      moves: "new",
      start: 0,
      ...left,
      from: store.window.peek().from,
      scroll: model.scroll.peek(),
      moved: true,
    };
  }

  private cancel(): void {
    this.drag = null;
    model.dragged.value = null;
  }

  /** With Ctrl or Shift, a click on a lane adds its thread to the selected ones. */
  private click(x: number, y: number, keys: MouseEvent): void {
    const { row, hit: found, at } = under(x, y);
    if (!row) return;
    if (row.kind === "header") {
      model.toggle(row.key);
      return;
    }
    const adds = keys.ctrlKey || keys.metaKey || keys.shiftKey;
    if (at === null || adds) {
      if (row.lane.kind !== "thread") return;
      const thread = threadIx(row.lane.number);
      if (adds) store.addThread(thread);
      else store.toggleThread(thread);
      return;
    }
    const link =
      row.depth === null
        ? -1
        : (model.chain
            .peek()
            ?.chain.findIndex((l) => l.lane === row.lane.id && at >= l.from && at < l.to) ?? -1);
    if (link >= 0) lookAtLink(link);
    if (!found) {
      model.focus.value = null;
      model.tooltip.value = null;
      return;
    }
    void this.pin(row, found, at, x, y);
  }

  private menu(event: MouseEvent): void {
    event.preventDefault();
    const { x, y } = this.canvasPoint(event);
    this.hideTooltip();
    this.cancel();
    const { row, hit: found, at } = under(x, y);
    const arrow = row === null || at === null ? null : arrowAt(x, y);
    openTimelineMenu({ row, hit: found, at, arrow }, { x: event.clientX, y: event.clientY });
  }

  /** Makes the slice current and pins its tooltip. */
  private async pin(row: LaneRow, found: Hit, at: number, x: number, y: number): Promise<void> {
    const slice = await lookAt(
      row.lane.id,
      found.kind === "slice" ? Math.max(found.from, Math.min(at, found.to - 1)) : at,
      0,
      false,
    );
    if (!slice) return;
    const lines = sliceLines(row, slice);
    model.tooltip.value = { x, y, lines, pinned: true };
    model.announcement.value = lines.join(". ");
  }

  private meet(event: MouseEvent): void {
    if (event.detail !== 1) return;
    const { x, y } = this.canvasPoint(event);
    this.met = { hit: under(x, y).hit, address: location.href };
  }

  private double(): void {
    const { hit: found, address } = this.met;
    if (!found) return;
    const zoom = () => store.showAround(range(found.from, found.to));
    // If its first click has made an entry of the history, it is the double-click's.
    if (location.href === address) zoom();
    else replacing(zoom);
  }

  private leave(): void {
    if (this.drag) return;
    batch(() => {
      model.pointerX.value = null;
      store.hovered.value = store.NOTHING_HOVERED;
      this.hideTooltip();
    });
  }

  private point(x: number, y: number): void {
    const found = under(x, y);
    batch(() => {
      model.pointerX.value = x;
      const hovered = hoveredAt(found);
      const before = store.hovered.peek();
      const isSame = (["lane", "thread", "process"] as const).every(
        (part) => before[part] === hovered[part],
      );
      if (!isSame) store.hovered.value = hovered;
      this.hideTooltip();
    });
    this.canvas.style.cursor = cursorFor(found, x);
    this.timer = setTimeout(() => this.showTooltip(x, y, found), TOOLTIP_DELAY_MS);
  }

  private hideTooltip(): void {
    clearTimeout(this.timer);
    this.sliceRequest?.abort();
    this.sliceRequest = null;
    if (model.tooltip.peek()?.pinned === false) model.tooltip.value = null;
  }

  private showTooltip(x: number, y: number, found: PointerTarget): void {
    if (model.tooltip.peek()?.pinned) return;
    const lines = tooltipLines(x, y, found);
    if (lines.length === 0) return;
    model.tooltip.value = { x, y, lines, pinned: false };
    const { row, hit: what, at } = found;
    if (row?.kind !== "lane" || what?.kind !== "slice" || at === null) return;
    const controller = new AbortController();
    this.sliceRequest = controller;
    const inside = Math.round(Math.max(what.from, Math.min(at, what.to - 1)));
    getJson<Slice>(
      tracePath(store.trace.peek() ?? "", "slice"),
      { lane: row.lane.id, at: inside },
      controller.signal,
    ).then(
      (slice) => {
        if (this.sliceRequest === controller && model.tooltip.peek()?.pinned === false)
          model.tooltip.value = { x, y, lines: sliceLines(row, slice), pinned: false };
      },
      // On failure, the tooltip keeps what the page knows. A click shows the error.
      () => undefined,
    );
  }

  private wheel(event: WheelEvent): void {
    const { x } = this.canvasPoint(event);
    const { labels } = model.canvasGeometry.peek();
    const sidewaysOnly = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    // A pinch on a touchpad arrives as a wheel with Ctrl.
    const zooms = event.ctrlKey || event.metaKey || (wheelHabit.peek() === "zoom" && x > labels);
    // The browser scrolls the lanes.
    if (!zooms && !sidewaysOnly && !event.altKey) return;
    event.preventDefault();
    const lines = event.deltaMode !== 0;
    const whole = store.extent.peek();
    const window = store.window.peek();
    this.hideTooltip();
    if (event.altKey) {
      scrollLanes(model.scroll.peek() + event.deltaY * (lines ? 20 : 1));
      return;
    }
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (Math.abs(sideways) > (event.shiftKey ? 0 : Math.abs(event.deltaY))) {
      store.show(
        pan(window, (sideways * (lines ? 33 : 1)) / Math.max(1, model.scale.peek().width), whole),
      );
    } else if (event.deltaY !== 0) {
      store.show(
        zoom(
          window,
          wheelZoom(event.deltaY, lines),
          model.scale.peek().at(Math.max(0, x - labels)),
          whole,
        ),
      );
    }
  }
}

function followFingers(before: Fingers, after: Fingers): void {
  const { labels } = model.canvasGeometry.peek();
  const scale = model.scale.peek();
  const at = scale.at(Math.max(0, before.x - labels));
  batch(() => {
    store.show(
      pinched(store.window.peek(), [before, after], at, scale.pxPerNs, store.extent.peek()),
    );
    scrollLanes(model.scroll.peek() - (after.y - before.y));
  });
}

function scrollLanes(to: number): void {
  model.scroll.value = Math.max(0, Math.min(to, model.scrollEnd()));
}

function cursorFor({ row, at }: PointerTarget, x: number): string {
  const { labels } = model.canvasGeometry.peek();
  if (at === null) return row ? "pointer" : "default";
  const scale = model.scale.peek();
  const edge = edgeAt(store.selection.peek().range, (at) => scale.x(at), x - labels);
  if (edge !== null) return "ew-resize";
  return row?.kind === "header" ? "pointer" : "crosshair";
}

function hoveredAt({ row, hit: found }: PointerTarget): store.Hovered {
  const nothing = store.NOTHING_HOVERED;
  if (row?.kind === "header") return { ...nothing, process: row.process?.process ?? null };
  if (row?.kind !== "lane" || row.lane.kind === "track") return nothing;
  const { id: lane, kind, number, process: ofLane } = row.lane;
  if (kind === "thread") return { lane, thread: number as ThreadIx, process: ofLane as ProcessIx };
  if (!found || found.state !== RAN || found.thread === NONE || found.thread === 0)
    return { ...nothing, lane };
  const process = model.names.peek().get(found.thread)?.processIndex ?? null;
  return { lane, thread: found.thread as ThreadIx, process: process as ProcessIx | null };
}

function tooltipLines(x: number, y: number, { row, hit: found, at }: PointerTarget): string[] {
  const scene = model.scene.peek();
  const geometry = scene.geometry;
  if (row?.kind === "header") return headerLines(row);
  if (row?.kind === "lane") {
    if (at === null) return laneLines(row);
    if (row.lane.kind === "track") return trackLines(scene, row, at);
    const view = model.views.get(row.lane.id);
    return found && view ? hitLines(scene, row, view, found) : [];
  }
  if (at === null) return [];
  const time = timeText(ns(at), 1 / scene.scale.pxPerNs);
  if (y >= geometry.marks.top) {
    const mark = markAt(scene, x - geometry.labels);
    return mark ? [mark, time] : [];
  }
  const busy = y >= geometry.curve.top ? curveText(scene, at) : null;
  return busy ? [busy, time] : [];
}
