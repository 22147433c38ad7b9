/**
 * Links the threads that an answer mentions to their lanes, and wakers to their wake-ups.
 *
 * The server links the evidence of each clause; this adds the other names, so that every thread in
 * the text is a link.
 */

import type { Clause, StallAnswer, TextLink } from "../api/types";
import { whoText } from "../api/who";

interface Mention {
  readonly text: string;
  readonly link: Omit<TextLink, "start" | "end">;
}

/** Every thread of the answer once, longest names first, so that none matches inside another. */
export function mentions(answer: Pick<StallAnswer, "chain" | "lanes" | "from" | "to">): Mention[] {
  const found = new Map<string, Mention>();
  const add = (text: string, link: Mention["link"]) => {
    if (!found.has(text)) found.set(text, { text, link });
  };
  // A waker is best shown by the longest wait that it ended.
  const woken = answer.chain.filter((link) => link.wake?.by).sort((a, b) => b.ns - a.ns);
  for (const { wake } of woken) {
    if (wake?.by && wake.by.tid !== 0)
      add(whoText(wake.by), {
        lane: wake.by_lane,
        from: wake.at,
        to: null,
        event: wake.waking === null ? null : { waking: wake.waking },
      });
  }
  for (const { who, lane } of answer.lanes)
    add(whoText(who), { lane, from: answer.from, to: answer.to, event: null });
  for (const link of answer.chain) {
    for (const { who } of link.occupants)
      if (who.tid !== 0)
        add(whoText(who), {
          lane: `t${who.thread}`,
          from: link.from,
          to: link.to,
          event: null,
        });
  }
  return [...found.values()].sort((a, b) => b.text.length - a.text.length);
}

/** Adds links on the names that have none yet. */
export function linked(clause: Clause, known: readonly Mention[]): Clause {
  const links = [...clause.links];
  const free = (start: number, end: number) =>
    links.every((link) => end <= link.start || start >= link.end);
  for (const { text, link } of known) {
    for (
      let at = clause.text.indexOf(text);
      at >= 0;
      at = clause.text.indexOf(text, at + text.length)
    ) {
      const end = at + text.length;
      // `gomacc 807` must not match in `gomacc 80720`.
      if (!/\d/.test(clause.text[end] ?? "") && free(at, end))
        links.push({ start: at, end, ...link });
    }
  }
  return { ...clause, links };
}
