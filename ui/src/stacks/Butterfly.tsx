/** All functions ranked by share; for one of them, its callers and callees. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { getJson, tracePath } from "../api/client";
import { status, threadName } from "../api/data";
import { liveQuery } from "../api/query";
import { stacksQuery } from "../api/stacks";
import type { ButterflyNode, Ranking, Butterfly as Wings } from "../api/types";
import { functionMenu } from "../functionMenu";
import { leftOutText } from "../leftOut";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { openMenu } from "../parts/MenuHost";
import * as store from "../state/store";
import { count, durationText, percent, plural } from "../units";
import { perThreadQuery, type ThreadTimes } from "./perThread";

/** Parameters of both queries. */
function stackParams() {
  const { of, by } = store.stacks.value;
  return { of, by, ...stacksQuery(of) };
}

export function Butterfly() {
  const queries = useMemo(
    () => ({
      perThread: perThreadQuery(),
      ranking: liveQuery<Ranking>(() => {
        const trace = store.trace.value;
        if (trace === null || !status.value.data?.ready.tables) return null;
        const params = { ...stackParams(), limit: 500 };
        return {
          key: JSON.stringify([trace, params]),
          subject: `${trace} ${params.of} ${params.by}`,
          fetch: (signal) => getJson(tracePath(trace, "butterfly"), params, signal),
        };
      }),
      wings: liveQuery<Wings>(() => {
        const trace = store.trace.value;
        const name = store.stacks.value.function;
        if (trace === null || name === "" || !status.value.data?.ready.tables) return null;
        const params = { ...stackParams(), function: name };
        return {
          key: JSON.stringify([trace, params]),
          subject: name,
          fetch: (signal) => getJson(tracePath(trace, "butterfly"), params, signal),
        };
      }),
    }),
    [],
  );
  useEffect(
    () => () => {
      queries.perThread.stop();
      queries.ranking.stop();
      queries.wings.stop();
    },
    [],
  );
  const perThread = queries.perThread.state.value;
  const ranking = queries.ranking.state.value;
  const wings = queries.wings.state.value;
  const isReady = !perThread.loading && !ranking.loading && !wings.loading;
  const error = ranking.error ?? perThread.error;
  return (
    <div class="butterfly" data-ready={isReady}>
      <div class="ranking">
        {error ? (
          <ErrorMessage error={error} />
        ) : ranking.data ? (
          <Ranked data={ranking.data} threads={perThread.data ?? []} />
        ) : (
          <Busy what="Counting the stacks …" />
        )}
      </div>
      <div class="wings">
        {store.stacks.value.function === "" && (
          <p class="empty">
            Choose a function on the left to see its callers above and its callees below.
          </p>
        )}
        {wings.error && <ErrorMessage error={wings.error} />}
        {store.stacks.value.function !== "" && !wings.error && !wings.data && (
          <Busy what="Gathering callers and callees …" />
        )}
        {wings.data && <Both data={wings.data} />}
      </div>
    </div>
  );
}

/** What each kind of stack adds up. */
const AMOUNT = { wait: "waited", wake: "waits ended", sample: "CPU time" } as const;

