/**
 * Fetches the timeline's data: at most one request of each kind at a time, and none that is
 * useless.
 */
import { effect, untracked } from "@preact/signals";
import { getBytes, getJson, type Params, tracePath } from "../../api/client";
import { reading, stallsReady, status } from "../../api/data";
import { selectionParams } from "../../api/params";
import type { Curve, Lanes, Series } from "../../api/types";
import * as store from "../../state/store";
import { decode } from "./decode";
import { Fetcher } from "./fetcher";
import * as model from "./model";
import { keepOrder } from "./order";
import type { Marks } from "./protocol";
import {
  fitsWell,
  forget,
  nearLanes,
  nextRequest,
  stillUseful,
  type ViewRequest,
  withMargin,
} from "./requests";
import { lanesHeight, plotWidth } from "./scene";
import { nextTrack, type TrackRequest, trackNames } from "./tracks";

const ready = (): boolean => status.value.data?.ready.lanes ?? false;
const path = (resource: string): string => tracePath(store.trace.peek() ?? "", resource);

let lanesWithSamples: ReadonlySet<string> = new Set();

const near = (): string[] =>
  nearLanes(
    model.rowLayout.peek().rows,
    model.scroll.peek(),
    lanesHeight(model.canvasGeometry.peek()),
    lanesWithSamples,
  );
const width = (): number => plotWidth(model.canvasGeometry.peek());
const drawable = (): boolean =>
  store.trace.peek() !== null &&
  ready() &&
  model.size.peek().width > 0 &&
  store.extent.peek() !== store.NO_EXTENT;

/** Lanes, and the curve, that are shown as they were before more of the trace was read. */
const stale = new Set<string>();
const CURVE = "curve";

/** The views that need not be fetched again. */
const current = (): typeof model.views =>
  stale.size === 0 ? model.views : new Map([...model.views].filter(([lane]) => !stale.has(lane)));

const viewFetcher = new Fetcher<ViewRequest>(
  () =>
    drawable()
      ? nextRequest(current(), near(), store.window.peek(), width(), store.extent.peek())
      : null,
  (request) => stillUseful(request, store.window.peek(), width()),
  async (request, signal) => {
    const params: Params = {
      from: Math.floor(request.from),
      to: Math.ceil(request.to),
      px: request.columns,
      lanes: request.lanes,
    };
    const bytes = await getBytes(path("view"), params, signal);
    for (const view of decode(bytes)) {
      model.views.set(view.lane, view);
      stale.delete(view.lane);
    }
    forget(model.views, new Set(near()));
    model.problem.value = "";
    model.viewsVersion.value = model.viewsVersion.peek() + 1;
  },
);

type CurveRequest = Omit<ViewRequest, "lanes">;

const curveFetcher = new Fetcher<CurveRequest>(
  () => {
    if (!drawable()) return null;
    const have = stale.has(CURVE) ? null : model.curve.peek();
    const [window, whole] = [store.window.peek(), store.extent.peek()];
    const known =
      have === null
        ? undefined
        : {
            from: have.from,
            to: have.to,
            columnNs: (have.to - have.from) / Math.max(1, have.busy.length),
          };
    return fitsWell(known, window, width(), whole) ? null : withMargin(window, width(), whole);
  },
  (request) => stillUseful({ ...request, lanes: [] }, store.window.peek(), width()),
  async (request, signal) => {
    model.curve.value = await getJson<Curve>(
      path("curve"),
      { from: Math.floor(request.from), to: Math.ceil(request.to), px: request.columns },
      signal,
    );
    stale.delete(CURVE);
  },
);

const tracksFetcher = new Fetcher<TrackRequest>(
  () =>
    drawable()
      ? nextTrack(model.tracks.peek(), store.window.peek(), width(), store.extent.peek())
      : null,
  (request) =>
    store.tracks.peek().includes(request.track) &&
    stillUseful({ ...request, lanes: [] }, store.window.peek(), width()),
  async ({ track, params }, signal) => {
    const series = await getJson<Series>(path("series"), params, signal);
    model.tracks.value = new Map(model.tracks.peek()).set(track, series);
  },
);

interface ListRequest {
  readonly trace: string;
  readonly params: Params;
}

