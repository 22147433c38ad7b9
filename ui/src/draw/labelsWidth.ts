/**
 * Width of the column of names, left of the timeline and of every graph that is aligned with it. A
 * fixed one would take a third of a narrow canvas.
 */
export const labelsWidth = (width: number): number =>
  Math.round(Math.min(420, Math.max(120, width * 0.16)));
