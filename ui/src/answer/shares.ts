/** The parts of a stall, with those too small to show merged by kind, so that the sum is exact. */
import type { Part } from "../api/types";
import { whoText } from "../api/who";
import { apportion, count, tenthsText } from "../units";

/** One part, or several of one kind. */
export interface Share {
  /** The part, or the first of its kind. */
  readonly part: Part;
  /** All parts that it stands for. */
  readonly members: readonly Part[];
  /** The name that all of them share, if they do. */
  readonly crowd: string | null;
  readonly ns: number;
}

export interface Segment extends Share {
  readonly x: number;
  readonly width: number;
}

const alone = (part: Part): Share => ({ part, members: [part], ns: part.ns, crowd: null });

/** Merges parts with the same key; the largest sum first. */
function merge(parts: readonly Part[], keyOf: (part: Part) => string): Share[] {
  const kinds = new Map<string, Share>();
  for (const part of parts) {
    const key = keyOf(part);
    const other = kinds.get(key);
    kinds.set(
      key,
      other
        ? {
            part: other.part,
            members: [...other.members, part],
            ns: other.ns + part.ns,
            crowd: part.who && other.part.who?.name === part.who.name ? part.who.name : null,
          }
        : alone(part),
    );
  }
  return [...kinds.values()].sort((a, b) => b.ns - a.ns);
}

const kindOf = (part: Part): string => `${part.label} ${part.state}`;
const mergeByKind = (parts: readonly Part[]): Share[] => merge(parts, kindOf);

/** Minimum threads of one name that are shown as one line, as in the answer's text. */
const MIN_CROWD = 4;
/** A crowd, none of which has half of its time: else that one tells more by itself. */
const isCrowd = ({ members, ns }: Share): boolean =>
  members.length >= MIN_CROWD && Math.max(...members.map((part) => part.ns)) < ns / 2;

/** Parts of a kind whose threads share a name are one share if they are many; else one each. */
function crowds(parts: readonly Part[]): Share[] {
  const keyOf = (part: Part) => `${kindOf(part)} ${part.who?.name}`;
  const merged = merge(
    parts.filter((part) => part.who !== null),
    keyOf,
  );
  const many = new Set(merged.filter(isCrowd).map((s) => keyOf(s.part)));
  return [
    ...merged.filter(isCrowd),
    ...parts.filter((part) => part.who === null || !many.has(keyOf(part))).map(alone),
  ].sort((a, b) => b.ns - a.ns);
}

/**
 * Segments of the bar: their widths add up to `width`, their `ns` to the parts' total. A crowd of one
 * name is one; what is narrower than `minWidth` is at the end, merged by kind.
 */
export function segments(parts: readonly Part[], width: number, minWidth = 3): Segment[] {
  const total = parts.reduce((sum, part) => sum + part.ns, 0);
  if (total <= 0 || width <= 0) return [];
  const scale = width / total;
  const shares = crowds(parts);
  const large = shares.filter((share) => share.ns * scale >= minWidth);
  const small = shares.filter((share) => share.ns * scale < minWidth);
  let ns = 0;
  return [...large, ...mergeByKind(small.flatMap((share) => share.members))].map((share) => {
    const x = ns * scale;
    ns += share.ns;
    return { ...share, x, width: share.ns * scale };
  });
}

/** The largest `max` shares, crowds of one name together, and the rest. A single one stays. */
function largest(parts: readonly Part[], max: number): { kept: Share[]; rest: Share[] } {
  const all = crowds(parts);
  const keep = all.length <= max + 1 ? all.length : max;
  return {
    kept: all.slice(0, keep),
    rest: mergeByKind(all.slice(keep).flatMap((share) => share.members)),
  };
}

/** The same in one list; the rest is merged by kind. */
export function shownShares(parts: readonly Part[], max: number): Share[] {
  const { kept, rest } = largest(parts, max);
  return [...kept, ...rest];
}

/** Maximum lines of the table of an answer before the rest is merged. */
export const MAX_ROWS = 6;

/**
 * How much of the whole each part is, in tenths of a percent. Wherever it is told, it is what the
 * table of the answer says; the members of a crowd add up to its line.
 */
export function tenthsOf(parts: readonly Part[]): ReadonlyMap<Part, number> {
  const tenths = new Map<Part, number>();
  const nsOf = (some: readonly { ns: number }[]) => some.reduce((sum, { ns }) => sum + ns, 0);
  const { kept, rest } = largest(parts, MAX_ROWS);
  // The text has one line for the rest.
  const lines = [...kept.map((share) => [share]), ...(rest.length > 0 ? [rest] : [])];
  const ofLines = apportion(lines.map(nsOf));
  lines.forEach((shares, line) => {
    const ofShares = apportion(
      shares.map((share) => share.ns),
      ofLines[line],
    );
    shares.forEach(({ members }, at) => {
      const ofMembers = apportion(
        members.map((part) => part.ns),
        ofShares[at],
      );
      members.forEach((part, i) => {
        tenths.set(part, ofMembers[i] ?? 0);
      });
    });
  });
  return tenths;
}

/** What several parts are together: `98.2 %`. */
export function toldShare(parts: readonly Part[], tenths: ReadonlyMap<Part, number>): string {
  return tenthsText(parts.reduce((sum, part) => sum + (tenths.get(part) ?? 0), 0));
}

/** How many and who: `300 gomacc`. */
export function crowdText({ members, crowd }: Share): string {
  return `${count(members.length)} ${crowd ?? "more"}`;
}

export function shareText(share: Share): string {
  return `${share.part.label} ${share.members.length > 1 ? crowdText(share) : whose(share.part)}`;
}

/** Who is responsible for a part; empty for nobody. */
export function whose(part: Part): string {
  return part.who ? whoText(part.who) : "";
}
