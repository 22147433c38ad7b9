/** What the menus of lanes, slices, processes and table cells do with a thread or a process. */
import { batch } from "@preact/signals";
import { tables } from "./api/data";
import { pidOf, tidOf } from "./api/ids";
import { joined } from "./api/params";
import { asApiError } from "./api/query";
import { navigateTo } from "./navigate";
import type { MenuItem } from "./parts/MenuHost";
import * as store from "./state/store";
import { type ProcessIx, plural, type Range, range, type ThreadIx, threadIx } from "./units";

/** Explains what a thread did in a time range, like a stall. */
export function explainThread(thread: ThreadIx, range: Range): void {
  batch(() => {
    store.select({ threads: [thread], process: null, range });
    store.explain();
  });
}

/** Opens the flame graph of a part of the trace, limited by a filter. */
export function flameOf(
  of: store.StackKind,
  part: Partial<store.Selection>,
  filter: Partial<Pick<store.StacksState, "where" | "idle">> = {},
): void {
  batch(() => {
    store.select(part);
    store.stacks.value = {
      ...store.stacks.peek(),
      of,
      root: [],
      where: "",
      ...filter,
      form: store.stacks.peek().form === "icicle" ? "icicle" : "flame",
    };
    store.showView("stacks");
  });
}

/** Shows only the stacks or the table rows of a part of the trace, in a table. */
export function tableOf(preset: string, part: Partial<store.Selection>, where = ""): void {
  batch(() => {
    store.select(part);
    store.table.value = { ...store.NO_TABLE, preset, table: preset, where };
    store.showView("tables");
  });
}

export function hide(key: string): void {
  store.hidden.value = [...store.hidden.peek().filter((k) => k !== key), key];
}

/** Narrows the stacks if they are shown, else the table, and shows it. */
export function narrow(filter: string): void {
  const view = store.view.peek() === "stacks" ? "stacks" : "tables";
  batch(() => {
    if (view === "tables") {
      const table = store.table.peek();
      store.table.value = { ...table, where: joined(table.where, filter) };
    } else {
      const stacks = store.stacks.peek();
      store.stacks.value = { ...stacks, where: joined(stacks.where, filter), root: [] };
    }
    store.showView(view);
  });
}

/** The table of whose columns such a filter consists. */
function filtered(): string {
  if (store.view.peek() === "stacks") return TABLES[store.stacks.peek().of];
  const { preset, table } = store.table.peek();
  return (
    (preset === table && tables.peek().data?.presets.find((p) => p.id === preset)?.table) || table
  );
}

const TABLES: Readonly<Record<store.StackKind, string>> = {
  wait: "waits",
  wake: "wakes",
  sample: "samples",
};

/** Leaves a thread or a process out of the table or the stacks, if they can be filtered by it. */
function without(
  what: "thread" | "process",
  column: "tid" | "pid",
  id: () => Promise<number | null>,
): MenuItem[] {
  const table = tables.peek().data?.tables.find((one) => one.table === filtered());
  if (!table?.columns.some((one) => one.name === column)) return [];
  const run = async () => {
    const from = [store.trace.peek(), store.view.peek()].join();
    try {
      const number = await id();
      // Its answer may come late.
      const isHere = [store.trace.peek(), store.view.peek()].join() === from;
      if (!isHere) return;
      if (number === null) store.notify(`The ${column} of this ${what} is not known`);
      else narrow(`${column} != ${number}`);
    } catch (error) {
      store.notify(asApiError(error).message);
    }
  };
  const hint = store.view.peek() === "answers" ? "as a table" : column;
  return [{ title: `Without this ${what}`, hint, run: () => void run() }];
}

/** Shows a thread's lane, and the time that a menu is about, even if the user hid the lane. */
function showThread(lane: string, range: Range | null): void {
  batch(() => {
    store.hidden.value = store.hidden.peek().filter((key) => key !== lane);
    navigateTo({ lane, from: range?.from ?? null, to: range?.to ?? null });
  });
}

