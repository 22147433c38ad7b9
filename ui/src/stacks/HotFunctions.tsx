/** Samples by address: a function's instructions, and the samples on each. */
import { useEffect, useMemo } from "preact/hooks";
import { getJson, tracePath } from "../api/client";
import { status } from "../api/data";
import { liveQuery } from "../api/query";
import { stacksQuery } from "../api/stacks";
import type { HotFunctions as FunctionList, HotFunction } from "../api/types";
import { copy } from "../copy";
import { functionMenu } from "../functionMenu";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { menuOf } from "../parts/MenuHost";
import * as store from "../state/store";
import { count, plural } from "../units";

export function HotFunctions() {
  const queries = useMemo(() => {
    const hotQuery = <T,>(functionName: () => string | null) =>
      liveQuery<T>(() => {
        const trace = store.trace.value;
        const name = functionName();
        if (trace === null || name === null || !status.value.data?.ready.tables) return null;
        const params = { ...stacksQuery("sample"), function: name };
        return {
          key: JSON.stringify([trace, params]),
          subject: `${trace} ${name}`,
          fetch: (signal) => getJson(tracePath(trace, "hot"), params, signal),
        };
      });
    return {
      list: hotQuery<FunctionList>(() => ""),
      one: hotQuery<HotFunction>(() => store.stacks.value.function || null),
    };
  }, []);
  useEffect(
    () => () => {
      queries.list.stop();
      queries.one.stop();
    },
    [],
  );
  const list = queries.list.state.value;
  const one = queries.one.state.value;
  return (
    <div class="butterfly" data-ready={!list.loading && !one.loading}>
      <div class="ranking">
        {list.error && <ErrorMessage error={list.error} />}
        {!list.data && !list.error && <Busy what="Counting the samples …" />}
        {list.data && <Functions data={list.data} />}
      </div>
      <div class="wings">
        {store.stacks.value.function === "" && (
          <p class="empty">Choose a function on the left to see its instructions.</p>
        )}
        {one.error && <ErrorMessage error={one.error} />}
        {store.stacks.value.function !== "" && !one.error && !one.data && (
          <Busy what="Disassembling …" />
        )}
        {one.data && <Instructions data={one.data} />}
      </div>
    </div>
  );
}

function Functions({ data }: { data: FunctionList }) {
  if (data.functions.length === 0) return <p class="empty">The selection has no CPU samples.</p>;
  return (
    <table class="ranked">
      <thead>
        <tr>
          <th scope="col" class="num">
            samples
          </th>
          <th scope="col" class="num">
            share
          </th>
          <th scope="col">function</th>
        </tr>
      </thead>
      <tbody>
        {data.functions.slice(0, 500).map((entry, i) => (
          <tr key={i} class={entry.function === store.stacks.value.function ? "current" : ""}>
            <td class="num">{count(entry.samples)}</td>
            <td class="num">{(entry.share * 100).toFixed(1)} %</td>
            <td>
              <button
                type="button"
                class="text-link name"
                title={entry.module ?? ""}
                onClick={() =>
                  (store.stacks.value = {
                    ...store.stacks.value,
                    function: entry.function,
                  })
                }
                onContextMenu={menuOf(entry.function, () => functionMenu(entry.function, "sample"))}
              >
                {entry.function}
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Instructions({ data }: { data: HotFunction }) {
  const top = Math.max(1, ...data.lines.map((line) => line.samples));
  const text = () =>
    data.lines
      .map(
        (line) =>
          `${String(line.samples).padStart(7)}  ${line.address ?? line.offset}  ${line.text}`,
      )
      .join("\n");
  return (
    <section aria-label={`Instructions of ${data.function}`}>
      <h2 class="section-title">
        {data.function}
        <button
          type="button"
          class="btn small"
          onClick={() => void copy(text(), "the instructions")}
        >
          Copy
        </button>
      </h2>
      <p class="dim">
        {plural(data.inside, "sample")} in it{data.module && `, ${data.module}`}
      </p>
      {data.loop && <p class="loop">{data.loop}</p>}
      {data.no_code && <p class="note">{data.no_code}</p>}
      {data.notes.map((note, i) => (
        <p key={i} class="note">
          {note}
        </p>
      ))}
      <table class="code">
        <thead class="sr-only">
          <tr>
            <th scope="col">samples</th>
            <th scope="col">address</th>
            <th scope="col">instruction</th>
            <th scope="col">source</th>
          </tr>
        </thead>
        <tbody>
          {data.lines.map((line) => (
            <tr key={line.offset} class={line.in_loop ? "in-loop" : ""}>
              <td class="num">
                <span class="share" aria-hidden="true">
                  <span style={{ width: `${(line.samples / top) * 100}%` }} />
                </span>
                <span class="samples">{line.samples > 0 ? count(line.samples) : ""}</span>
              </td>
              <td class="dim">{line.address ?? line.offset}</td>
              <td>{line.text}</td>
              <td class="dim">{line.origin ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
