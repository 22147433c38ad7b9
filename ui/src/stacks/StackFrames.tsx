/** A whole stack, root first. Each frame opens a menu for its function. */

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { getJson, tracePath } from "../api/client";
import { liveQuery } from "../api/query";
import type { Frame, StackAnswer, StackRef } from "../api/types";
import { copy } from "../copy";
import { functionMenu } from "../functionMenu";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { menuOf, openMenu } from "../parts/MenuHost";
import * as store from "../state/store";

const NAMES = { wait: "Waited in", wake: "Woken from", sample: "Executing" } as const;

export function StackFrames({ stack }: { stack: StackRef }) {
  const shown = useMemo(() => signal(stack), []);
  shown.value = stack;
  const query = useMemo(
    () =>
      liveQuery<StackAnswer>(() => {
        const trace = store.trace.value;
        const { stack: id, kind } = shown.value;
        return trace === null
          ? null
          : {
              key: `${trace} ${kind} ${id}`,
              fetch: (signal) => getJson(tracePath(trace, "stack"), { id, kind }, signal),
            };
      }),
    [],
  );
  useEffect(() => query.stop, []);
  const { data, error } = query.state.value;
  if (error) return <ErrorMessage error={error} />;
  if (!data) return <Busy what="Loading the stack …" />;
  return (
    <section aria-label={NAMES[data.kind]}>
      <h3 class="section-title">
        {NAMES[data.kind]}
        <button
          type="button"
          class="btn small"
          onClick={() => void copy(data.frames.map(frameText).join("\n"), "the stack")}
        >
          Copy
        </button>
      </h3>
      <ol class="frames">
        {data.frames.map((frame, i) => (
          <li key={i} class={`${frame.kernel ? "kernel" : ""} ${frame.noise ? "noise" : ""}`}>
            <button
              type="button"
              class="frame"
              title={sourceOf(frame)}
              onClick={(event) =>
                openMenu(
                  frame.function,
                  functionMenu(frame.function, data.kind),
                  event.currentTarget,
                )
              }
              onContextMenu={menuOf(frame.function, () => functionMenu(frame.function, data.kind))}
            >
              {frame.function}
              {frame.inlined && <span class="dim"> (inlined)</span>}
            </button>
            <span class="dim frame-where">{where(frame)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** A frame's module and source line, with full paths. */
function sourceOf({ module, file, line }: Frame): string {
  return `${module ?? ""} ${file ?? ""}${line ? `:${line}` : ""}`;
}

/** A frame's source line, or its module, without folders. */
function where(frame: Frame): string {
  if (frame.file)
    return `${frame.file.split(/[\\/]/).pop() ?? ""}${frame.line ? `:${frame.line}` : ""}`;
  return frame.module?.split(/[\\/]/).pop() ?? "";
}

export function frameText(frame: Frame): string {
  const place = where(frame);
  return place ? `${frame.function} (${place})` : frame.function;
}
