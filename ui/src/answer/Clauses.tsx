/** The answer in words, each clause linked to the events that prove it. */
import type { Clause, TextLink } from "../api/types";
import { navigateTo } from "../navigate";
import { label, lines, type Span, spansOf } from "./spans";

function SpanLine({ line }: { line: readonly Span[] }) {
  const head = label(line[0]?.text ?? "");
  return (
    <>
      {head.label && <span class="label">{head.label} </span>}
      {line.map(({ text, link }, i) => {
        const shown = text.slice(i === 0 ? head.rest : 0);
        return link ? <SpanLink key={i} link={link} text={shown} /> : shown;
      })}
    </>
  );
}

/** A part of a sentence that leads somewhere. No `<button>`: browsers do not break one into lines where the sentence breaks. */
function SpanLink({ link, text }: { link: TextLink; text: string }) {
  return (
    <span
      class="text-link"
      role="button"
      tabIndex={0}
      title={link.event ? "Show the event that proves this" : "Show on the timeline"}
      onClick={() => navigateTo(link)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        navigateTo(link);
      }}
    >
      {text}
    </span>
  );
}

/** The sentences of some kinds, in order; indented lines are stacks. */
export function Clauses({
  clauses,
  kinds,
}: {
  clauses: readonly Clause[];
  kinds: readonly Clause["kind"][];
}) {
  return (
    <>
      {clauses
        .filter((clause) => kinds.includes(clause.kind))
        .flatMap((clause, i) =>
          lines(spansOf(clause)).map((line, at) => (
            <p
              key={`${i} ${at}`}
              class={`clause ${clause.kind}${line[0]?.text.startsWith("  ") ? " quoted" : ""}`}
            >
              <SpanLine line={line} />
            </p>
          )),
        )}
    </>
  );
}
