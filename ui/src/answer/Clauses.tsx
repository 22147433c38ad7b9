/** The answer's sentences, linked to the events that prove them. */
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

/** A linked span. Not a `<button>`: browsers do not wrap one across lines like text. */
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

/** The clauses of the given kinds, in order. Indented lines are stacks. */
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
