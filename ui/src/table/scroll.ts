/**
 * Scrolls through more rows than a browser can lay out, by scaling the scroll bar of tall tables.
 */

/**
 * Maximum height of the content. Browsers lay out incorrectly somewhere above 10 million pixels.
 */
const MAX_CONTENT_PX = 4_000_000;

export interface Scrolling {
  readonly rows: number;
  readonly rowHeight: number;
  readonly viewHeight: number;
}

export function contentHeight(s: Scrolling): number {
  return Math.min(MAX_CONTENT_PX, s.rows * s.rowHeight);
}

/** Pixels of rows per pixel of the scroll bar: 1 except for very long tables. */
export function scale(s: Scrolling): number {
  const bar = contentHeight(s) - s.viewHeight;
  const all = s.rows * s.rowHeight - s.viewHeight;
  return bar <= 0 || all <= bar ? 1 : all / bar;
}

/** Offset in the rows for a position of the scroll bar, in pixels. */
export function offsetOf(s: Scrolling, scrollTop: number): number {
  return Math.max(0, Math.min(scrollTop * scale(s), s.rows * s.rowHeight - s.viewHeight));
}

/**
 * The visible rows with `margin` rows on both sides, and the first one's top within the content.
 */
export function visible(
  s: Scrolling,
  scrollTop: number,
  margin = 8,
): { first: number; last: number; top: number } {
  const offset = offsetOf(s, scrollTop);
  const first = Math.max(0, Math.floor(offset / s.rowHeight) - margin);
  const last = Math.min(s.rows, Math.ceil((offset + s.viewHeight) / s.rowHeight) + margin);
  return { first, last, top: scrollTop - (offset - first * s.rowHeight) };
}

/** The scroll bar's position that shows row `index` with the least movement. */
export function toShow(s: Scrolling, scrollTop: number, index: number): number {
  const offset = offsetOf(s, scrollTop);
  const top = index * s.rowHeight;
  const wanted =
    top < offset
      ? top
      : top + s.rowHeight > offset + s.viewHeight
        ? top + s.rowHeight - s.viewHeight
        : offset;
  return wanted / scale(s);
}
