/**
 * Tracks: measures over time as lanes of the timeline. A track is a preset of the tables that has a
 * graph over time, and has the same data.
 */
import { computed } from "@preact/signals";
import type { Params } from "../../api/client";
import { tables } from "../../api/data";
import type { Series } from "../../api/types";
import * as store from "../../state/store";
import { type Arrangement, resolve } from "../../table/arrange";
import { partOf, seriesParams } from "../../table/seriesModel";
import type { Range } from "../../units";
import { fitsWell, withMargin } from "./requests";

/** The presets that can be tracks. */
export const available = computed(
  () => tables.value.data?.presets.filter((preset) => preset.over_time) ?? [],
);

/** The tracks that the timeline has, in the order in which they were added. */
export const trackNames = computed(() =>
  store.tracks.value.flatMap((id) => available.value.find((preset) => preset.id === id) ?? []),
);

/** What a track draws. */
export function arrangementOf(track: string): Arrangement | null {
  const data = tables.peek().data;
  return data && resolve(data, { ...store.NO_TABLE, preset: track, table: track });
}

export interface TrackRequest {
  readonly from: number;
  readonly to: number;
  readonly columns: number;
  readonly track: string;
  readonly params: Params;
}

/** A part is two pixels wide, as in the graphs of tables. */
const PART_PX = 2;

/** The next series to ask for; null if those that there are fit the window. */
export function nextTrack(
  have: ReadonlyMap<string, Series>,
  window: Range,
  width: number,
  whole: Range,
): TrackRequest | null {
  const parts = width / PART_PX;
  for (const { id, where } of trackNames.peek()) {
    const known = have.get(id);
    const of = arrangementOf(id);
    if (of === null) continue;
    if (fitsWell(known && { ...known, columnNs: partOf(known) }, window, parts, whole)) continue;
    const wide = withMargin(window, parts, whole);
    const params = { ...seriesParams(of, wide, wide.columns), where: where || null };
    return { ...wide, track: id, params };
  }
  return null;
}
