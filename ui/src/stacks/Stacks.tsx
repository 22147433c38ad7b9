/** The Stacks view: flame graph, icicle, butterfly and samples by address. */

import { stallDetail } from "../api/data";
import { summedThreads } from "../api/stacks";
import { Flame } from "../flame/Flame";
import * as store from "../state/store";
import { Butterfly } from "./Butterfly";
import { CompareStacks } from "./CompareStacks";
import { HotFunctions } from "./HotFunctions";
import "./stacks.css";

const OF: readonly { of: store.StackKind; title: string; hint: string }[] = [
  { of: "wait", title: "Waits", hint: "Where threads waited, by wait time" },
  {
    of: "wake",
    title: "Wakes",
    hint: "Where threads were woken from, by the wait time that ended",
  },
  { of: "sample", title: "Samples", hint: "What the CPUs executed" },
];
const FORMS: readonly { form: store.StacksState["form"]; title: string; hint: string }[] = [
  { form: "flame", title: "Flame", hint: "The root at the bottom" },
  { form: "icicle", title: "Icicle", hint: "The root at the top" },
  {
    form: "butterfly",
    title: "Butterfly",
    hint: "All functions, and the callers and callees of one",
  },
  {
    form: "compare",
    title: "Compare",
    hint: "Two of the selected threads: where one takes longer than the other",
  },
  { form: "address", title: "By address", hint: "Samples by instruction" },
];

export function Stacks() {
  const state = store.stacks.value;
  const change = (to: Partial<store.StacksState>) => (store.stacks.value = { ...state, ...to });
  return (
    <div class="stacks">
      <h1 class="sr-only">Stacks</h1>
      <div class="toolbar" role="toolbar" aria-label="Stacks">
        <div class="presets" role="group" aria-label="Stacks of">
          {OF.map((entry) => (
            <button
              type="button"
              key={entry.of}
              class="btn small"
              title={entry.hint}
              aria-pressed={state.of === entry.of}
              onClick={() =>
                change({
                  of: entry.of,
                  root: [],
                  // Other stacks are in other columns.
                  ...(entry.of === state.of ? {} : { where: "" }),
                  ...(state.form === "address" && entry.of !== "sample" ? { form: "flame" } : {}),
                })
              }
            >
              {entry.title}
            </button>
          ))}
        </div>
        <div class="presets" role="group" aria-label="Form">
          {FORMS.map((entry) => (
            <button
              type="button"
              key={entry.form}
              class="btn small"
              title={entry.hint}
              aria-pressed={state.form === entry.form}
              onClick={() =>
                change({
                  form: entry.form,
                  ...(entry.form === "address" && state.of !== "sample"
                    ? { of: "sample", where: "" }
                    : {}),
                })
              }
            >
              {entry.title}
            </button>
          ))}
        </div>
        {state.form === "butterfly" && (
          <div class="presets" role="group" aria-label="Count by">
            {(["function", "module", "file"] as const).map((by) => (
              <button
                type="button"
                key={by}
                class="btn small"
                aria-pressed={state.by === by}
                onClick={() => change({ by, function: "" })}
              >
                {by}
              </button>
            ))}
          </div>
        )}
        {state.form !== "compare" && <Scope />}
        {state.form !== "compare" && <Summed />}
        <Restrictions />
        {(state.form === "flame" || state.form === "icicle") && state.root.length > 0 && (
          <button type="button" class="btn small" onClick={() => change({ root: [] })}>
            Zoom out
          </button>
        )}
      </div>
      <div class="stacks-body">
        {state.form === "butterfly" ? (
          <Butterfly />
        ) : state.form === "address" ? (
          <HotFunctions />
        ) : state.form === "compare" ? (
          <CompareStacks />
        ) : (
          <Flame />
        )}
      </div>
    </div>
  );
}

const SCOPE_TITLES: Readonly<Record<store.StacksState["scope"], readonly [string, string]>> = {
  all: ["All", "The stacks of the whole selection"],
  victim: ["Victim only", "The stacks of the open stall's victim"],
  chain: ["Chain only", "The stacks of the threads that the wait chain leads through"],
};

/** Whose stacks: of everybody, or of the open stall's threads. */
function Scope() {
  if (stallDetail.value.data === null) return null;
  const { scope } = store.stacks.value;
  return (
    <div class="presets" role="group" aria-label="Whose stacks">
      {store.SCOPES.map((one) => (
        <button
          type="button"
          key={one}
          class="btn small"
          title={SCOPE_TITLES[one][1]}
          aria-pressed={scope === one}
          onClick={() => (store.stacks.value = { ...store.stacks.value, scope: one, root: [] })}
        >
          {SCOPE_TITLES[one][0]}
        </button>
      ))}
    </div>
  );
}

/** Says that what is shown is a sum, where several threads are selected, and leads on. */
function Summed() {
  const threads = summedThreads();
  if (threads.length === 0) return null;
  return (
    <span class="summed">
      The sum of {threads.length} threads
      <button
        type="button"
        class="btn small"
        title="Where one takes longer than the other"
        onClick={() => (store.stacks.value = { ...store.stacks.value, form: "compare" })}
      >
        {threads.length === 2 ? "Compare both" : "Compare two of them"}
      </button>
    </span>
  );
}

/** What is left out, as chips that bring it back. */
function Restrictions() {
  const { of, idle, where } = store.stacks.value;
  const change = (value: boolean) =>
    (store.stacks.value = { ...store.stacks.value, idle: value, root: [] });
  return (
    <span class="restrictions">
      {where !== "" && (
        <span class="chip" data-chip="filter">
          <span class="dim">filter</span>
          <span class="chip-text" title={where}>
            {where}
          </span>
          <button
            type="button"
            aria-label="Remove the filter of the stacks"
            onClick={() => (store.stacks.value = { ...store.stacks.value, where: "", root: [] })}
          >
            ✕
          </button>
        </span>
      )}
      {of === "sample" ? null : idle ? (
        <button type="button" class="btn small" onClick={() => change(false)}>
          Leave out idle threads
        </button>
      ) : (
        <span class="chip" data-chip="idle">
          <span class="dim">without</span>
          <span class="chip-text">idle waits</span>
          <button type="button" aria-label="Show idle waits, too" onClick={() => change(true)}>
            ✕
          </button>
        </span>
      )}
    </span>
  );
}
