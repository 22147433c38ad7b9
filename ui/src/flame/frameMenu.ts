/** A frame's context menu: what concerns the graph, then what any function's menu has. */
import { copy } from "../copy";
import { functionMenu } from "../functionMenu";
import { openMenu } from "../parts/MenuHost";
import * as store from "../state/store";
import { stackText } from "./frameText";
import * as model from "./model";

export function openFrameMenu(index: number, place: { x: number; y: number }): void {
  const frame = model.tree.peek().boxes[index]?.frame;
  if (!frame || !model.isFunction(index)) return;
  openMenu(
    frame.name,
    [
      { title: "Zoom to this frame", run: () => model.makeRoot(index) },
      ...functionMenu(frame.name, store.stacks.peek().of),
      {
        title: "Copy the stack",
        run: () => void copy(stackText(model.tree.peek(), index), "the stack"),
      },
    ],
    place,
  );
}
