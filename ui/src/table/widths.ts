/** Column widths: the user's, else by kind. Long kinds share the remaining width. */
import { signal } from "@preact/signals";
import { type Arrangement, kindOf, title } from "./arrange";

const chosen = signal(new Map<string, number>());

/** Columns with long texts. */
const LONG: readonly string[] = ["cause", "command line"];

const MIN_WIDTH_PX = 44;
/** Texts shrink to these widths to make room. */
const MIN_SHRUNK_PX = { text: 100, stack: 230 } as const;
const DEFAULT_PX = {
  text: 170,
  stack: 320,
  duration: 124,
  time: 128,
  count: 92,
  number: 84,
} as const;

/** Room right of the last column, for the scroll bar and the resize handle. */
const RIGHT_MARGIN_PX = 22;

export function setWidth(text: string, width: number): void {
  const next = new Map(chosen.value);
  next.set(text, Math.max(MIN_WIDTH_PX, Math.round(width)));
  chosen.value = next;
}

/** At most what a head needs to be read in full: its letters; its padding and the sign of the order. */
function headPx(text: string): number {
  const { name, tag } = title(text);
  return 8 * (name + tag).length + 42;
}

const sumOf = (widths: readonly number[]): number => widths.reduce((sum, width) => sum + width, 0);

export function columnWidths(of: Arrangement, room: number): number[] {
  const texts = [...of.by, ...of.show, ...of.graph];
  const usual = texts.map(
    (text, i) =>
      chosen.value.get(text) ?? Math.max(i === 0 ? 190 : 0, DEFAULT_PX[kindOf(of.info, text)]),
  );
  const inFull = texts.map((text, i) =>
    chosen.value.has(text) ? (usual[i] ?? 0) : Math.max(usual[i] ?? 0, headPx(text)),
  );
  const widths = sumOf(inFull) <= room - RIGHT_MARGIN_PX ? inFull : usual;
  const left = room - RIGHT_MARGIN_PX - sumOf(widths);
  if (left <= 0) {
    // Texts shrink, so that the numbers at the right stay visible.
    const spare = texts.map((text, i) => {
      const kind = kindOf(of.info, text);
      return chosen.value.has(text) || (kind !== "text" && kind !== "stack")
        ? 0
        : Math.max(0, (widths[i] ?? 0) - MIN_SHRUNK_PX[kind]);
    });
    const all = sumOf(spare);
    return all === 0
      ? widths
      : widths.map(
          (width, i) => width - Math.floor((Math.min(-left, all) * (spare[i] ?? 0)) / all),
        );
  }
  const stretch = texts.map((text, i) => {
    const kind = kindOf(of.info, text);
    if (chosen.value.has(text)) return 0;
    if (kind === "stack" || LONG.includes(text)) return 6;
    return kind === "text" && (i < of.by.length || of.by.length === 0) ? 1 : 0;
  });
  const parts = sumOf(stretch);
  return parts === 0
    ? widths
    : widths.map((width, i) => width + Math.floor((left * (stretch[i] ?? 0)) / parts));
}
