/**
 * The timeline: lanes of CPUs and threads, with the answer's wait chain on top. Fills its
 * parent.
 */
import { effect, untracked } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { status } from "../api/data";
import { register } from "../commands";
import { download } from "../copy";
import { readTheme } from "../draw/theme";
import * as store from "../state/store";
import { theme } from "../state/theme";
import { start } from "./data/fetch";
import { pending } from "./data/fetcher";
import * as model from "./data/model";
import { keepPlace } from "./data/place";
import { Painter } from "./draw/painter";
import { showLane } from "./input/actions";
import { registerKeys } from "./input/keys";
import { Pointer } from "./input/pointer";
import { registerTracks } from "./input/tracks";
import { LaneTree } from "./LaneTree";
import { Legend } from "./Legend";
import { Swept } from "./Swept";
import { Tooltip } from "./Tooltip";
import "./timeline.css";

/**
 * The event of a drawn frame, for the script that measures drawing; its detail is the time in ms.
 */
export const DRAWN = "timeline-drawn";

function mount(
  root: HTMLElement,
  scroller: HTMLElement,
  room: HTMLElement,
  base: HTMLCanvasElement,
  over: HTMLCanvasElement,
): () => void {
  const painter = new Painter(base, over, (ms) => {
    settle();
    if (ms > 0) root.dispatchEvent(new CustomEvent<number>(DRAWN, { detail: ms }));
  });
  // Tests and scripts wait for this attribute rather than for a time.
  const settle = () => {
    const complete = untracked(model.isComplete) || status.peek().data?.stage === "failed";
    const ready = pending.peek() === 0 && !painter.waiting && complete;
    root.dataset.ready = String(ready);
  };
  const measure = () => {
    model.size.value = { width: scroller.clientWidth, height: scroller.clientHeight };
  };
  const observer = new ResizeObserver(measure);
  observer.observe(scroller);
  measure();
  const pointer = new Pointer(over);
  const onScroll = () => {
    model.scroll.value = scroller.scrollTop;
  };
  scroller.addEventListener("scroll", onScroll, { passive: true });
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !model.tooltip.peek()?.pinned) return;
    model.tooltip.value = null;
    event.preventDefault();
  };
  addEventListener("keydown", onKey, { capture: true });
  const ends = [
    start(),
    registerKeys(),
    registerTracks(),
    register({
      id: "timeline.png",
      group: "Copy",
      title: "Save the timeline as PNG",
      when: () => store.trace.value !== null,
      run: () => void painter.png().then((blob) => blob && download("timeline.png", blob)),
    }),
    effect(() => {
      void theme.value;
      // Another effect of the same change sets the attribute that the variables depend on.
      queueMicrotask(() => {
        const style = getComputedStyle(document.documentElement);
        model.theme.value = readTheme((variable) => style.getPropertyValue(variable));
      });
    }),
    effect(() => {
      // First, as nothing can be scrolled to beyond it.
      room.style.height = `${model.canvasGeometry.value.head + model.rowLayout.value.height}px`;
      const wanted = model.scroll.value;
      if (Math.abs(scroller.scrollTop - wanted) >= 1) scroller.scrollTop = wanted;
    }),
    keepPlace(),
    effect(() => {
      const wanted = store.reveal.value;
      // A timeline that was not shown yet has neither lanes nor room for them.
      const isReady = model.lanes.value !== model.NO_LANES && model.size.value.height > 0;
      if (wanted === null || !isReady) return;
      untracked(() => showLane(wanted.lane));
      // Once: a timeline that is mounted again stays where the user scrolled to.
      store.reveal.value = null;
    }),
    effect(() => {
      painter.show(model.scene.value);
      const window = store.window.value;
      root.dataset.from = String(Math.round(window.from));
      root.dataset.to = String(Math.round(window.to));
      root.dataset.scroll = String(Math.round(model.scroll.value));
      root.dataset.labels = String(model.canvasGeometry.value.labels);
      root.dataset.head = String(model.canvasGeometry.value.head);
      settle();
    }),
    effect(() => {
      painter.point(model.scene.value, model.pointing.value);
      settle();
    }),
    effect(() => {
      void [pending.value, model.problem.value, status.value];
      settle();
    }),
  ];
  return () => {
    for (const end of ends) end();
    observer.disconnect();
    pointer.stop();
    painter.stop();
    scroller.removeEventListener("scroll", onScroll);
    removeEventListener("keydown", onKey, { capture: true });
  };
}

function Waiting() {
  const problem = model.problem.value;
  if (problem !== "") return <p class="tl-problem">The timeline cannot be drawn: {problem}</p>;
  if (store.trace.value === null) return null;
  if (model.lanes.value !== model.NO_LANES)
    return model.rowLayout.value.rows.some((r) => r.kind === "lane" || r.lanes > 0) ? null : (
      <p class="tl-problem">
        Nothing to draw: this recording has neither context switches nor samples of any thread.
      </p>
    );
  const { data, error } = status.value;
  if (error || data?.error) return null;
  return (
    <p class="tl-problem">
      {data && data.stage !== "unopened"
        ? `Reading the trace: ${Math.round(data.progress * 100)} %`
        : "Opening the trace …"}
    </p>
  );
}

export function Timeline() {
  const root = useRef<HTMLDivElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const room = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const over = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const [a, b, c] = [root.current, scroller.current, room.current];
    const [d, e] = [base.current, over.current];
    return a && b && c && d && e ? mount(a, b, c, d, e) : undefined;
  }, []);
  return (
    <div class="timeline tl" ref={root} data-ready="false">
      <div class="tl-scroll" ref={scroller}>
        <div class="tl-room" ref={room}>
          <div class="tl-stack">
            <LaneTree />
            <canvas class="tl-base" ref={base} aria-hidden="true" />
            <canvas class="tl-over" ref={over} aria-hidden="true" />
          </div>
        </div>
      </div>
      <Waiting />
      <Legend />
      <Swept />
      <Tooltip />
    </div>
  );
}
