/**
 * A differential flame graph, as an icicle: width is the time of one side, colour the difference.
 * What vanished has no width in the graph of "after", so the direction can be switched.
 */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { getJson } from "../api/client";
import type { DiffAnswer, FlameDiffAnswer } from "../api/diff";
import { stacksParams } from "../api/params";
import { liveQuery } from "../api/query";
import type { StallAnswer } from "../api/types";
import { type Box, path, step, zoomTo } from "../flame/tree";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import * as store from "../state/store";
import { durationText, percent, threadIx } from "../units";
import { type Difference, layDiff, scales, strength } from "./flameModel";
import { signed } from "./words";

const ROW = 20;
/** Frames narrower than this share of the width are not drawn. */
const MIN_SHARE = 0.0015;
/** The colour of a frame that is entirely new or gone; less difference is paler. */
const MAX_TINT = 0.45;

const KINDS: Readonly<Record<store.StackKind, string>> = {
  wait: "Waits",
  wake: "Wakes",
  sample: "Samples",
};

/** The idle thread, which has no stacks of its own. */
const NOBODY = threadIx(0);

/** A side's part of the request: the victim's time in its stall, or the whole recording. */
function sideParams(side: "before" | "after", answer: StallAnswer | null) {
  if (store.diff.value?.within !== "stall") return {};
  // Where the thread did not wait, nothing is compared, rather than everything.
  if (answer === null) return { [`${side}_thread`]: NOBODY };
  return {
    [`${side}_from`]: answer.from,
    [`${side}_to`]: answer.to,
    [`${side}_thread`]: answer.victim === null ? null : threadIx(answer.victim.thread),
  };
}

export function DiffFlame({ answer }: { answer: DiffAnswer }) {
  const query = useMemo(
    () =>
      liveQuery<FlameDiffAnswer>(() => {
        const diff = store.diff.value;
        if (diff === null) return null;
        const params = {
          before: diff.before,
          after: diff.after,
          of: diff.of,
          where: stacksParams(store.NO_SELECTION, diff.of, false, null).where,
          ...sideParams("before", answer.before),
          ...sideParams("after", answer.after),
        };
        return {
          key: JSON.stringify(params),
          subject: `${diff.before} ${diff.after}`,
          fetch: (signal) => getJson("/api/diff/flame", params, signal),
        };
      }),
    [answer],
  );
  useEffect(() => query.stop, [query]);
  const { data, error, loading } = query.state.value;
  return (
    <section class="diff-flame" aria-label="Flame graph of both" data-ready={!loading}>
      <h2 class="section-title">Where the time went, as a flame graph</h2>
      <Choices />
      {error && <ErrorMessage error={error} retry={query.refetch} />}
      {!data && !error && <Busy what="Adding up the stacks of both …" />}
      {data && <Graph answer={data} />}
    </section>
  );
}

function Choices() {
  const diff = store.diff.value;
  if (diff === null) return null;
  const set = (change: Partial<store.DiffState>) => (store.diff.value = { ...diff, ...change });
  const choice = (title: string, on: boolean, change: Partial<store.DiffState>) => (
    <button type="button" class="btn small" aria-pressed={on} onClick={() => set(change)}>
      {title}
    </button>
  );
  return (
    <p class="diff-choices">
      <span role="group" aria-label="Stacks">
        {store.STACK_KINDS.map((kind) => choice(KINDS[kind], diff.of === kind, { of: kind }))}
      </span>
      <span role="group" aria-label="Direction">
        {choice("Widths of before", diff.widths === "before", { widths: "before" })}
        {choice("Widths of after", diff.widths === "after", { widths: "after" })}
      </span>
      <span role="group" aria-label="Time">
        {choice("The victim's stall", diff.within === "stall", { within: "stall" })}
        {choice("Whole recordings", diff.within === "all", { within: "all" })}
      </span>
    </p>
  );
}

function Graph({ answer }: { answer: FlameDiffAnswer }) {
  const diff = store.diff.value;
  const root = useSignal(0);
  const focus = useSignal(0);
  const perSecond = diff?.within === "all";
  const side = diff?.widths ?? "after";
  const { tree, values } = useMemo(() => {
    root.value = 0;
    focus.value = 0;
    return layDiff(answer, side, scales(answer, perSecond));
  }, [answer, side, perSecond]);
  if (tree.total === 0) return <p class="empty">There are no such stacks {side}.</p>;
  const zoom = zoomTo(tree, root.value);
  const above = new Set(path(tree, root.value).map((box) => box.index));
  const shown = tree.boxes.filter((box) => {
    const inside = box.left >= zoom.left - 1e-9 && box.left < zoom.left + zoom.width - 1e-9;
    return above.has(box.index) || (inside && box.width / zoom.width >= MIN_SHARE);
  });
  const depth = Math.max(...shown.map((box) => box.depth)) + 1;
  const go = (to: number, target: HTMLElement) => {
    focus.value = to;
    target.parentElement?.querySelector<HTMLElement>(`[data-box='${to}']`)?.focus();
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
      aria-label={`Stacks by their time ${side}`}
      style={{ height: `${depth * ROW}px` }}
    >
      {shown.map((box) => {
        const value = values[box.index] ?? { before: 0, after: 0 };
        const text = boxText(box, value, perSecond);
        return (
          <div
            key={box.index}
            role="treeitem"
            aria-level={box.depth + 1}
            aria-label={text}
            title={text}
            data-box={box.index}
            data-frame={box.frame.name}
            tabIndex={focus.value === box.index ? 0 : -1}
            class="diff-box"
            style={place(box, zoom, above.has(box.index), strength(value))}
            onClick={() => {
              focus.value = box.index;
              root.value = box.index === root.value ? Math.max(0, box.parent) : box.index;
            }}
            onKeyDown={(event) => onKey(event, box)}
          >
            {sign(value)}
            {box.frame.name}
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

function boxText(box: Box, { before, after }: Difference, perSecond: boolean): string {
  const unit = perSecond ? " per second" : "";
  const change =
    before === 0
      ? "new"
      : after === 0
        ? "gone"
        : `${signed(after - before)} (${percent(Math.abs(after - before), before)})`;
  const times = `${durationText(before)} before, ${durationText(after)} after${unit}`;
  return `${box.frame.name}: ${times}, ${change}`;
}
