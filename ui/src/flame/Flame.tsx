/**
 * The flame graph or icicle of the selection's stacks. Fills its parent; has no toolbar of its own.
 */
import { effect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { register } from "../commands";
import { copy, download, svgToPng } from "../copy";
import { fitCanvas } from "../draw/canvas";
import { css } from "../draw/colour";
import { type Measure, memoise } from "../draw/text";
import { readTheme } from "../draw/theme";
import { placeTooltip } from "../draw/tooltip";
import { leftOutText } from "../leftOut";
import * as store from "../state/store";
import { theme } from "../state/theme";
import { percent } from "../units";
import { drawFlame, type FlameScene, treeHeight, treeTop } from "./draw";
import { FrameTree, onKey } from "./FrameTree";
import { openFrameMenu } from "./frameMenu";
import { frameLines } from "./frameText";
import * as model from "./model";
import { svg } from "./svg";
import { boxAt, rowTop } from "./tree";
import "./flame.css";

export const ROW = 18;
const NOWHERE = { left: 0, top: 0 };

const cached: { measure: Measure | null; font: string } = { measure: null, font: "" };

/** Measures text in the page's font; shared with the exported picture. */
function measureFor(ctx: CanvasRenderingContext2D, font: string): Measure {
  ctx.font = `11px ${font}`;
  if (!cached.measure || cached.font !== font) {
    const own = document.createElement("canvas").getContext("2d") ?? ctx;
    own.font = `11px ${font}`;
    cached.measure = memoise((text) => own.measureText(text).width);
    cached.font = font;
  }
  return cached.measure;
}

const growsUp = (): boolean => store.stacks.value.form !== "icicle";

function scene(): FlameScene {
  const style = getComputedStyle(document.documentElement);
  const colours = readTheme((variable) => style.getPropertyValue(variable));
  const found = model.found.value;
  return {
    tree: model.tree.value,
    zoom: model.zoom.value,
    ...model.size.value,
    scroll: model.scroll.value,
    rowHeight: ROW,
    up: growsUp(),
    dark: colours.dark,
    found: found.boxes,
    searching: store.search.value !== "" && found.error === null,
    focus: model.focus.value,
    hovered: model.hovered.value,
    font: colours.font,
    ground: css(colours.ground),
    text: colours.text,
    accent: colours.accent,
  };
}

const describe = (index: number): string[] => {
  const data = model.query.state.peek().data;
  return frameLines(model.tree.peek(), index, data?.of ?? "wait", data?.unit ?? "ns");
};

/** The graph as SVG, as wide as on the screen. */
function picture(): { text: string; width: number; height: number } | null {
  const ctx = document.createElement("canvas").getContext("2d");
  const now = scene();
  if (!ctx || now.tree.boxes.length === 0) return null;
  const { of, form, root } = store.stacks.peek();
  const graph = form === "icicle" ? "Icicle" : "Flame graph";
  const below = root.length > 0 ? ` below ${root.at(-1) ?? ""}` : "";
  const title = `${graph} of ${of}s${below}: ${store.trace.peek() ?? ""}`;
  const text = svg(
    now.tree,
    now.zoom,
    {
      title,
      width: now.width,
      rowHeight: ROW,
      up: now.up,
      dark: now.dark,
      found: now.searching ? now.found : new Set(),
    },
    measureFor(ctx, now.font),
    (index) => describe(index).join("\n"),
  );
  return { text, width: now.width, height: now.tree.depth * ROW + 28 };
}

async function savePng(): Promise<void> {
  const made = picture();
  if (!made) return;
  download(`${store.stacks.peek().of}s.png`, await svgToPng(made.text, made.width, made.height));
}

function commands(): () => void {
  const when = () => store.view.value === "stacks" && model.tree.value.boxes.length > 0;
  return register(
    {
      id: "flame.svg-copy",
      group: "Copy",
      title: "Copy the flame graph as SVG",
      when,
      run: () => void copy(picture()?.text ?? "", "the flame graph as SVG"),
    },
    {
      id: "flame.svg-save",
      group: "Copy",
      title: "Save the flame graph as SVG",
      when,
      run: () => {
        const made = picture();
        if (made)
          download(
            `${store.stacks.peek().of}s.svg`,
            new Blob([made.text], { type: "image/svg+xml" }),
          );
      },
    },
    {
      id: "flame.png-save",
      group: "Copy",
      title: "Save the flame graph as PNG",
      when,
      run: () => void savePng(),
    },
    {
      id: "flame.all",
      group: "Stacks",
      title: "Show all stacks again",
      when,
      run: () => model.makeRoot(0),
    },
  );
}

function mount(
  root: HTMLElement,
  scroller: HTMLElement,
  room: HTMLElement,
  canvas: HTMLCanvasElement,
): () => void {
  let frame = 0;
  const settle = () => {
    root.dataset.ready = String(
      frame === 0 &&
        !model.query.state.peek().loading &&
        (model.query.state.peek().data !== null || model.query.state.peek().error !== null),
    );
  };
  const draw = () => {
    frame = 0;
    const now = scene();
    const ctx = fitCanvas(canvas, now.width, now.height, devicePixelRatio);
    if (ctx && now.width > 0) drawFlame(ctx, now, measureFor(ctx, now.font));
    settle();
  };
  const observer = new ResizeObserver(() => {
    model.size.value = { width: scroller.clientWidth, height: scroller.clientHeight };
  });
  observer.observe(scroller);
  model.size.value = { width: scroller.clientWidth, height: scroller.clientHeight };
  const onScroll = () => {
    model.scroll.value = scroller.scrollTop;
  };
  scroller.addEventListener("scroll", onScroll, { passive: true });
  const ends = [
    commands(),
    effect(() => model.syncRoot()),
    effect(() => {
      // In a new tree, the old indices mean nothing.
      void model.tree.value;
      model.hovered.value = -1;
      model.focus.value = -1;
    }),
    effect(() => {
      const height = treeHeight(model.tree.value, ROW, model.size.value.height, growsUp());
      room.style.height = `${height}px`;
      // A flame graph starts at the bottom.
      if (growsUp()) scroller.scrollTop = height;
    }),
    effect(() => {
      void [
        model.tree.value,
        model.zoom.value,
        model.size.value,
        model.scroll.value,
        model.found.value,
        model.focus.value,
        model.hovered.value,
      ];
      void [theme.value, store.stacks.value, store.search.value, model.query.state.value];
      if (frame === 0) frame = requestAnimationFrame(draw);
      settle();
    }),
    effect(() => {
      const box = model.tree.value.boxes[model.focus.value];
      if (!box) return;
      const { height } = model.size.peek();
      const top =
        treeTop(model.tree.peek(), ROW, height, growsUp()) +
        rowTop(box.depth, model.tree.peek(), ROW, growsUp());
      if (top < scroller.scrollTop) scroller.scrollTop = top;
      else if (top + ROW > scroller.scrollTop + height) scroller.scrollTop = top + ROW - height;
    }),
  ];
  return () => {
    for (const end of ends) end();
    cancelAnimationFrame(frame);
    observer.disconnect();
    scroller.removeEventListener("scroll", onScroll);
  };
}

function Tip({ at }: { at: { x: number; y: number } | null }) {
  const box = useRef<HTMLDivElement>(null);
  const index = model.hovered.value;
  useLayoutEffect(() => {
    if (!at || !box.current) return;
    const { left, top } = placeTooltip(
      at.x,
      at.y,
      box.current.offsetWidth,
      box.current.offsetHeight,
      model.size.peek(),
    );
    box.current.style.left = `${left}px`;
    box.current.style.top = `${top}px`;
  }, [at, index]);
  if (!at || index < 0) return null;
  const [title, ...rest] = describe(index);
  return (
    <div class="fl-tip" role="tooltip" ref={box}>
      <p class="fl-tip-title">{title}</p>
      {rest.map((line) => (
        <p key={line}>{line}</p>
      ))}
    </div>
  );
}

/** Shown in place of an empty graph. */
function Empty() {
  const { data, error, loading } = model.query.state.value;
  if (error)
    return <p class="fl-empty">{error.hint ? `${error.message}. ${error.hint}` : error.message}</p>;
  if (data && model.tree.value.total === 0)
    return (
      <p class="fl-empty">
        The selection has no {store.stacks.value.of}s with stacks.{leftOutText()}
      </p>
    );
  if (!data && loading) return <p class="fl-empty">Adding up the stacks…</p>;
  return null;
}

function FoundSummary() {
  const found = model.found.value;
  if (store.search.value === "" || model.tree.value.boxes.length === 0) return null;
  return (
    <p class="fl-found" role="status">
      {found.error
        ? `Not a regular expression: ${found.error}`
        : `${found.boxes.size} found, in ${percent(found.share, 1)} of the total`}
    </p>
  );
}

export function Flame() {
  const root = useRef<HTMLDivElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const room = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [at, setAt] = useState<{ x: number; y: number } | null>(null);
  useEffect(() => {
    const [a, b, c, d] = [root.current, scroller.current, room.current, canvas.current];
    return a && b && c && d ? mount(a, b, c, d) : undefined;
  }, []);
  const under = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    const [x, y] = [event.clientX - (box?.left ?? 0), event.clientY - (box?.top ?? 0)];
    const { width, height } = model.size.peek();
    const top = treeTop(model.tree.peek(), ROW, height, growsUp()) - model.scroll.peek();
    return {
      x,
      y,
      index: boxAt(model.tree.peek(), model.zoom.peek(), width, ROW, growsUp(), x, y - top),
    };
  };
  return (
    <div class="flame fl" ref={root} data-ready="false">
      <div class="fl-scroll" ref={scroller}>
        <div class="fl-room" ref={room}>
          <div class="fl-stack">
            <FrameTree
              onKeyDown={(event) =>
                onKey(event, growsUp(), (index) => {
                  const { left, top } = scroller.current?.getBoundingClientRect() ?? NOWHERE;
                  const { width, height } = model.size.peek();
                  openFrameMenu(index, { x: left + width / 3, y: top + height / 3 });
                })
              }
            />
            <canvas
              ref={canvas}
              aria-hidden="true"
              onPointerMove={(event) => {
                const found = under(event);
                model.hovered.value = found.index;
                setAt({ x: found.x, y: found.y });
              }}
              onPointerLeave={() => {
                model.hovered.value = -1;
                setAt(null);
              }}
              onClick={(event) => {
                const { index } = under(event);
                if (index < 0) return;
                // Clicking the frame that already fills the width goes back to its caller.
                const root = model.rootBox.peek().index;
                model.makeRoot(
                  index === root ? Math.max(0, model.tree.peek().boxes[root]?.parent ?? 0) : index,
                );
              }}
              onDblClick={(event) => model.butterfly(under(event).index)}
              onContextMenu={(event) => {
                const found = under(event);
                if (found.index < 0) return;
                event.preventDefault();
                setAt(null);
                openFrameMenu(found.index, { x: event.clientX, y: event.clientY });
              }}
            />
          </div>
        </div>
      </div>
      <Empty />
      <FoundSummary />
      <Tip at={at} />
    </div>
  );
}
