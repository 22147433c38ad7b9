/** The parameters that all forms of the Stacks view send. */

import * as store from "../state/store";
import type { ThreadIx } from "../units";
import type { Params } from "./client";
import { stallDetail } from "./data";
import { stacksParams } from "./params";

/** The threads that the view is limited to; `null` for all, also if no stall is open. */
export function scopeThreads(scope: store.StacksState["scope"]): readonly number[] | null {
  const answer = stallDetail.value.data;
  if (scope === "all" || answer === null) return null;
  if (scope === "victim") return answer.victim ? [answer.victim.thread] : null;
  return answer.lanes.map((lane) => lane.who.thread);
}

/** The selected threads of whose stacks a view shows the sum; `[]` if that of one, or of all. */
export function summedThreads(): readonly ThreadIx[] {
  const { threads } = store.selection.value;
  return threads.length > 1 && scopeThreads(store.stacks.value.scope) === null ? threads : [];
}

export function stacksQuery(of: store.StackKind, selection = store.selection.value): Params {
  const { idle, scope, where } = store.stacks.value;
  return stacksParams(selection, of, idle, scopeThreads(scope), where);
}
