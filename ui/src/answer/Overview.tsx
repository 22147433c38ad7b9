/** The whole recording as one picture: busy CPUs below, stalls above; when, how long, how bad, how many victims. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { curve, matchesSelection, stalls } from "../api/data";
import { whoText } from "../api/who";
import { useSize } from "../parts/useSize";
import * as store from "../state/store";
import { durationText, type Ns, ns, plural, range, timeText } from "../units";
import { area, pack } from "./bars";

const HEIGHT = 66;
const ROWS = 3;
const ROW = 13;
/** The worst; more would only hide each other. */
const MAX_STALLS = 500;

export function Overview() {
  const ref = useRef<HTMLDivElement>(null);
  const size = useSize(ref);
  const drag = useSignal<{ from: Ns; to: Ns } | null>(null);
  const { width } = size.value;
  const extent = store.extent.value;
  const busy = curve.value.data;
  const list = stalls.value.data?.stalls ?? [];
  const length = extent.to - extent.from;
  const x = (at: Ns) => ((at - extent.from) / length) * width;
  const at = (event: PointerEvent): Ns => {
    const left = ref.current?.getBoundingClientRect().left ?? 0;
    return ns(
      extent.from +
        (Math.max(0, Math.min(width, event.clientX - left)) / Math.max(1, width)) * length,
    );
  };
  const shown = store.window.value;
  const chosen = drag.value ? range(drag.value.from, drag.value.to) : store.selection.value.range;
  const top = busy?.cpus ?? 1;

  const finish = () => {
    const dragged = drag.value;
    drag.value = null;
    if (!dragged) return;
    const picked = range(dragged.from, dragged.to);
    if (((picked.to - picked.from) / length) * width < 4) return;
    store.select({ range: picked });
    store.showAround(picked, 0.02);
  };

  return (
    <div
      ref={ref}
      class="overview"
      data-ready={width > 0 && busy !== null && stalls.value.data !== null}
      onPointerDown={(event) => {
        if (event.button !== 0 || (event.target as Element).closest("[data-stall]")) return;
        ref.current?.setPointerCapture(event.pointerId);
        drag.value = { from: at(event), to: at(event) };
      }}
      onPointerMove={(event) => drag.value && (drag.value = { ...drag.value, to: at(event) })}
      onPointerUp={finish}
      onPointerCancel={() => (drag.value = null)}
      onDblClick={() => {
        store.select({ range: null });
        store.show(null);
      }}
    >
      {width > 0 && (
        <svg
          width={width}
          height={HEIGHT}
          viewBox={`0 0 ${width} ${HEIGHT}`}
          role="img"
          aria-label={pictureText(list.length, top)}
          id="overview-picture"
        >
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
          {busy && (
            <path d={area(busy.busy, top, width, HEIGHT)} fill="var(--ran)" fill-opacity="0.38" />
          )}
          {chosen && (
            <rect
              x={x(chosen.from)}
              width={Math.max(1, x(chosen.to) - x(chosen.from))}
              height={HEIGHT}
              fill="var(--select)"
              stroke="var(--accent)"
              stroke-opacity="0.7"
            />
          )}
          {pack(list.slice(0, MAX_STALLS), extent, width, ROWS).map((bar) => {
            const open = store.stall.value === bar.stall.id;
            const near = matchesSelection(bar.stall, store.selection.value);
            const y = 4 + bar.row * (ROW + 2);
            return (
              <g
                key={bar.stall.id}
                data-stall={bar.stall.id}
                opacity={near || open ? 1 : 0.45}
                cursor="pointer"
                onClick={() => {
                  store.view.value = "answers";
                  store.openStall(bar.stall.id, bar.stall);
                }}
              >
                <title>{barText(bar.stall)}</title>
                <rect
                  x={bar.x}
                  y={y}
                  width={bar.width}
                  height={ROW}
                  rx="2"
                  fill="var(--bad)"
                  fill-opacity={0.35 + 0.65 * bar.stall.severity}
                  stroke={open ? "var(--text)" : "none"}
                  stroke-width="1.5"
                />
                {bar.stall.kind === "machine" && (
                  <rect
                    x={bar.x}
                    y={y}
                    width={bar.width}
                    height={ROW}
                    rx="2"
                    fill="url(#hatch)"
                    pointer-events="none"
                  />
                )}
                {bar.width > 46 && (
                  <text
                    x={bar.x + 5}
                    y={y + 10}
                    font-size="10.5"
                    font-weight="600"
                    fill="var(--text)"
                    stroke="var(--panel)"
                    stroke-width="3"
                    paint-order="stroke"
                    pointer-events="none"
                  >
                    {label(bar.stall.id, bar.stall.duration_ns, bar.stall.victims, bar.width)}
                  </text>
                )}
              </g>
            );
          })}
          <text
            x={width - 6}
            y={HEIGHT - 5}
            font-size="10.5"
            text-anchor="end"
            fill="var(--dim)"
            pointer-events="none"
          >
            {plural(top, "CPU")} · {durationText(length)}
          </text>
          <rect
            x={x(shown.from)}
            y={HEIGHT - 3}
            width={Math.max(2, x(shown.to) - x(shown.from))}
            height="3"
            fill="var(--accent)"
          />
        </svg>
      )}
    </div>
  );
}

function label(id: number, length: number, victims: number, width: number): string {
  const short = `#${id} ${durationText(length)}`;
  return victims > 1 && width > 150 ? `${short} · ${plural(victims, "victim")}` : short;
}

function barText(stall: {
  id: number;
  from: Ns;
  duration_ns: number;
  cause: string;
  victims: number;
  victim: Parameters<typeof whoText>[0];
}): string {
  const others = stall.victims > 1 ? ` and ${stall.victims - 1} more` : "";
  return `#${stall.id}: ${durationText(stall.duration_ns)} from ${timeText(stall.from)}\n${stall.victim ? whoText(stall.victim) + others : "the whole machine"}\n${stall.cause}`;
}

function pictureText(count: number, cpus: number): string {
  return `The whole recording: ${plural(count, "stall")} over the curve of how many of ${plural(cpus, "CPU")} were busy. The list of stalls says the same in words.`;
}
