/**
 * Selects a time range by dragging in a picture over time, or moves an edge of the selected one. The
 * ends snap to the stalls and the marks, with Alt they do not: as on the timeline.
 */
import type { Signal } from "@preact/signals";
import type { TargetedPointerEvent } from "preact";
import { stalls } from "../api/data";
import * as store from "../state/store";
import { type Range, range } from "../units";
import { edgeAt, snapped } from "./edges";

/** The end that stays, and the one that moves. */
export interface RangeDrag {
  readonly fixed: number;
  readonly at: number;
}

/** A drag shorter than this is a click. */
const MIN_DRAG_PX = 4;

/** The range that is dragged, or else the selected one. */
export const draggedRange = (drag: RangeDrag | null): Range | null =>
  drag ? range(drag.fixed, drag.at) : store.selection.value.range;

function snapTimes(): number[] {
  const list = [...(stalls.peek().data?.stalls ?? []), ...store.pageMarks.peek()];
  return list.flatMap(({ from, to }) => [from, to]);
}

/** Handlers for a picture of `shown`, `width` pixels wide. */
export function rangeDrag(
  drag: Signal<RangeDrag | null>,
  shown: Range,
  width: number,
  select: (range: Range) => void,
  isFree: (target: Element) => boolean = () => true,
) {
  type Move = TargetedPointerEvent<Element>;
  const pxPerNs = Math.max(1, width) / (shown.to - shown.from);
  const xOf = (at: number) => (at - shown.from) * pxPerNs;
  const xUnder = (event: Move) => event.clientX - event.currentTarget.getBoundingClientRect().left;
  const timeAt = (event: Move) => {
    const at = shown.from + Math.min(width, Math.max(0, xUnder(event))) / pxPerNs;
    return Math.round(event.altKey ? at : snapped(at, snapTimes(), pxPerNs));
  };
  const edgeUnder = (event: Move) => edgeAt(store.selection.peek().range, xOf, xUnder(event));
  return {
    onPointerDown: (event: Move) => {
      if (event.button !== 0 || !isFree(event.target as Element)) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      const [edge, selected] = [edgeUnder(event), store.selection.peek().range];
      const at = timeAt(event);
      drag.value =
        edge === null || selected === null
          ? { fixed: at, at }
          : edge === "from"
            ? { fixed: selected.to, at: selected.from }
            : { fixed: selected.from, at: selected.to };
    },
    onPointerMove: (event: Move) => {
      if (drag.peek()) drag.value = { fixed: drag.peek()?.fixed ?? 0, at: timeAt(event) };
      else
        (event.currentTarget as HTMLElement).style.cursor =
          edgeUnder(event) === null ? "" : "ew-resize";
    },
    onPointerUp: () => {
      const now = drag.peek();
      drag.value = null;
      if (now && Math.abs(xOf(now.at) - xOf(now.fixed)) >= MIN_DRAG_PX)
        select(range(now.fixed, now.at));
    },
    onPointerCancel: () => (drag.value = null),
  };
}
