/** The overview: the whole recording in one picture, CPU use by process below, stalls above. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { cpuUse, curve, matchesSelection, stalls } from "../api/data";
import type { Curve, Series, StallEntry } from "../api/types";
import { whoText } from "../api/who";
import { draggedRange, type RangeDrag, rangeDrag } from "../parts/rangeDrag";
import { useSize } from "../parts/useSize";
import * as store from "../state/store";
import { areas, COLOURS, layersOf, partOf } from "../table/seriesModel";
import { OUTSIDE_DIM } from "../timeline/draw/overlay";
import { durationText, type Ns, plural, type Range, timeText } from "../units";
import { area, type Bar, pack } from "./bars";

const HEIGHT = 66;
/** Without the colour of locks, which is that of stalls. */
const PROCESSES = COLOURS.filter((colour) => colour !== "var(--lock)");
const ROWS = 3;
const ROW = 13;
/** Maximum bars drawn, the worst stalls first: more would hide each other. */
const MAX_STALLS = 500;

export function Overview() {
  const ref = useRef<HTMLDivElement>(null);
  const { width } = useSize(ref).value;
  const drag = useSignal<RangeDrag | null>(null);
  const busy = curve.value.data;
  const list = stalls.value.data?.stalls ?? [];
  const chosen = draggedRange(drag.value);
  return (
    <div
      ref={ref}
      class="overview"
      data-ready={width > 0 && busy !== null && stalls.value.data !== null}
      {...rangeDrag(drag, store.extent.value, width, store.zoomTo, isFree)}
      onDblClick={() => store.zoomTo(null)}
    >
      {width > 0 && (
        <svg
          width={width}
          height={HEIGHT}
          viewBox={`0 0 ${width} ${HEIGHT}`}
          role="img"
          aria-label={pictureText(list.length, busy?.cpus ?? 1)}
          id="overview-picture"
        >
          <Background busy={busy} use={cpuUse.value.data} chosen={chosen} width={width} />
          {pack(list.slice(0, MAX_STALLS), store.extent.value, width, ROWS).map((bar) => (
            <StallBar key={bar.stall.id} bar={bar} />
          ))}
          <Footer cpus={busy?.cpus ?? 1} width={width} />
        </svg>
      )}
      <Processes use={cpuUse.value.data} />
    </div>
  );
}

/** A click on a stall opens it. */
const isFree = (target: Element): boolean => target.closest("[data-stall]") === null;

/** Maps times of the trace to the width of the picture. */
function timeScale(width: number): (at: Ns) => number {
  const { from, to } = store.extent.value;
  return (at) => ((at - from) / (to - from)) * width;
}

/** The processes that used the CPUs most, in the colours of the picture. */
function Processes({ use }: { use: Series | null }) {
  if (use === null || use.groups.length === 0) return null;
  return (
    <ul class="overview-names" aria-label="CPU time by process">
      {use.groups.map(({ key, cell, total }, i) => (
        <li key={key}>
          <span class="series-colour" style={{ background: PROCESSES[i % PROCESSES.length] }} />
          {String(cell ?? "(none)")} <span class="dim">{durationText(total)}</span>
        </li>
      ))}
    </ul>
  );
}

/** CPU use by process, as high as the curve of busy CPUs. */
function CpuUse({ use, cpus, width }: { use: Series; cpus: number; width: number }) {
  const layers = layersOf(use, PROCESSES);
  return (
    <g transform={`scale(${width / Math.max(1, use.px)} 1)`} class="overview-use">
      {areas(layers, cpus * partOf(use), HEIGHT).map((path, i) => (
        <path key={i} d={path} fill={layers[i]?.colour ?? ""} fill-opacity="0.5" />
      ))}
    </g>
  );
}

interface BackgroundProps {
  busy: Curve | null;
  use: Series | null;
  chosen: Range | null;
  width: number;
}

