/** Navigates to what a link refers to: its lane, its time, its event. */
import { batch } from "@preact/signals";
import type { EventRef } from "./api/types";
import * as store from "./state/store";
import { type Ns, range } from "./units";

export interface Target {
  lane: string | null;
  from: Ns | null;
  to: Ns | null;
  event?: EventRef | null;
}

export function eventKey(event: EventRef): store.EventKey {
  if ("switch" in event) return { kind: "switch", index: event.switch };
  if ("waking" in event) return { kind: "waking", index: event.waking };
  if ("sample" in event) return { kind: "sample", index: event.sample };
  return { kind: "provider", index: event.provider };
}

export function navigateTo(target: Target): void {
  batch(() => {
    if (target.event) store.event.value = eventKey(target.event);
    if (target.from !== null) {
      const to = target.to !== null && target.to > target.from ? target.to : target.from;
      // A point in time is shown with half a millisecond on each side.
      if (to === target.from) store.show(range(target.from - 5e5, target.from + 5e5));
      else store.showAround(range(target.from, to), 0.15);
    }
    if (target.lane !== null)
      store.reveal.value = {
        lane: target.lane,
        at: (target.from ?? store.window.peek().from) as Ns,
      };
    if (store.layout.value === "view") store.layout.value = "split";
  });
}
