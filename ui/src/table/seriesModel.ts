/** Stacks the groups of a series, one layer on the other. */
import type { Series } from "../api/types";

/** By rank of the group; the legend beside the picture names them. */
export const COLOURS: readonly string[] = [
  "var(--blue)",
  "var(--gold)",
  "var(--lock)",
  "var(--ran)",
  "var(--ipc)",
  "var(--memory)",
  "var(--runnable)",
];

export interface Layer {
  readonly colour: string;
  /** Where it begins and ends above the ground, part by part. */
  readonly low: readonly number[];
  readonly high: readonly number[];
}

export function layersOf(series: Pick<Series, "groups" | "others" | "other_groups">): Layer[] {
  const stacked: { colour: string; values: readonly number[] }[] = series.groups.map(
    (group, i) => ({ colour: COLOURS[i % COLOURS.length] ?? "", values: group.values }),
  );
  if (series.other_groups > 0) stacked.push({ colour: "var(--dim)", values: series.others });
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
