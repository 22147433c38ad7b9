/** A frame's context menu. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { copy } from "../copy";
import { placeTooltip } from "../draw/tooltip";
import * as store from "../state/store";
import { stackText } from "./frameText";
import * as model from "./model";

export interface MenuPlace {
  readonly index: number;
  readonly x: number;
  readonly y: number;
}

export function FrameMenu({ menu, close }: { menu: MenuPlace; close: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!box.current) return;
    const { left, top } = placeTooltip(
      menu.x - 14,
      menu.y - 16,
      box.current.offsetWidth,
      box.current.offsetHeight,
      model.size.peek(),
    );
    box.current.style.left = `${left}px`;
    box.current.style.top = `${top}px`;
    box.current.querySelector("button")?.focus();
  }, [menu]);
  const frame = model.tree.value.boxes[menu.index]?.frame;
  if (!frame) return null;
  const items: [string, () => void][] = [
    ["Butterfly: callers and callees", () => model.butterfly(menu.index)],
    ["Zoom to this frame", () => model.makeRoot(menu.index)],
    ["Filter all views by this function", () => store.select({ stack: frame.name })],
    ["Copy the name", () => void copy(frame.name, "the function's name")],
    ["Copy the stack", () => void copy(stackText(model.tree.peek(), menu.index), "the stack")],
  ];
  const onMenuKey = (event: KeyboardEvent) => {
    const buttons = [...(box.current?.querySelectorAll("button") ?? [])];
    const here = buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") buttons[(here + 1) % buttons.length]?.focus();
    else if (event.key === "ArrowUp")
      buttons[(here + buttons.length - 1) % buttons.length]?.focus();
    else return;
    event.preventDefault();
  };
  return (
    <div
      class="fl-menu"
      role="menu"
      aria-label={frame.name}
      ref={box}
      onKeyDown={onMenuKey}
      onFocusOut={(event) => {
        if (!(event.relatedTarget instanceof Node && box.current?.contains(event.relatedTarget)))
          close();
      }}
    >
      {items.map(([title, run]) => (
        <button
          key={title}
          type="button"
          role="menuitem"
          onClick={() => {
            close();
            run();
          }}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
