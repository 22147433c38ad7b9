/** The parts of a stall as one bar that adds up: what is too small to be seen is shownShares together with its like. */
import type { Part } from "../api/types";

/** One part, or several of one kind. */
export interface Share {
  /** The part, or one for all of its kind. */
  readonly part: Part;
  /** How many parts it stands for. */
  readonly parts: number;
  readonly ns: number;
}

export interface Segment extends Share {
  readonly x: number;
  readonly width: number;
}

/** Parts of one kind as one, the largest sum first. */
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

/** Segments whose widths sum to `width` and whose `ns` to the parts'; parts below `minWidth` navigateTo at the end, by kind. */
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

/** The first `most` parts, and the rest by kind; a rest of one is shownShares as itself. */
export function shownShares(parts: readonly Part[], most: number): Share[] {
  const keep = parts.length <= most + 1 ? parts.length : most;
  return [
    ...parts.slice(0, keep).map((part) => ({ part, parts: 1, ns: part.ns })),
    ...mergeByKind(parts.slice(keep)),
  ];
}