function Background({ busy, use, chosen, width }: BackgroundProps) {
  const x = timeScale(width);
  return (
    <>
      <defs>
        <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse">
          <path
            d="M-1 1L1 -1M0 6L6 0M5 7L7 5"
            stroke="var(--bg)"
            stroke-opacity="0.5"
            stroke-width="1.5"
          />
        </pattern>
      </defs>
      <rect width={width} height={HEIGHT} fill="var(--panel)" />
      {busy && use !== null && use.groups.length > 0 ? (
        <CpuUse use={use} cpus={busy.cpus} width={width} />
      ) : (
        busy && (
          <path
            d={area(busy.busy, busy.cpus, width, HEIGHT)}
            fill="var(--ran)"
            fill-opacity="0.38"
          />
        )
      )}
      {chosen && <Outside left={x(chosen.from)} right={x(chosen.to)} width={width} />}
    </>
  );
}

/**
 * Dims what is outside the selected range, as on the timeline. *Why not tint the inside:* what is
 * selected keeps the colours of the legend.
 */
function Outside({ left, right, width }: { left: number; right: number; width: number }) {
  const parts = [
    [0, left],
    [right, width],
  ] as const;
  return (
    <g class="overview-outside">
      {parts.map(([from, to]) => (
        <rect
          key={from}
          x={from}
          width={Math.max(0, to - from)}
          height={HEIGHT}
          fill="var(--panel)"
          fill-opacity={OUTSIDE_DIM}
        />
      ))}
      {[left, right].map((edge) => (
        <rect key={edge} x={edge - 0.5} width="1" height={HEIGHT} fill="var(--accent)" />
      ))}
    </g>
  );
}

function StallBar({ bar }: { bar: Bar }) {
  const { stall, x, width, row } = bar;
  const open = store.stall.value === stall.id;
  const selected = matchesSelection(stall, store.selection.value);
  const box = { x, y: 4 + row * (ROW + 2), width, height: ROW, rx: "2" };
  return (
    <g
      data-stall={stall.id}
      opacity={selected || open ? 1 : 0.45}
      cursor="pointer"
      onClick={() => store.openStall(stall.id, stall)}
    >
      <title>{barText(stall)}</title>
      <rect
        {...box}
        fill="var(--bad)"
        fill-opacity={0.35 + 0.65 * stall.severity}
        stroke={open ? "var(--text)" : "none"}
        stroke-width="1.5"
      />
      {stall.kind === "machine" && <rect {...box} fill="url(#hatch)" pointer-events="none" />}
      {width > 46 && (
        <text
          x={x + 5}
          y={box.y + 10}
          font-size="10.5"
          font-weight="600"
          fill="var(--text)"
          stroke="var(--panel)"
          stroke-width="3"
          paint-order="stroke"
          pointer-events="none"
        >
          {label(stall.id, stall.duration_ns, stall.victims, width)}
        </text>
      )}
    </g>
  );
}

/** The trace's length, and the timeline's window as a line at the bottom. */
function Footer({ cpus, width }: { cpus: number; width: number }) {
  const x = timeScale(width);
  const { from, to } = store.extent.value;
  const shown = store.window.value;
  return (
    <>
      <text
        x={width - 6}
        y={HEIGHT - 5}
        font-size="10.5"
        text-anchor="end"
        fill="var(--dim)"
        pointer-events="none"
      >
        {plural(cpus, "CPU")} · {durationText(to - from)}
      </text>
      <rect
        x={x(shown.from)}
        y={HEIGHT - 3}
        width={Math.max(2, x(shown.to) - x(shown.from))}
        height="3"
        fill="var(--accent)"
      />
    </>
  );
}

function label(id: number, length: number, victims: number, width: number): string {
  const short = `#${id} ${durationText(length)}`;
  return victims > 1 && width > 150 ? `${short} · ${plural(victims, "victim")}` : short;
}

function barText(stall: StallEntry): string {
  const others = stall.victims > 1 ? ` and ${stall.victims - 1} more` : "";
  const victim = stall.victim ? whoText(stall.victim) + others : "the whole machine";
  const time = `${durationText(stall.duration_ns)} from ${timeText(stall.from)}`;
  return `#${stall.id}: ${time}\n${victim}\n${stall.cause}`;
}

function pictureText(count: number, cpus: number): string {
  return (
    `The whole recording: ${plural(count, "stall")} above the busy CPUs, out of ${cpus}. ` +
    "The list of stalls has the same information as text."
  );
}
