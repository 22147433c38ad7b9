/** The answer's sentences, linked to the events that prove them. */
import { laneItems } from "../actions";
import type { Clause, TextLink } from "../api/types";
import { byAddress } from "../functionMenu";
import { navigateTo } from "../navigate";
import { menuOf } from "../parts/MenuHost";
import { lines, type Span, spansOf } from "./spans";

function SpanLine({ label, line }: { label: string; line: readonly Span[] }) {
  return (
    <>
      {label && <span class="label">{label} </span>}
      {line.map(({ text, link }, i) =>
        link ? <SpanLink key={i} link={link} text={text} /> : text,
      )}
    </>
  );
}

/** A linked span. Not a `<button>`: browsers do not wrap one across lines like text. */
function SpanLink({ link, text }: { link: TextLink; text: string }) {
  const { instructions_of: code, event } = link;
  const follow = () => (code === null ? navigateTo(link) : byAddress(code));
  return (
    <span
      class="text-link"
      role="button"
      tabIndex={0}
      title={
        code !== null
          ? "Show the samples by instruction"
          : event
            ? "Show the event that proves this"
            : "Show on the timeline"
      }
      onClick={follow}
      onContextMenu={link.lane?.startsWith("t") ? menuOf(text, () => laneItems(link)) : undefined}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        follow();
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
              <SpanLine label={at === 0 ? clause.label : ""} line={line} />
            </p>
          )),
        )}
    </>
  );
}
