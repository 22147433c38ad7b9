/** Keeps the lanes in place when the wait chain above them changes. */
import { batch, effect, untracked } from "@preact/signals";
import { stallDetail, stallsReady } from "../../api/data";
import * as store from "../../state/store";
import { CHAIN, inPlace } from "./layout";
import * as model from "./model";

/** Whether the answer that the user asked for has arrived, if one was asked for. */
function hasArrived(): boolean {
  const { data, error } = stallDetail.value;
  const stall = store.stall.value;
  if (error !== null) return true;
  return data === null
    ? stallsReady.value && stall === null && !store.canExplain.value
    : data.id === (stall ?? 0);
}

function keepLanes(before: number): void {
  // Who looks at the chain sees it change.
  const looksAtChain = model.lookedAt.peek() === CHAIN && model.rowLayout.peek().chain > 0;
  const by = model.rowLayout.peek().chain - before;
  const next = looksAtChain
    ? { scroll: model.scroll.peek(), gap: 0 }
    : inPlace(model.scroll.peek(), by);
  batch(() => {
    model.gap.value = next.gap;
    model.scroll.value = Math.min(next.scroll, model.scrollEnd());
  });
}

/**
 * Keeps what the user looks at in place, except that the chain of a stall just opened is on top.
 * Returns a function that stops.
 */
export function keepPlace(): () => void {
  let stall = store.stall.peek();
  let height = model.rowLayout.peek().chain;
  const ends = [
    effect(() => {
      // Not when Back leads from an explained selection to the stall.
      if (store.stall.value === null || store.stall.value === stall) return;
      stall = store.stall.value;
      store.unshown.value = true;
    }),
    effect(() => {
      const before = height + model.gap.peek();
      const changed = model.rowLayout.value.chain !== height;
      height = model.rowLayout.value.chain;
      if (store.unshown.value) {
        model.gap.value = 0;
        model.scroll.value = 0;
        if (hasArrived()) store.unshown.value = false;
      } else if (changed) untracked(() => keepLanes(before));
    }),
  ];
  return () => {
    for (const end of ends) end();
  };
}
