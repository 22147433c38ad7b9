/** The flame graph as a tree of text, for screen readers and the keyboard: the path to the frame that is looked at, and what lies on it. */
import { copy } from "../copy";
import { frameLines, stackText } from "./frameText";
import * as model from "./model";
import { path, step } from "./tree";

/** Keys of the graph when it has the focus; the registry leaves them alone. */
export function onKey(event: KeyboardEvent, up: boolean, openMenu: (index: number) => void): void {
  const tree = model.tree.peek();
  if (event.ctrlKey || event.metaKey || event.altKey || tree.boxes.length === 0) return;
  const at = model.focus.peek() < 0 ? model.rootBox.peek().index : model.focus.peek();
  const go = (to: "caller" | "callee" | "left" | "right") => {
    model.focus.value = model.focus.peek() < 0 ? at : step(tree, at, to);
  };
  switch (event.code) {
    // The arrows follow the picture: in a flame graph callees lie above.
    case "ArrowUp":
      go(up ? "callee" : "caller");
      break;
    case "ArrowDown":
      go(up ? "caller" : "callee");
      break;
    case "ArrowLeft":
      go("left");
      break;
    case "ArrowRight":
      go("right");
      break;
    case "Home":
      model.focus.value = 0;
      break;
    case "Enter":
      model.makeRoot(at);
      break;
    case "Backspace": {
      const above = tree.boxes[model.rootBox.peek().index]?.parent ?? -1;
      model.makeRoot(Math.max(above, 0));
      break;
    }
    case "KeyB":
      model.butterfly(at);
      break;
    case "KeyC":
      void copy(stackText(tree, at), "the stack");
      break;
    case "ContextMenu":
      openMenu(at);
      break;
    case "F10":
      if (!event.shiftKey) return;
      openMenu(at);
      break;
    default:
      return;
  }
  event.preventDefault();
}

/** More would flood a screen reader; the widest come first. */
const MAX_CHILDREN = 40;

export function FrameTree({ onKeyDown }: { onKeyDown: (event: KeyboardEvent) => void }) {
  const tree = model.tree.value;
  const data = model.query.state.value.data;
  const current = model.focus.value < 0 ? model.rootBox.value.index : model.focus.value;
  const text = (index: number) =>
    frameLines(tree, index, data?.of ?? "wait", data?.unit ?? "ns").join(", ");
  const above = path(tree, current);
  const children = tree.boxes[current]?.children.slice(0, MAX_CHILDREN) ?? [];
  return (
    <div
      class="fl-tree"
      role="tree"
      tabIndex={0}
      aria-label="Stacks as a graph. Arrows: walk. Enter: fill the width. Backspace: back. B: butterfly. C: copy the stack."
      aria-activedescendant={tree.boxes[current] ? `frame-${current}` : undefined}
      onKeyDown={onKeyDown}
    >
      {above.map((box) => (
        <div
          key={box.index}
          id={`frame-${box.index}`}
          role="treeitem"
          aria-level={box.depth + 1}
          aria-selected={box.index === current}
          aria-expanded={box.children.length > 0 ? true : undefined}
          data-frame={box.frame.name}
        >
          {text(box.index)}
        </div>
      ))}
      {children.map((index) => (
        <div
          key={index}
          id={`frame-${index}`}
          role="treeitem"
          aria-level={(tree.boxes[index]?.depth ?? 0) + 1}
          aria-selected={false}
          data-frame={tree.boxes[index]?.frame.name}
        >
          {text(index)}
        </div>
      ))}
      {above.length === 0 && (
        <div role="treeitem" aria-level={1} aria-selected={false}>
          no stacks
        </div>
      )}
    </div>
  );
}
