/** The timeline's commands and their keys: WASD, F, M, `[` `]`, `.` `,`. */
import { hide } from "../../actions";
import { type Command, register } from "../../commands";
import * as store from "../../state/store";
import { wheel } from "../../state/theme";
import * as model from "../data/model";
import { fitCandidates, mark, stepEvent, walk } from "./actions";
import { type Held, moved, nextFit, STILL, stepped } from "./motion";

let held: Held = STILL;
let last = 0;

const calm = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;
const here = (): boolean => store.trace.peek() !== null;

/** The time that zooming keeps in place: the pointer's, else the middle. */
function anchor(): number {
  const window = store.window.peek();
  const x = model.pointerX.peek();
  const labels = model.canvasGeometry.peek().labels;
  return x !== null && x > labels
    ? model.scale.peek().at(x - labels)
    : (window.from + window.to) / 2;
}

function frame(now: number): void {
  if (held.pan === 0 && held.zoom === 0) return;
  store.show(moved(store.window.peek(), held, now - last, anchor(), store.extent.peek()));
  last = now;
  requestAnimationFrame(frame);
}

function go(part: Partial<Held>, isHeld: boolean): void {
  const step = { ...STILL, ...part };
  // A press moves one step at once; while the key is held, the window glides.
  store.show(stepped(store.window.peek(), step, anchor(), store.extent.peek()));
  if (!isHeld || calm()) return;
  const still = held.pan === 0 && held.zoom === 0;
  held = { ...held, ...part };
  if (!still) return;
  last = performance.now();
  requestAnimationFrame(frame);
}

function motion(id: string, title: string, keys: string[], part: Partial<Held>): Command {
  return {
    id,
    group: "Timeline",
    title,
    keys,
    // With reduced motion, each repeat of the key is a step, as nothing glides.
    repeats: calm(),
    when: here,
    run: (isHeld) => go(part, isHeld),
    released: () => {
      held = { ...held, ...("pan" in part ? { pan: 0 } : { zoom: 0 }) };
    },
  };
}

/** What can be done with the lane, or with the process, under the pointer. */
function underPointer(): Command[] {
  const command = (id: string, title: string, key: string, run: () => void): Command => ({
    id,
    group: "Timeline",
    title,
    keys: [key],
    when: here,
    run,
  });
  return [
    command("timeline.pin", "Pin or unpin the lane at the pointer", "KeyP", () => {
      const { lane } = store.hovered.peek();
      if (lane !== null) store.togglePin(lane);
    }),
    command("timeline.hide", "Hide the lane or the process at the pointer", "KeyH", () => {
      const { lane, process } = store.hovered.peek();
      if (lane !== null) hide(lane);
      else if (process !== null) hide(`p${process}`);
    }),
  ];
}

/** How the lanes are sorted and what the wheel does. */
function habits(): Command[] {
  const command = (id: string, title: string, run: () => void): Command => ({
    id,
    group: "Timeline",
    title,
    when: here,
    run,
  });
  return [
    command("timeline.sort", "Sort the lanes by relevance to the selection", () => {
      model.resort.value += 1;
      model.scroll.value = 0;
    }),
    command("timeline.wheel", "Wheel: switch between scrolling the lanes and zooming", () => {
      wheel.value = wheel.value === "scroll" ? "zoom" : "scroll";
      store.notify(
        wheel.value === "scroll"
          ? "The wheel scrolls the lanes; with Ctrl it zooms."
          : "The wheel zooms; with Alt it scrolls the lanes.",
      );
    }),
  ];
}

export function registerKeys(): () => void {
  const whole = () => store.show(null);
  const command = (
    id: string,
    group: Command["group"],
    title: string,
    keys: string[],
    run: () => void,
    more: Partial<Command> = {},
  ): Command => ({ id, group, title, keys, when: here, run, ...more });
  const stop = register(
    motion("timeline.zoom-in", "Zoom in", ["KeyW"], { zoom: -1 }),
    motion("timeline.zoom-out", "Zoom out", ["KeyS"], { zoom: 1 }),
    motion("timeline.earlier", "Pan to earlier", ["KeyA"], { pan: -1 }),
    motion("timeline.later", "Pan to later", ["KeyD"], { pan: 1 }),
    command(
      "timeline.fit",
      "Timeline",
      "Zoom to the selection, slice, stall, then the whole trace (press again for the next)",
      ["KeyF"],
      () => store.show(nextFit(store.window.peek(), fitCandidates(), store.extent.peek())),
    ),
    command("timeline.whole", "Timeline", "Show the whole trace", ["Shift+KeyF"], whole),
    command(
      "timeline.mark",
      "Timeline",
      "Mark the selection, the slice or the time at the pointer",
      ["KeyM"],
      () => mark(false),
    ),
    command(
      "timeline.keep",
      "Timeline",
      "Mark permanently, also in the address",
      ["Shift+KeyM"],
      () => mark(true),
    ),
    command("timeline.unmark", "Timeline", "Remove all marks", [], () => {
      model.passingMark.value = null;
      store.pageMarks.value = [];
    }),
    command(
      "timeline.next",
      "Timeline",
      "Next event of the lane",
      ["Period"],
      () => void stepEvent(1),
      { repeats: true },
    ),
    command(
      "timeline.previous",
      "Timeline",
      "Previous event of the lane",
      ["Comma"],
      () => void stepEvent(-1),
      { repeats: true },
    ),
    command(
      "chain.back",
      "Wait chain",
      "Back, towards the cause: previous link, or the waker",
      ["BracketLeft"],
      () => void walk(-1),
      { repeats: true },
    ),
    command(
      "chain.on",
      "Wait chain",
      "Forward: next link, or back to the woken thread",
      ["BracketRight"],
      () => void walk(1),
      { repeats: true },
    ),
    ...underPointer(),
    ...habits(),
    command(
      "timeline.legend",
      "Timeline",
      "Show or hide the legend",
      ["KeyL"],
      () => (model.legend.value = !model.legend.value),
    ),
  );
  return () => {
    held = STILL;
    stop();
  };
}