/** All names, by the time of all threads; `threads` have a column each. */
function Ranked({ data, threads }: { data: Ranking; threads: readonly ThreadTimes[] }) {
  const filter = useSignal("");
  const of = store.stacks.value.of;
  const selected = store.selection.value.threads.length;
  const wanted = filter.value.toLowerCase();
  const list = data.ranking.filter((entry) => entry.name.toLowerCase().includes(wanted));
  const choose = (name: string) => (store.stacks.value = { ...store.stacks.value, function: name });
  return (
    <>
      <div class="ranking-head">
        <input
          aria-label="Filter the names"
          placeholder="Filter the names"
          value={filter.value}
          onInput={(event) => (filter.value = event.currentTarget.value)}
        />
        <span class="dim">
          {durationText(data.all_total_ns)} {AMOUNT[of]} on {plural(data.all_count, "stack")}
          {selected > threads.length &&
            threads.length > 0 &&
            `, ${threads.length} of ${selected} threads by column`}
        </span>
      </div>
      <table class="ranked">
        <thead>
          <tr>
            <th scope="col" class="num">
              {AMOUNT[of]}
            </th>
            {threads.map(({ thread }) => (
              <th key={thread} scope="col" class="num" data-of={thread} title={threadName(thread)}>
                {threadName(thread)}
              </th>
            ))}
            <th scope="col" class="num">
              share
            </th>
            <th scope="col" class="num">
              innermost
            </th>
            <th scope="col" class="num">
              count
            </th>
            <th scope="col">{data.by}</th>
          </tr>
        </thead>
        <tbody>
          {list.map((entry) => (
            <tr
              key={entry.name}
              class={entry.name === store.stacks.value.function ? "current" : ""}
            >
              <td class="num">{durationText(entry.total_ns)}</td>
              {threads.map(({ thread, times }) => (
                <td key={thread} class="num">
                  {times.has(entry.name) ? durationText(times.get(entry.name) ?? 0) : "–"}
                </td>
              ))}
              <td class="num">{percent(entry.total_ns, data.all_total_ns)}</td>
              <td class="num">{entry.self_ns ? durationText(entry.self_ns) : ""}</td>
              <td class="num">{count(entry.count)}</td>
              <td>
                <button
                  type="button"
                  class="text-link name"
                  data-function={entry.name}
                  onClick={() => choose(entry.name)}
                  onContextMenu={(event) => {
                    event.preventDefault();
                    openMenu(entry.name, functionMenu(entry.name, of), {
                      x: event.clientX,
                      y: event.clientY,
                    });
                  }}
                >
                  {entry.name}
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {data.total > data.ranking.length && (
        <p class="note">
          The first {count(data.ranking.length)} of {plural(data.total, data.by)}.
        </p>
      )}
      {list.length === 0 && (
        <p class="empty">
          {data.ranking.length === 0
            ? `The selection has no stacks.${leftOutText()}`
            : "No name matches."}
        </p>
      )}
    </>
  );
}

function Both({ data }: { data: Wings }) {
  return (
    <>
      {data.matched.length > 1 && (
        <p class="note">
          Together: {data.matched.slice(0, 5).join(", ")}
          {data.matched.length > 5 && ` and ${data.matched.length - 5} more`}.
        </p>
      )}
      {data.callers && data.callees ? (
        <>
          <Wing title="Callers" node={data.callers} whole={data.all_total_ns} />
          <Wing title="Callees" node={data.callees} whole={data.all_total_ns} />
        </>
      ) : (
        <Elsewhere />
      )}
    </>
  );
}

/** The function is in the trace, but not on these stacks: what leaves it out, and how to see it. */
function Elsewhere() {
  const { of, idle, scope, function: name } = store.stacks.value;
  const change = (to: Partial<store.StacksState>) => {
    store.stacks.value = { ...store.stacks.peek(), ...to };
  };
  return (
    <div class="empty">
      <p>
        <strong>{name}</strong> is on none of these stacks. It is on others: of another kind (Waits,
        Wakes, Samples), or outside of what is selected.
      </p>
      <p class="presets">
        {!idle && of !== "sample" && (
          <button type="button" class="btn small" onClick={() => change({ idle: true })}>
            Count idle waits, too
          </button>
        )}
        {scope !== "all" && (
          <button type="button" class="btn small" onClick={() => change({ scope: "all" })}>
            Stacks of all threads
          </button>
        )}
        {store.isSelecting(store.selection.value) && (
          <button type="button" class="btn small" onClick={() => store.clearSelection()}>
            Clear the selection
          </button>
        )}
      </p>
    </div>
  );
}

function Wing({ title, node, whole }: { title: string; node: ButterflyNode; whole: number }) {
  return (
    <section class="wing" aria-label={title}>
      <h2 class="section-title">{title}</h2>
      <div role="tree" aria-label={title}>
        <Branch
          key={node.name}
          node={node}
          whole={whole}
          top={Math.max(1, node.total_ns)}
          depth={0}
        />
      </div>
    </section>
  );
}

/**
 * A node of the tree. Opens by itself if it holds over 5 % of the root's time, to a depth of 30.
 */
function Branch({
  node,
  whole,
  top,
  depth,
  open: initially = true,
}: {
  node: ButterflyNode;
  whole: number;
  top: number;
  depth: number;
  open?: boolean;
}) {
  const open = useSignal(initially && depth < 30);
  const leaf = node.children.length === 0;
  const { of } = store.stacks.value;
  return (
    <>
      <div
        class="branch"
        role="treeitem"
        aria-level={depth + 1}
        aria-expanded={leaf ? undefined : open.value}
        tabIndex={0}
        onClick={() => (open.value = !open.value)}
        onKeyDown={(event) => {
          if (event.key === "ArrowRight") open.value = true;
          else if (event.key === "ArrowLeft") open.value = false;
          else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            const all = [
              ...(event.currentTarget
                .closest("[role=tree]")
                ?.querySelectorAll<HTMLElement>("[role=treeitem]") ?? []),
            ];
            all[all.indexOf(event.currentTarget) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
          } else if (event.key === "Enter")
            store.stacks.value = { ...store.stacks.value, function: node.name };
          else return;
          event.preventDefault();
        }}
        onContextMenu={(event) => {
          event.preventDefault();
          openMenu(node.name, functionMenu(node.name, of), {
            x: event.clientX,
            y: event.clientY,
          });
        }}
      >
        <span class="share" aria-hidden="true">
          <span style={{ width: `${Math.min(100, (node.total_ns / top) * 100)}%` }} />
        </span>
        <span class="num">{durationText(node.total_ns)}</span>
        <span class="num dim">{percent(node.total_ns, whole)}</span>
        <span
          class="twist"
          aria-hidden="true"
          style={{ marginLeft: `${Math.min(depth, 24) * 12}px` }}
        >
          {leaf ? "" : open.value ? "▾" : "▸"}
        </span>
        <span
          class="branch-name"
          onDblClick={() => (store.stacks.value = { ...store.stacks.value, function: node.name })}
        >
          {node.name}
        </span>
      </div>
      {open.value &&
        node.children.map((child) => (
          <Branch
            key={child.name}
            node={child}
            whole={whole}
            top={top}
            depth={depth + 1}
            open={child.total_ns * 20 > top}
          />
        ))}
      {open.value && (node.cut ?? 0) > 0 && (
        <div
          class="branch dim"
          role="none"
          style={{ paddingLeft: `${Math.min(depth + 1, 24) * 12 + 250}px` }}
        >
          … and {node.cut} smaller
        </div>
      )}
    </>
  );
}
