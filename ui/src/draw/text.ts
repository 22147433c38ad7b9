/** Shortens labels to fit, keeping the part that distinguishes them. */

/** A text's width in CSS pixels. */
export type Measure = (text: string) => number;

const ELLIPSIS = "…";

/** The longest prefix of `text` that fits, with an ellipsis; empty if not even two letters do. */
export function cutEnd(text: string, width: number, measure: Measure): string {
  if (measure(text) <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(text.slice(0, middle) + ELLIPSIS) <= width) low = middle;
    else high = middle - 1;
  }
  return low < 2 ? "" : text.slice(0, low) + ELLIPSIS;
}

/** A function's name without qualification and call arguments: `a::b<c>::d(e)` is `d`. */
export function shortFunction(name: string): string {
  let depth = 0;
  let start = 0;
  let end = name.length;
  for (let i = 0; i < name.length; i++) {
    const c = name.charAt(i);
    if (name.startsWith("operator", i)) break;
    if (c === "(" && depth === 0 && i > start) {
      end = i;
      break;
    }
    if (c === "<" || c === "(" || c === "[" || c === "{") depth++;
    else if ((c === ">" && name[i - 1] !== "-") || c === ")" || c === "]" || c === "}") depth--;
    else if (c === ":" && name[i + 1] === ":" && depth === 0) {
      start = i + 2;
      i++;
    }
  }
  const short = name.slice(start, end).trim();
  return short === "" ? name : short;
}

/** A function's name as far as it fits: whole, else without its qualification, else cut. */
export function cutFunction(name: string, width: number, measure: Measure): string {
  if (measure(name) <= width) return name;
  return cutEnd(shortFunction(name), width, measure);
}

/** Caches widths: each frame draws the same names. Clears the cache at `max` entries. */
export function memoise(measure: Measure, max = 20_000): Measure {
  const widths = new Map<string, number>();
  return (text) => {
    const known = widths.get(text);
    if (known !== undefined) return known;
    if (widths.size >= max) widths.clear();
    const width = measure(text);
    widths.set(text, width);
    return width;
  };
}
