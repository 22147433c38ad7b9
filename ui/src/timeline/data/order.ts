/**
 * Keeps the lanes where they are: the server sorts them by relevance to the selection, and lanes
 * that moved at each click would move away from under the pointer.
 */
import type { Lanes } from "../../api/types";

/** The new lanes in the order of the old ones; those that are new come last. */
export function keepOrder(old: Lanes, next: Lanes): Lanes {
  const threads = new Map(
    old.processes.map((p) => [p.process, new Map(p.threads.map((t, at) => [t.lane, at]))]),
  );
  const places = new Map(old.processes.map((p, at) => [p.process, at]));
  return {
    ...next,
    processes: sortedBy(next.processes, (p) => places.get(p.process)).map((process) => ({
      ...process,
      threads: sortedBy(process.threads, (t) => threads.get(process.process)?.get(t.lane)),
    })),
  };
}

/** Stable: entries without a place keep their order, behind those that have one. */
function sortedBy<T>(entries: readonly T[], place: (entry: T) => number | undefined): T[] {
  return entries
    .map((entry, at) => ({ entry, at, place: place(entry) ?? Infinity }))
    .sort((a, b) => (a.place === b.place ? a.at - b.at : a.place - b.place))
    .map(({ entry }) => entry);
}
