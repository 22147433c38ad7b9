/** Hit test on a lane: a slice, or a cell of what is too dense for slices. */
import type { LaneView } from "../data/decode";
import type { Scale } from "../data/scale";
import { firstAtLeast, firstEndingAfter } from "../data/sorted";

export type Hit =
  | {
      readonly kind: "slice";
      readonly index: number;
      readonly from: number;
      readonly to: number;
      readonly state: number;
      readonly thread: number;
    }
  | {
      readonly kind: "cell";
      readonly index: number;
      readonly from: number;
      readonly to: number;
      readonly state: number;
      readonly thread: number;
      readonly share: number;
    };

/** The pointer may miss by this much, which makes short slices easier to hit. */
const SLACK_PX = 2;

export function hit(view: LaneView, scale: Scale, x: number): Hit | null {
  const at = scale.at(x);
  const slack = SLACK_PX / scale.pxPerNs;
  const slice = firstEndingAfter(view.end, at);
  if (slice < view.start.length && (view.start[slice] as number) <= at)
    return sliceHit(view, slice);
  const column = Math.floor((at - view.from) / view.columnNs);
  const cell = nearestCell(view, column, slack / view.columnNs);
  if (cell >= 0) return cellHit(view, cell);
  if (slice < view.start.length && (view.start[slice] as number) <= at + slack)
    return sliceHit(view, slice);
  return null;
}

function sliceHit(view: LaneView, index: number): Hit {
  return {
    kind: "slice",
    index,
    from: view.start[index] as number,
    to: view.end[index] as number,
    state: view.state[index] as number,
    thread: view.thread[index] as number,
  };
}

function cellHit(view: LaneView, index: number): Hit {
  const from = view.from + (view.cellColumn[index] as number) * view.columnNs;
  return {
    kind: "cell",
    index,
    from,
    to: from + view.columnNs,
    state: view.cellState[index] as number,
    thread: view.cellThread[index] as number,
    share: (view.cellCover[index] as number) / 255,
  };
}

function nearestCell(view: LaneView, column: number, slack: number): number {
  const after = firstAtLeast(view.cellColumn, column);
  let best = -1;
  let distance = Math.max(slack, 0.5);
  for (const index of [after - 1, after]) {
    const here = view.cellColumn[index];
    if (here === undefined) continue;
    const away = Math.abs(here - column);
    if (away <= distance) {
      best = index;
      distance = away;
    }
  }
  return best;
}
