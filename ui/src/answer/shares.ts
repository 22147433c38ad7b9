/** The parts of a stall, with those too small to show merged by kind, so that the sum is exact. */
import type { Part } from "../api/types";

/** One part, or several of one kind. */
export interface Share {
  /** The part, or the first of its kind. */
  readonly part: Part;
  /** Number of parts it stands for. */
  readonly parts: number;
  readonly ns: number;
}

export interface Segment extends Share {
  readonly x: number;
  readonly width: number;
}

/** Merges parts of one kind; the largest sum first. */
function mergeByKind(parts: readonly Part[]): Share[] {
  const kinds = new Map<string, Share>();
  for (const part of parts) {
    const kind = `${part.label} ${part.state}`;
    const other = kinds.get(kind);
    kinds.set(
      kind,
      other
        ? { part: other.part, parts: other.parts + 1, ns: other.ns + part.ns }
        : { part, parts: 1, ns: part.ns },
    );
  }
  return [...kinds.values()].sort((a, b) => b.ns - a.ns);
}

/**
 * Segments of the bar: their widths add up to `width`, their `ns` to the parts' total. Parts
 * narrower than `minWidth` are at the end, merged by kind.
 */
export function segments(parts: readonly Part[], width: number, minWidth = 3): Segment[] {
  const total = parts.reduce((sum, part) => sum + part.ns, 0);
  if (total <= 0 || width <= 0) return [];
  const scale = width / total;
  const large = parts.filter((part) => part.ns * scale >= minWidth);
  const small = parts.filter((part) => part.ns * scale < minWidth);
  let ns = 0;
  return [...large.map((part) => ({ part, parts: 1, ns: part.ns })), ...mergeByKind(small)].map(
    (share) => {
      const x = ns * scale;
      ns += share.ns;
      return { ...share, x, width: share.ns * scale };
    },
  );
}

/** The first `max` parts, and the rest merged by kind. A single remaining part stays as it is. */
export function shownShares(parts: readonly Part[], max: number): Share[] {
  const keep = parts.length <= max + 1 ? parts.length : max;
  return [
    ...parts.slice(0, keep).map((part) => ({ part, parts: 1, ns: part.ns })),
    ...mergeByKind(parts.slice(keep)),
  ];
}
