/** The tooltip at the pointer. Pinned by a click, its text can be selected and copied. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { copy } from "../copy";
import { placeTooltip } from "../draw/tooltip";
import * as model from "./data/model";

export function Tooltip() {
  const tip = model.tooltip.value;
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!tip || !box.current) return;
    const { left, top } = placeTooltip(
      tip.x,
      tip.y,
      box.current.offsetWidth,
      box.current.offsetHeight,
      model.size.peek(),
    );
    box.current.style.left = `${left}px`;
    box.current.style.top = `${top}px`;
  }, [tip]);
  if (!tip) return null;
  const [title, ...rest] = tip.lines;
  return (
    <div
      class={tip.pinned ? "tl-tip pinned" : "tl-tip"}
      ref={box}
      role={tip.pinned ? "dialog" : "tooltip"}
      aria-label="Description"
    >
      <p class="tl-tip-title">{title}</p>
      {rest.map((line) => (
        <p key={line}>{line}</p>
      ))}
      {tip.pinned && (
        <p class="tl-tip-row">
          <button
            type="button"
            class="btn"
            onClick={() => void copy(tip.lines.join("\n"), "the description")}
          >
            Copy
          </button>
          <button type="button" class="btn" onClick={() => (model.tooltip.value = null)}>
            Close
          </button>
        </p>
      )}
    </div>
  );
}
