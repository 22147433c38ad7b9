/** Two panes, one above the other, with a separator that can be dragged or moved by arrow keys. */
import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import * as store from "../state/store";
import { SMALL_SCREEN_PX } from "../state/theme";

/** The upper pane's share of the height; lasts as long as the page. A low window has few lanes. */
const share = signal(globalThis.innerHeight < SMALL_SCREEN_PX ? 0.63 : 0.52);
const MIN_SHARE = 0.15;

export function Split({ upper, lower }: { upper: ComponentChildren; lower: ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  const dragging = useSignal(false);
  const layout = store.layout.value;
  const move = (to: number) => (share.value = Math.min(1 - MIN_SHARE, Math.max(MIN_SHARE, to)));
  return (
    <div ref={ref} class={`split ${layout}`}>
      {layout !== "timeline" && (
        <div class="split-part" style={{ flexGrow: layout === "split" ? share.value : 1 }}>
          {upper}
        </div>
      )}
      {layout === "split" && (
        <div
          class={dragging.value ? "split-bar dragging" : "split-bar"}
          role="separator"
          aria-orientation="horizontal"
          aria-label="Between the view and the timeline"
          aria-valuenow={Math.round(share.value * 100)}
          aria-valuemin={MIN_SHARE * 100}
          aria-valuemax={100 - MIN_SHARE * 100}
          tabIndex={0}
          onKeyDown={(event) => {
            const step = { ArrowUp: -0.05, ArrowDown: 0.05 }[event.key];
            if (step === undefined) return;
            event.preventDefault();
            move(share.value + step);
          }}
          onPointerDown={(event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            dragging.value = true;
          }}
          onPointerMove={(event) => {
            const box = ref.current?.getBoundingClientRect();
            if (dragging.value && box) move((event.clientY - box.top) / box.height);
          }}
          onPointerUp={() => (dragging.value = false)}
          onPointerCancel={() => (dragging.value = false)}
          onDblClick={() => (share.value = 0.52)}
        />
      )}
      {layout !== "view" && (
        <div class="split-part" style={{ flexGrow: layout === "split" ? 1 - share.value : 1 }}>
          {lower}
        </div>
      )}
    </div>
  );
}
