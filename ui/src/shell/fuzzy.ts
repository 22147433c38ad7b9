/**
 * Fuzzy search: all letters typed must occur in order. Adjacent letters and letters at the start of
 * a word score higher.
 */

/** How well `text` matches, higher is better; `null` if it does not. */
export function score(text: string, wanted: string): number | null {
  const t = text.toLowerCase();
  let at = 0;
  let sum = 0;
  let last = -2;
  for (const letter of wanted.toLowerCase().replace(/\s+/g, "")) {
    const found = t.indexOf(letter, at);
    if (found < 0) return null;
    if (found === last + 1) sum += 3;
    else if (found === 0 || !/[a-z0-9]/.test(t[found - 1] ?? "")) sum += 2;
    else sum -= Math.min(3, (found - at) / 4);
    last = found;
    at = found + 1;
  }
  return sum - text.length / 100;
}

/** The items that match, best first. An empty search keeps all in their order. */
export function rank<T>(list: readonly T[], wanted: string, text: (item: T) => string): T[] {
  if (wanted.trim() === "") return [...list];
  return list
    .map((item, order) => ({ item, order, score: score(text(item), wanted) }))
    .filter((entry): entry is { item: T; order: number; score: number } => entry.score !== null)
    .sort((a, b) => b.score - a.score || a.order - b.order)
    .map((entry) => entry.item);
}
