/** Splits an answer's clauses into spans: plain text, and links to the events that prove it. */
import type { Clause, TextLink } from "../api/types";

export interface Span {
  readonly text: string;
  readonly link: TextLink | null;
}

/**
 * Splits a clause at its links. Links that overlap an earlier one or exceed the text become text.
 */
export function spansOf(clause: Pick<Clause, "text" | "links">): Span[] {
  const out: Span[] = [];
  let at = 0;
  for (const link of [...clause.links].sort((a, b) => a.start - b.start || b.end - a.end)) {
    if (link.start < at || link.end <= link.start || link.end > clause.text.length) continue;
    if (link.start > at) out.push({ text: clause.text.slice(at, link.start), link: null });
    out.push({ text: clause.text.slice(link.start, link.end), link });
    at = link.end;
  }
  if (at < clause.text.length) out.push({ text: clause.text.slice(at), link: null });
  return out;
}

/** Splits spans into lines. A link across a line break is a link on both lines. */
export function lines(of: readonly Span[]): Span[][] {
  const out: Span[][] = [[]];
  for (const piece of of) {
    piece.text.split("\n").forEach((text, i) => {
      if (i > 0) out.push([]);
      if (text !== "") out.at(-1)?.push({ text, link: piece.link });
    });
  }
  return out.filter((line) => line.length > 0);
}

/** An answer as Markdown, for a bug report. */
export function markdown(
  headline: string,
  clauses: readonly Clause[],
  partition: readonly { label: string; who: string; time: string; share: string }[],
): string {
  const of = (...kinds: Clause["kind"][]) =>
    clauses.filter((clause) => kinds.includes(clause.kind));
  const out = [`### ${headline}`, ""];
  for (const line of of("story").flatMap((clause) => clause.text.split("\n"))) {
    if (line.trim() !== "") out.push(line.startsWith("  ") ? `> \`${line.trim()}\`` : line, "");
  }
  for (const clause of of("cause", "groups", "machine", "input", "evidence", "remedy", "warning"))
    out.push(`* ${clause.label} ${clause.text.trim()}`);
  const chain = of("chain");
  if (chain.length)
    out.push("", "Wait chain:", "", ...chain.map((clause) => `* ${clause.text.trim()}`));
  out.push("", "| time | share | what | who |", "|---:|---:|---|---|");
  for (const part of partition)
    out.push(
      `| ${part.time} | ${part.share} | ${part.label} | ${part.who.replaceAll("|", "\\|")} |`,
    );
  return `${out.join("\n")}\n`;
}
