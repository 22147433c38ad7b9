/** Where the stall's time went: a bar, and a table whose sum is the whole stall. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { rememberName } from "../api/data";
import type { Part, StallAnswer } from "../api/types";
import { whoText } from "../api/who";
import { Patterns, patternId } from "../parts/Patterns";
import { useSize } from "../parts/useSize";
import * as store from "../state/store";
import { count, durationText, percent } from "../units";
import { type Share, segments, shownShares } from "./shares";

const HEIGHT = 26;
const MAX_ROWS = 6;
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
  const all = useSignal(false);
  const shown = all.value
    ? answer.partition.map((part) => ({ part, parts: 1, ns: part.ns, crowd: null }))
    : shownShares(answer.partition, MAX_ROWS);
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
            {shown.map((share, i) => (
              <Row
                key={i}
                share={share}
                total={answer.duration_ns}
                more={() => (all.value = true)}
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

function Row({ share, total, more }: { share: Share; total: number; more: () => void }) {
  const { part, parts, ns, crowd } = share;
  rememberName(part.who);
  const thread = part.who !== null && part.who.tid !== 0 ? part.who : null;
  return (
    <tr>
      <td class="num">{durationText(ns)}</td>
      <td class="num">{percent(ns, total)}</td>
      <td>
        <svg width="14" height="14" aria-hidden="true">
          <rect width="14" height="14" rx="2" fill={`url(#${patternId("part", part.state)})`} />
        </svg>
      </td>
      <td>{part.label}</td>
      <td>
        {parts > 1 ? (
          <button type="button" class="text-link" title="List them one by one" onClick={more}>
            {crowd === null ? `${count(parts)} more` : `${count(parts)} ${crowd}`}
          </button>
        ) : thread ? (
          <button
            type="button"
            class="text-link"
            title="Filter all views by this thread"
            onClick={() => store.select({ threads: [thread.thread] })}
          >
            {who(part)}
          </button>
        ) : (
          who(part)
        )}
      </td>
    </tr>
  );
}

function shareText(share: Share): string {
  return `${share.part.label} ${share.parts > 1 ? `${count(share.parts)} ${share.crowd ?? "more"}` : who(share.part)}`;
}

function who(part: Part): string {
  return part.who ? whoText(part.who) : "";
}

function cut(text: string, width: number): string {
  const room = Math.floor((width - 16) / 6.6);
  return text.length <= room ? text : `${text.slice(0, Math.max(0, room - 1))}…`;
}
