/** The coverage curve's points in a box of this size, for an SVG polyline. */
export function curve(
  points: readonly { causes: number; share: number }[],
  width: number,
  height: number,
): string {
  const last = points.at(-1)?.causes ?? 0;
  if (last === 0) return "";
  const at = (causes: number, share: number) =>
    `${round((causes / last) * width)},${round((1 - share) * height)}`;
  return [at(0, 0), ...points.map(({ causes, share }) => at(causes, share))].join(" ");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
