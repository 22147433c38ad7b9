/**
 * A table's measure over time, stacked by its groups: the same window and the same selection as the
 * timeline below it.
 */
import { type Signal, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { getJson, tracePath } from "../api/client";
import { status } from "../api/data";
import { joined, whereParams } from "../api/params";
import { liveQuery } from "../api/query";
import type { Series as Answer } from "../api/types";
import { labelsWidth } from "../draw/labelsWidth";
import { draggedRange, type RangeDrag, rangeDrag } from "../parts/rangeDrag";
import { useSize } from "../parts/useSize";
import * as store from "../state/store";
import { count, type Range } from "../units";
import { type Arrangement, columnOf, measureOf, title } from "./arrange";
import { filterOf } from "./cells";
import { arrangement } from "./model";
import { areas, COLOURS, groupName, layersOf, scaleText, seriesParams, topOf } from "./seriesModel";

const HEIGHT = 96;

/** While the window moves, the old graph is drawn scaled; a new one is requested after this long. */
const REST_MS = 120;

/** The timeline's window, once it rests. */
function useRestingWindow(): Signal<Range> {
  const resting = useSignal(store.window.peek());
  useSignalEffect(() => {
    const window = store.window.value;
    const timer = setTimeout(() => (resting.value = window), REST_MS);
    return () => clearTimeout(timer);
  });
  return resting;
}

function useSeries(of: Arrangement, measure: string, width: Signal<number>, shown: Signal<Range>) {
  const query = useMemo(
    () =>
      liveQuery<Answer>(() => {
        const trace = store.trace.value;
        if (trace === null || width.value === 0 || !status.value.data?.ready.tables) return null;
        // Another table has been chosen, and another filter with it.
        if (arrangement.value?.info.table !== of.info.table) return null;
        const window = shown.value;
        // The range that is selected is not cut out: it is marked, as on the timeline.
        const selection = { ...store.selection.value, range: null };
        const params = {
          ...seriesParams(of, window, (width.value - labelsWidth(width.value)) / 2),
          ...whereParams(selection, of.info.table, store.table.value.where),
        };
        return {
          key: JSON.stringify([trace, params]),
          subject: `${trace} ${of.info.table} ${of.by[0]} ${measure}`,
          fetch: (signal) => getJson(tracePath(trace, "series"), params, signal),
        };
      }),
    [of.info.table, of.by[0], measure],
  );
  useEffect(() => query.stop, [query]);
  return query.state.value;
}

export function Series({ of }: { of: Arrangement }) {
  const ref = useRef<HTMLDivElement>(null);
  const size = useSize(ref);
  const width = useSignal(0);
  width.value = size.value.width;
  const measure = measureOf(of);
  const shown = useRestingWindow();
  const { data, error, loading } = useSeries(of, measure, width, shown);
  const moving = shown.value !== store.window.value;
  const labels = labelsWidth(width.value);
  return (
    <div
      class="series"
      data-ready={error !== null || (data !== null && !loading && !moving)}
      role="group"
      aria-label={describe(of, measure, data)}
    >
      <div ref={ref} class="series-room" style={{ height: `${HEIGHT}px` }}>
        {error && <p class="note">{error.message}</p>}
        {data && width.value > 0 && (
          <>
            <Names of={of} data={data} width={labels} />
            <Picture data={data} measure={measure} left={labels} width={width.value - labels} />
          </>
        )}
      </div>
    </div>
  );
}

function describe(of: Arrangement, measure: string, data: Answer | null): string {
  const { tag, name } = title(measure);
  const what = `${tag} ${name}`.trim();
  const groups = data?.groups.map((group) => groupName(of, group.cell)).join(", ") ?? "";
  return `${what} of ${of.info.table} over time${of.by[0] ? ` by ${of.by[0]}` : ""}: ${groups}`;
}

function Names({ of, data, width }: { of: Arrangement; data: Answer; width: number }) {
  const column = of.by[0];
  return (
    <ul class="series-names" style={{ width: `${width}px` }}>
      {data.groups.map((group, i) => {
        const name = groupName(of, group.cell);
        const kind = column ? (columnOf(of.info, column)?.kind ?? "text") : "text";
        const filter = column ? filterOf(column, kind, group.cell, "only") : null;
        return (
          <li key={group.key}>
            <span class="series-colour" style={{ background: COLOURS[i % COLOURS.length] }} />
            <button
              type="button"
              class="text-link"
              title={`${name}: only this`}
              disabled={filter === null}
              onClick={() => {
                if (filter === null) return;
                store.table.value = {
                  ...store.table.value,
                  where: joined(store.table.value.where, filter),
                };
              }}
            >
              {name}
            </button>
          </li>
        );
      })}
      {data.other_groups > 0 && (
        <li class="dim">
          <span class="series-colour" style={{ background: "var(--dim)" }} />
          {count(data.other_groups)} more
        </li>
      )}
    </ul>
  );
}

interface PictureProps {
  data: Answer;
  measure: string;
  left: number;
  width: number;
}

function Picture({ data, measure, left, width }: PictureProps) {
  const layers = layersOf(data);
  const top = topOf(layers);
  const window = store.window.value;
  const x = (at: number) => ((at - window.from) / (window.to - window.from)) * width;
  // The answer may be of an older window: drawn where it belongs, until the new one arrives.
  const [from, to] = [x(data.from), x(data.to)];
  const drag = useSignal<RangeDrag | null>(null);
  const chosen = draggedRange(drag.value);
  return (
    <svg
      width={width}
      height={HEIGHT}
      style={{ left: `${left}px` }}
      aria-hidden="true"
      {...rangeDrag(drag, window, width, (picked) => store.select({ range: picked }))}
    >
      <g transform={`translate(${from} 0) scale(${(to - from) / Math.max(1, data.px)} 1)`}>
        {areas(layers, top, HEIGHT - 14).map((path, i) => (
          <path key={i} d={path} transform="translate(0 14)" fill={layers[i]?.colour ?? ""} />
        ))}
      </g>
      {chosen && <Outside left={x(chosen.from)} right={x(chosen.to)} width={width} />}
      <text x="4" y="11" font-size="11" fill="var(--dim)">
        {scaleText(data, measure, top)}
      </text>
    </svg>
  );
}

function Outside({ left, right, width }: { left: number; right: number; width: number }) {
  return (
    <g class="series-outside">
      <rect width={Math.max(0, left)} height={HEIGHT} fill="var(--panel)" fill-opacity="0.6" />
      <rect
        x={Math.min(width, right)}
        width={Math.max(0, width - right)}
        height={HEIGHT}
        fill="var(--panel)"
        fill-opacity="0.6"
      />
      {[left, right].map((at, i) => (
        <rect key={i} x={at} width="1" height={HEIGHT} fill="var(--accent)" />
      ))}
    </g>
  );
}
