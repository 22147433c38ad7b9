/**
 * A differential flame graph, as an icicle: width is the time of one side, colour the difference.
 * What vanished has no width in the graph of "after", so the direction can be switched.
 */
import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { FlameDiffAnswer } from "../api/diff";
import { type MenuItem, menuOf } from "../parts/MenuHost";
import { durationText, percent, signed } from "../units";
import { type Difference, layDiff, type Side, scales, strength } from "./diffModel";
import { type Box, path, step, zoomTo } from "./tree";
import "./diffTree.css";

const ROW = 20;
/** Frames narrower than this share of the width are not drawn. */
const MIN_SHARE = 0.0015;
/** The colour of a frame that only one side has; less difference is paler. */
const MAX_TINT = 0.45;

/** What both sides are called, and what only one of them has. */
export interface Sides extends Readonly<Record<Side, string>> {
  readonly onlyBefore: string;
  readonly onlyAfter: string;
}

interface DiffTreeProps {
  answer: FlameDiffAnswer;
  sides: Sides;
  /** The side whose times are the widths. */
  widths: Side;
  /** Whether times are those per second of each side. */
  perSecond?: boolean;
  /** The menu of a function. */
  menu?: (name: string) => MenuItem[];
}

export function DiffTree({ answer, sides, widths, perSecond = false, menu }: DiffTreeProps) {
  const root = useSignal(0);
  const focus = useSignal(0);
  const { tree, values } = useMemo(() => {
    root.value = 0;
    focus.value = 0;
    return layDiff(answer, widths, scales(answer, perSecond));
  }, [answer, widths, perSecond]);
  if (tree.total === 0) return <p class="empty">There are no such stacks {sides[widths]}.</p>;
  const zoom = zoomTo(tree, root.value);
  const above = new Set(path(tree, root.value).map((box) => box.index));
  const shown = tree.boxes.filter((box) => {
    const inside = box.left >= zoom.left - 1e-9 && box.left < zoom.left + zoom.width - 1e-9;
    return above.has(box.index) || (inside && box.width / zoom.width >= MIN_SHARE);
  });
  const depth = Math.max(...shown.map((box) => box.depth)) + 1;
  const go = (to: number, target: HTMLElement) => {
    const box = target.parentElement?.querySelector<HTMLElement>(`[data-box='${to}']`);
    // What the zoom leaves out, or is too narrow, is not drawn.
    if (!box) return;
    focus.value = to;
    box.focus();
  };
  const onKey = (event: KeyboardEvent & { currentTarget: HTMLElement }, box: Box) => {
    const moves = {
      ArrowUp: "caller",
      ArrowDown: "callee",
      ArrowLeft: "left",
      ArrowRight: "right",
    } as const;
    const to = moves[event.key as keyof typeof moves];
    if (to) go(step(tree, box.index, to), event.currentTarget);
    else if (event.key === "Enter" || event.key === " ") root.value = box.index;
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="diff-tree"
      role="tree"
      aria-label={`Stacks by their time ${sides[widths]}`}
      style={{ height: `${depth * ROW}px` }}
    >
      {shown.map((box) => {
        const value = values[box.index] ?? { before: 0, after: 0 };
        const text = boxText(box, value, sides, perSecond ? " per second" : "");
        const { name, others } = box.frame;
        return (
          <div
            key={box.index}
            role="treeitem"
            aria-level={box.depth + 1}
            aria-label={text}
            title={text}
            data-box={box.index}
            data-frame={name}
            tabIndex={focus.value === box.index ? 0 : -1}
            class="diff-box"
            style={place(box, zoom, above.has(box.index), strength(value))}
            onClick={() => {
              focus.value = box.index;
              root.value = box.index === root.value ? Math.max(0, box.parent) : box.index;
            }}
            onContextMenu={
              menu && box.parent >= 0 && !others ? menuOf(name, () => menu(name)) : undefined
            }
            onKeyDown={(event) => onKey(event, box)}
          >
            {sign(value)}
            {name}
          </div>
        );
      })}
    </div>
  );
}

function place(box: Box, zoom: { left: number; width: number }, fills: boolean, by: number) {
  const left = fills ? 0 : (box.left - zoom.left) / zoom.width;
  const width = fills ? 1 : box.width / zoom.width;
  const colour = by > 0 ? "var(--bad)" : "var(--blue)";
  return {
    left: `${left * 100}%`,
    width: `calc(${width * 100}% - 1px)`,
    top: `${box.depth * ROW}px`,
    height: `${ROW - 1}px`,
    background: `color-mix(in srgb, ${colour} ${Math.abs(by) * MAX_TINT * 100}%, var(--raised))`,
  };
}

/** Colour is not the only cue. */
function sign({ before, after }: Difference): string {
  const by = strength({ before, after });
  return by > 0.01 ? "▲ " : by < -0.01 ? "▼ " : "";
}

function boxText(box: Box, { before, after }: Difference, sides: Sides, unit: string): string {
  const change =
    before === 0
      ? sides.onlyAfter
      : after === 0
        ? sides.onlyBefore
        : `${signed(after - before)} (${percent(Math.abs(after - before), before)})`;
  const times = `${durationText(before)} ${sides.before}, ${durationText(after)} ${sides.after}${unit}`;
  return `${box.frame.name}: ${times}, ${change}`;
}