function pinItem(lane: string, called: string): MenuItem {
  const pinned = store.pins.peek().includes(lane);
  return { title: `${pinned ? "Unpin" : "Pin"} ${called}`, run: () => store.togglePin(lane) };
}

/**
 * The items about a thread; `range` is the slice or the selection that the menu is about. `isShown`:
 * the menu is where the thread is on the timeline, or leads there itself.
 */
export function threadItems(thread: ThreadIx, range: Range | null, isShown = false): MenuItem[] {
  const lane = `t${thread}`;
  const { threads } = store.selection.peek();
  const alone = { threads: [thread], process: null, ...(range === null ? {} : { range }) };
  return [
    ...(isShown ? [] : [{ title: "Show on the timeline", run: () => showThread(lane, range) }]),
    ...(range === null
      ? []
      : [{ title: "Explain this", hint: "E", run: () => explainThread(thread, range) }]),
    {
      title: "Only this thread, in all views",
      run: () => store.select({ threads: [thread], process: null }),
    },
    ...without("thread", "tid", () => tidOf(thread)),
    {
      title: threads.includes(thread)
        ? "Remove from the selected threads"
        : "Add to the selected threads",
      hint: "Ctrl+click",
      run: () => store.addThread(thread),
    },
    pinItem(lane, "the lane"),
    { title: "Hide the lane", run: () => hide(lane) },
    { title: "Flame graph of its waits", run: () => flameOf("wait", alone) },
    { title: "Flame graph of its samples", run: () => flameOf("sample", alone) },
    { title: "Table of its waits", run: () => tableOf("waits", alone) },
  ];
}

/** The items about the thread of a lane that is linked, in the time told of it; none about a CPU's. */
export function laneItems({
  lane,
  from,
  to,
}: {
  lane: string | null;
  from: number | null;
  to: number | null;
}): MenuItem[] {
  const thread = /^t(\d+)$/.exec(lane ?? "");
  const time = from !== null && to !== null && to > from ? range(from, to) : null;
  return thread ? threadItems(threadIx(Number(thread[1])), time, true) : [];
}

/** Maximum lanes that are pinned at once: more would fill the timeline. */
const MAX_PINS = 16;

/** The items about several threads: of a process, or of a group of a table. */
export function severalItems(threads: readonly ThreadIx[], range: Range | null): MenuItem[] {
  if (threads.length < 2) return [];
  const lanes = threads.map((thread) => `t${thread}`);
  return [
    ...(range === null
      ? []
      : [
          {
            title: "Compare its threads",
            hint: "E",
            run: () => {
              batch(() => {
                store.select({ threads, process: null, range });
                store.explain();
              });
            },
          },
        ]),
    {
      title: `Select its ${plural(threads.length, "thread")}`,
      run: () => store.select({ threads, process: null }),
    },
    ...(threads.length <= MAX_PINS
      ? [
          {
            title: "Pin its lanes",
            run: () =>
              (store.pins.value = [
                ...store.pins.peek().filter((lane) => !lanes.includes(lane)),
                ...lanes,
              ]),
          },
        ]
      : []),
  ];
}

/** The items about a process; `threads` are all of its threads that are known. */
export function processItems(
  process: ProcessIx,
  threads: readonly ThreadIx[],
  range: Range | null,
): MenuItem[] {
  const alone = { threads: [], process, ...(range === null ? {} : { range }) };
  const [only, ...others] = threads;
  return [
    ...(range !== null && only !== undefined && others.length === 0
      ? [{ title: "Explain its thread", hint: "E", run: () => explainThread(only, range) }]
      : []),
    ...severalItems(threads, range),
    ...(only !== undefined && others.length === 0 ? [pinItem(`t${only}`, "its lane")] : []),
    {
      title: "Only this process, in all views",
      run: () => store.select({ threads: [], process }),
    },
    ...without("process", "pid", () => pidOf(process)),
    { title: "Hide the process", run: () => hide(`p${process}`) },
    { title: "Flame graph of its waits", run: () => flameOf("wait", alone) },
    { title: "Flame graph of its samples", run: () => flameOf("sample", alone) },
    { title: "Table of its waits", run: () => tableOf("waits", alone) },
  ];
}
