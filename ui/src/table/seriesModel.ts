/** Stacks the groups of a series, one layer on the other, and names what their height stands for. */
import type { Params } from "../api/client";
import type { Series } from "../api/types";
import { GROUPS } from "../draw/theme";
import { bytesText, count, durationText } from "../units";
import { type Arrangement, columnOf, measureOf, spec } from "./arrange";
import { cellText } from "./cells";

/** By rank of the group; the legend beside the picture names them. */
export const COLOURS: readonly string[] = GROUPS.map((variable) => `var(${variable})`);
/** Maximum groups that are told apart. */
const MAX_GROUPS = GROUPS.length;

/** What to ask for: a table's measure in `parts` parts of a window. */
export function seriesParams(
  of: Arrangement,
  window: { readonly from: number; readonly to: number },
  parts: number,
): Params {
  return {
    table: of.info.table,
    by: of.by[0] ?? null,
    measure: measureOf(of),
    begin: Math.round(window.from),
    end: Math.round(window.to),
    px: Math.max(1, Math.round(parts)),
    groups: MAX_GROUPS,
  };
}

/** The name of a group of a series. */
export function groupName(of: Arrangement, cell: Series["groups"][number]["cell"]): string {
  const kind = columnOf(of.info, of.by[0] ?? "")?.kind ?? "text";
  return cellText(cell, kind) || "(none)";
}

/** How much a value is; `part` is the time that it was summed over, in ns. */
export function rateText(unit: Series["unit"], value: number, part: number): string {
  if (unit === "ns") return `${(value / part).toFixed(2).replace(/\.?0+$/, "")} at once`;
  if (unit === "bytes") return `${bytesText(Math.round((value / part) * 1e9))} a second`;
  return `${count(value)} in ${durationText(part)}`;
}

/** What the height of the picture stands for. */
export function scaleText(data: Series, measure: string, top: number): string {
  if (data.groups.length === 0) return "nothing in this time range";
  const part = partOf(data);
  const most = `up to ${rateText(data.unit, top, part)}`;
  return data.unit === "ns"
    ? `${spec(measure).column}: ${most}, in steps of ${durationText(part)}`
    : most;
}

/** The time of one part, in ns. */
export const partOf = (data: Pick<Series, "from" | "to" | "px">): number =>
  (data.to - data.from) / Math.max(1, data.px);

export interface Layer {
  readonly colour: string;
  /** Where it begins and ends above the ground, part by part. */
  readonly low: readonly number[];
  readonly high: readonly number[];
}

export function layersOf(
  series: Pick<Series, "groups" | "others" | "other_groups">,
  colours: readonly string[] = COLOURS,
  rest = "var(--dim)",
): Layer[] {
  const stacked: { colour: string; values: readonly number[] }[] = series.groups.map(
    (group, i) => ({ colour: colours[i % colours.length] ?? "", values: group.values }),
  );
  if (series.other_groups > 0) stacked.push({ colour: rest, values: series.others });
  let low = new Array<number>(stacked[0]?.values.length ?? 0).fill(0);
  return stacked.map(({ colour, values }) => {
    const high = low.map((ground, part) => ground + (values[part] ?? 0));
    const layer = { colour, low, high };
    low = high;
    return layer;
  });
}

export const topOf = (layers: readonly Layer[]): number =>
  Math.max(1, ...(layers.at(-1)?.high ?? []));

/** Each layer as the path of a closed area; a part is one unit wide. */
export function areas(layers: readonly Layer[], top: number, height: number): string[] {
  const y = (value: number): string => (height - (value / top) * height).toFixed(1);
  return layers.map(({ low, high }) => {
    const steps = (values: readonly number[]) =>
      values.map((value, part) => `${part} ${y(value)}L${part + 1} ${y(value)}`);
    return `M${steps(high).join("L")}L${steps(low)
      .map((step) => step.split("L").reverse().join("L"))
      .reverse()
      .join("L")}Z`;
  });
}
