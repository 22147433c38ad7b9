/**
 * The flame graph as a text tree, for screen readers and the keyboard: the path to the current
 * frame and its callees.
 */
import { copy } from "../copy";
import { frameLines, stackText } from "./frameText";
import * as model from "./model";
import { path, step } from "./tree";

/** The graph's own keys while it has the focus. */
export function onKey(event: KeyboardEvent, up: boolean, openMenu: (index: number) => void): void {
  const tree = model.tree.peek();
  if (event.ctrlKey || event.metaKey || event.altKey || tree.boxes.length === 0) return;
  const at = model.focus.peek() < 0 ? model.rootBox.peek().index : model.focus.peek();
  const go = (to: "caller" | "callee" | "left" | "right") => {
    model.focus.value = model.focus.peek() < 0 ? at : step(tree, at, to);
  };
  switch (event.code) {
    // Arrow keys follow the picture: a flame graph has callees above.
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

/** Maximum callees listed, widest first: more would flood a screen reader. */
const MAX_CHILDREN = 40;

const LABEL =
  "Graph of stacks. Arrow keys: move. Enter: zoom to the frame. Backspace: zoom out. " +
  "B: butterfly. C: copy the stack.";

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
      aria-label={LABEL}
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
