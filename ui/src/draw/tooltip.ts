/** Places a tooltip next to the pointer, on the other side near an edge. */
export function placeTooltip(
  x: number,
  y: number,
  width: number,
  height: number,
  room: { width: number; height: number },
): { left: number; top: number } {
  const left = x + 14 + width <= room.width ? x + 14 : Math.max(0, x - 14 - width);
  const top = y + 16 + height <= room.height ? y + 16 : Math.max(0, y - 10 - height);
  return { left, top };
}