let lanesFor = "";
/** What the lanes were sorted for last. */
let sortedFor: { stall: number | null; resort: number } | null = null;
const wantedLanes = (): ListRequest | null => {
  const trace = store.trace.peek();
  if (trace === null || !ready()) return null;
  // An address may name a stall before any is found.
  const stall = stallsReady.peek() ? store.stall.peek() : null;
  const request = { trace, params: { ...selectionParams(store.selection.peek()), stall } };
  const sorted = sortedFor === null || sortedFor.resort === model.resort.peek();
  return JSON.stringify(request) === lanesFor && sorted ? null : request;
};
const lanesFetcher = new Fetcher<ListRequest>(
  wantedLanes,
  (request) => wantedLanes() !== null && JSON.stringify(wantedLanes()) === JSON.stringify(request),
  async (request, signal) => {
    const data = await getJson<Lanes>(tracePath(request.trace, "lanes"), request.params, signal);
    lanesFor = JSON.stringify(request);
    const { stall, resort } = sortedFor ?? { stall: undefined, resort: -1 };
    // Opening another stall, or asking for it, sorts the lanes anew; a selection does not, nor does
    // explaining one and going back to the stall.
    const wanted = (request.params.stall as number | null) ?? stall ?? null;
    const keeps = stall === wanted && resort === model.resort.peek();
    sortedFor = { stall: wanted, resort: model.resort.peek() };
    lanesWithSamples = new Set(
      [...data.cpus, ...data.processes.flatMap((p) => p.threads)]
        .filter((l) => l.samples > 0)
        .map((l) => l.lane),
    );
    model.lanes.value = keeps ? keepOrder(model.lanes.peek(), data) : data;
  },
);

let marksFor = "";
const marksFetcher = new Fetcher<string>(
  () =>
    store.trace.peek() !== null && ready() && marksFor !== store.trace.peek()
      ? store.trace.peek()
      : null,
  (trace) => trace === store.trace.peek(),
  async (trace, signal) => {
    model.recordedMarks.value = await getJson<Marks>(tracePath(trace, "marks"), {}, signal);
    marksFor = trace;
  },
);

const fetchers = [viewFetcher, curveFetcher, tracksFetcher, lanesFetcher, marksFetcher];
/** What the server had read when it answered. */
let heldReading = 0;
/** The model's trace. A timeline that is unmounted and mounted again finds its data still there. */
let held: string | null = null;

/** Has everything fetched anew; what is drawn on lanes stays until then. */
function outdate(): void {
  for (const fetcher of fetchers) fetcher.stop();
  lanesFor = "";
  marksFor = "";
  for (const lane of [...model.views.keys(), CURVE]) stale.add(lane);
  model.tracks.value = new Map();
}

/** Fetches everything anew, once more of the trace has been read. */
function fetchAgain(): void {
  if (reading.peek() === heldReading) return;
  heldReading = reading.peek();
  outdate();
  for (const fetcher of fetchers) fetcher.update();
}

function forgetTrace(): void {
  const trace = store.trace.peek();
  if (trace === held) return;
  held = trace;
  outdate();
  stale.clear();
  model.views.clear();
  model.viewsVersion.value = model.viewsVersion.peek() + 1;
  model.curve.value = null;
  sortedFor = null;
  model.lanes.value = model.NO_LANES;
  model.recordedMarks.value = { marks: [], losses: [] };
  model.focus.value = null;
  model.tooltip.value = null;
  model.chosen.value = new Map();
  model.passingMark.value = null;
  model.scroll.value = 0;
  model.gap.value = 0;
  model.lookedAt.value = "";
  store.unshown.value = true;
  model.problem.value = "";
}

/**
 * Starts to fetch what the store needs; returns a function that stops. The effects run their work
 * untracked: they depend on the signals they name, and on none that they change.
 */
export function start(): () => void {
  const ends = [
    effect(() => {
      void store.trace.value;
      untracked(forgetTrace);
    }),
    effect(() => {
      void reading.value;
      untracked(fetchAgain);
    }),
    effect(() => {
      void [store.trace.value, store.selection.value, store.stall.value, ready()];
      void [stallsReady.value, model.resort.value];
      untracked(() => {
        lanesFetcher.update();
        marksFetcher.update();
      });
    }),
    effect(() => {
      void [
        store.trace.value,
        store.extent.value,
        store.window.value,
        model.canvasGeometry.value,
        ready(),
      ];
      untracked(() => curveFetcher.update());
    }),
    effect(() => {
      void [
        store.trace.value,
        store.extent.value,
        store.window.value,
        model.canvasGeometry.value,
        trackNames.value,
      ];
      untracked(() => tracksFetcher.update());
    }),
    effect(() => {
      void [
        store.trace.value,
        store.extent.value,
        store.window.value,
        model.canvasGeometry.value,
        model.rowLayout.value,
        model.scroll.value,
        ready(),
      ];
      untracked(() => viewFetcher.update());
    }),
  ];
  return () => {
    for (const end of ends) end();
    for (const fetcher of fetchers) fetcher.stop();
  };
}
