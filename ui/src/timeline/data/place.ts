/** Keeps the lanes in place when the wait chain above them changes. */
import { batch, effect, untracked } from "@preact/signals";
import { stallDetail, stallsReady } from "../../api/data";
import * as store from "../../state/store";
import { CHAIN, inPlace } from "./layout";
import * as model from "./model";

/** `before` is how high the chain was, with the space below it. */
function keepLanes(before: number): void {
  const scroll = model.scroll.peek();
  // Who looks at the chain sees it change.
  const next =
    model.lookedAt.peek() === CHAIN
      ? { scroll, gap: 0 }
      : inPlace(scroll, model.rowLayout.peek().chain - before);
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
      if (!store.unshown.value) return;
      void model.chain.value;
      model.gap.value = 0;
      model.scroll.value = 0;
    }),
    effect(() => {
      if (!store.unshown.value) return;
      void [stallDetail.value, stallsReady.value];
      // Another effect of the same change asks for the answer.
      queueMicrotask(() => {
        if (stallsReady.peek() && !stallDetail.peek().loading) store.unshown.value = false;
      });
    }),
    effect(() => {
      const { chain } = model.rowLayout.value;
      if (chain === height) return;
      const before = height + model.gap.peek();
      height = chain;
      if (!store.unshown.peek()) untracked(() => keepLanes(before));
    }),
  ];
  return () => {
    for (const end of ends) end();
  };
}
