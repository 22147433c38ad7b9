/** Texts that must fit: a label cut so that what tells it apart stays. */

/** Measures a text in CSS pixels. */
export type Measure = (text: string) => number;

const ELLIPSIS = "…";

/** The longest start of `text` that fits, with an ellipsis; empty when not even two letters do. */
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

/** The last name of a qualified function, without template and call arguments: `a::b<c>::d(e)` is `d`. */
export function shortFunction(name: string): string {
  let depth = 0;
  let start = 0;
  let end = name.length;
  for (let i = 0; i < name.length; i++) {
    const c = name[i]!;
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

/** A function's name as well as it fits: whole, without its qualification, then cut. */
export function cutFunction(name: string, width: number, measure: Measure): string {
  if (measure(name) <= width) return name;
  return cutEnd(shortFunction(name), width, measure);
}

/** A measure that remembers, since the same names are drawn in every frame; forgets all when it has seen too many. */
export function memoise(measure: Measure, most = 20_000): Measure {
  const widths = new Map<string, number>();
  return (text) => {
    const known = widths.get(text);
    if (known !== undefined) return known;
    if (widths.size >= most) widths.clear();
    const width = measure(text);
    widths.set(text, width);
    return width;
  };
}
