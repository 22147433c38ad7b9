/** A partition as one thin bar, for several beside or below each other. */
import { useRef } from "preact/hooks";
import type { Part } from "../api/types";
import { Patterns, patternId } from "../parts/Patterns";
import { useSize } from "../parts/useSize";
import { durationText } from "../units";

const HEIGHT = 16;

interface PartsBarProps {
  /** Unique on the page. */
  id: string;
  parts: readonly Part[];
  /** The time that the full width stands for. */
  of: number;
  label?: string;
}

export function PartsBar({ id, parts, of, label }: PartsBarProps) {
  const ref = useRef<HTMLDivElement>(null);
  const width = useSize(ref).value.width;
  let x = 0;
  return (
    <div ref={ref} class="compare-bar">
      {width > 0 && (
        <svg
          width={width}
          height={HEIGHT}
          role={label === undefined ? undefined : "img"}
          aria-label={label}
          aria-hidden={label === undefined}
        >
          <Patterns id={id} />
          {parts.map((part, i) => {
            const left = x;
            x += (part.ns / Math.max(1, of)) * width;
            return (
              <rect
                key={i}
                x={left}
                width={Math.max(0, x - left)}
                height={HEIGHT}
                fill={`url(#${patternId(id, part.state)})`}
              >
                <title>{`${part.label}: ${durationText(part.ns)}`}</title>
              </rect>
            );
          })}
        </svg>
      )}
    </div>
  );
}
