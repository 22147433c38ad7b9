/** The answer in words, each clause linked to the events that prove it. */
import type { Clause, ClauseLink } from "../api/types";
import { follow } from "../navigate";
import { label, lines, type Piece, pieces } from "./spans";

function Words({ line }: { line: readonly Piece[] }) {
  const head = label(line[0]?.text ?? "");
  return (
    <>
      {head.label && <span class="label">{head.label} </span>}
      {line.map(({ text, link }, i) => {
        const shown = text.slice(i === 0 ? head.rest : 0);
        return link ? <Proof key={i} link={link} text={shown} /> : shown;
      })}
    </>
  );
}

/** A part of a sentence that leads somewhere. No `<button>`: browsers do not break one into lines where the sentence breaks. */
function Proof({ link, text }: { link: ClauseLink; text: string }) {
  return (
    <span
      class="proof"
      role="button"
      tabIndex={0}
      title={link.event ? "Show the event that proves this" : "Show on the timeline"}
      onClick={() => follow(link)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        follow(link);
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
          lines(pieces(clause)).map((line, at) => (
            <p
              key={`${i} ${at}`}
              class={`clause ${clause.kind}${line[0]?.text.startsWith("  ") ? " quoted" : ""}`}
            >
              <Words line={line} />
            </p>
          )),
        )}
    </>
  );
}
