/** Where the stall's time went: a bar, and a table whose sum is the whole stall. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { severalItems, threadItems } from "../actions";
import { rememberName } from "../api/data";
import type { Part, StallAnswer } from "../api/types";
import { copy } from "../copy";
import { type MenuItem, openMenu } from "../parts/MenuHost";
import { Patterns, patternId } from "../parts/Patterns";
import { useSize } from "../parts/useSize";
import * as store from "../state/store";
import { durationText, percent, range } from "../units";
import {
  crowdText,
  MAX_ROWS,
  type Share,
  segments,
  shareText,
  shownShares,
  tenthsOf,
  toldShare,
  whose,
} from "./shares";

const HEIGHT = 26;
/** What was explained, by its headline. */
const WHOLE: Readonly<Record<string, string>> = { WINDOW: "time range", WAIT: "wait" };

/** The bar in full width; below it the table, with the sentences (`children`) next to it. */
export function Partition({
  answer,
  children,
}: {
  answer: StallAnswer;
  children: ComponentChildren;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const width = useSize(ref).value.width;
  const shown = shownShares(answer.partition, MAX_ROWS);
  const tenths = tenthsOf(answer.partition);
  const sum = answer.partition.reduce((ns, part) => ns + part.ns, 0);
  return (
    <section class="partition" aria-label="Where the time went">
      <div ref={ref} class="partition-bar">
        {width > 0 && (
          <svg
            width={width}
            height={HEIGHT}
            viewBox={`0 0 ${width} ${HEIGHT}`}
            role="img"
            aria-label="The parts as one bar. The table below has the same numbers."
            id="partition-picture"
          >
            <Patterns id="part" />
            {segments(answer.partition, width).map((segment) => (
              <g key={segment.x}>
                <title>{`${shareText(segment)}: ${durationText(segment.ns)}`}</title>
                <rect
                  x={segment.x}
                  width={Math.max(0.5, segment.width - 1)}
                  height={HEIGHT}
                  fill={`url(#${patternId("part", segment.part.state)})`}
                />
                {segment.width > 90 && (
                  <text
                    x={segment.x + 8}
                    y={HEIGHT / 2 + 4}
                    font-size="11.5"
                    font-weight="600"
                    fill="var(--text)"
                    stroke="var(--panel)"
                    stroke-width="3.5"
                    stroke-linejoin="round"
                    paint-order="stroke"
                  >
                    {cut(shareText(segment), segment.width)}
                  </text>
                )}
              </g>
            ))}
          </svg>
        )}
      </div>
      <div class="partition-body">
        <table class="parts">
          <tbody>
            {shown.map((share) => (
              <Rows
                key={`${answer.id} ${shareText(share)}`}
                share={share}
                tenths={tenths}
                answer={answer}
              />
            ))}
            <tr class="sum">
              <td class="num">{durationText(sum)}</td>
              <td class="num">{percent(sum, answer.duration_ns)}</td>
              <td />
              <td colSpan={2}>
                {sum === answer.duration_ns
                  ? `the whole ${WHOLE[answer.headline] ?? "stall"}, to the nanosecond`
                  : "WARNING: not the whole stall: this answer is wrong somewhere. That is a bug."}
              </td>
            </tr>
          </tbody>
        </table>
        {children}
      </div>
    </section>
  );
}

interface RowsProps {
  share: Share;
  tenths: ReadonlyMap<Part, number>;
  answer: StallAnswer;
}

/** A share; a crowd's members below it while it is open. */
function Rows({ share, tenths, answer }: RowsProps) {
  const open = useSignal(false);
  const { part, members } = share;
  const first = members.length > 1 ? null : part;
  return (
    <>
      <Row
        part={part}
        ns={share.ns}
        told={toldShare(members, tenths)}
        members={members}
        answer={answer}
      >
        {first ? (
          <Whose part={first} />
        ) : (
          <button
            type="button"
            class="text-link"
            aria-expanded={open.value}
            onClick={() => (open.value = !open.value)}
          >
            {open.value ? "▾" : "▸"} {crowdText(share)}
          </button>
        )}
      </Row>
      {open.value &&
        members.map((member, i) => (
          <Row
            key={i}
            part={member}
            ns={member.ns}
            told={toldShare([member], tenths)}
            members={[member]}
            answer={answer}
            inside
          >
            <Whose part={member} />
          </Row>
        ))}
    </>
  );
}

interface RowProps {
  part: Part;
  ns: number;
  /** How much it is of the whole. */
  told: string;
  /** The parts that it stands for: its menu is about their threads. */
  members: readonly Part[];
  answer: StallAnswer;
  /** Of an open crowd, whose line has the sum. */
  inside?: boolean;
  children: ComponentChildren;
}

function Row({ part, ns, told, members, answer, inside = false, children }: RowProps) {
  const text = [durationText(ns), told, part.label].join("  ");
  return (
    <tr
      class={inside ? "inside" : undefined}
      onContextMenu={(event) => {
        event.preventDefault();
        openMenu(part.label, partItems(members, answer, text), {
          x: event.clientX,
          y: event.clientY,
        });
      }}
    >
      <td class="num">{durationText(ns)}</td>
      <td class="num">{told}</td>
      <td>
        <svg width="14" height="14" aria-hidden="true">
          <rect width="14" height="14" rx="2" fill={`url(#${patternId("part", part.state)})`} />
        </svg>
      </td>
      <td>{part.label}</td>
      <td>{children}</td>
    </tr>
  );
}

/** The menu of a part: what its threads did in the time that the answer is about. */
function partItems(members: readonly Part[], answer: StallAnswer, text: string): MenuItem[] {
  const threads = members.flatMap(({ who }) => (who && who.tid !== 0 ? [who.thread] : []));
  const time = range(answer.from, answer.to);
  const [thread, ...others] = threads;
  return [
    ...(thread === undefined
      ? []
      : others.length === 0
        ? threadItems(thread, time)
        : severalItems(threads, time)),
    { title: "Copy the line", run: () => void copy(text, "the line") },
  ];
}

/** Who is responsible for a part. */
function Whose({ part }: { part: Part }) {
  rememberName(part.who);
  const thread = part.who !== null && part.who.tid !== 0 ? part.who.thread : null;
  if (thread === null) return <>{whose(part)}</>;
  return (
    <button
      type="button"
      class="text-link"
      title="Filter all views by this thread"
      onClick={() => store.select({ threads: [thread] })}
    >
      {whose(part)}
    </button>
  );
}

function cut(text: string, width: number): string {
  const room = Math.floor((width - 16) / 6.6);
  return text.length <= room ? text : `${text.slice(0, Math.max(0, room - 1))}…`;
}
