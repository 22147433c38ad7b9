/** What the menus of lanes, slices, processes and table cells do with a thread or a process. */
import { batch, type Signal } from "@preact/signals";
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
  add(store.hidden, [key]);
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

/** Shows a lane, or the lanes of a process (`p3`), and the time that a menu is about. */
function showItem(lane: string, range: Range | null): MenuItem {
  return {
    title: "Show on the timeline",
    run: () => navigateTo({ lane, from: range?.from ?? null, to: range?.to ?? null }),
  };
}

function pinItem(lane: string, called: string): MenuItem {
  const pinned = store.pins.peek().includes(lane);
  return { title: `${pinned ? "Unpin" : "Pin"} ${called}`, run: () => store.togglePin(lane) };
}

/** The items about a lane itself. */
export function pinAndHide(lane: string, called: string): MenuItem[] {
  return [pinItem(lane, called), { title: `Hide ${called}`, run: () => hide(lane) }];
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
    ...(isShown ? [] : [showItem(lane, range)]),
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
    ...pinAndHide(lane, "its lane"),
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

/** Maximum lanes that are pinned or hidden at once: more would fill the timeline, or the address. */
const MAX_LANES = 16;

/** The items about several threads: of a process, of a group of a table, or of a crowd. */
export function severalItems(
  threads: readonly ThreadIx[],
  range: Range | null,
  isShown = false,
): MenuItem[] {
  const [first, ...others] = threads;
  if (first === undefined || others.length === 0) return [];
  const lanes = threads.map((thread) => `t${thread}`);
  return [
    ...(isShown ? [] : [showItem(`t${first}`, range)]),
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
    ...(threads.length <= MAX_LANES
      ? [
          { title: "Pin its lanes", run: () => add(store.pins, lanes) },
          { title: "Hide its lanes", run: () => add(store.hidden, lanes) },
        ]
      : []),
  ];
}

function add(to: Signal<readonly string[]>, lanes: readonly string[]): void {
  to.value = [...to.peek().filter((lane) => !lanes.includes(lane)), ...lanes];
}

/** The items about a process; `threads` are all of its threads that are known. `isShown`: as above. */
export function processItems(
  process: ProcessIx,
  threads: readonly ThreadIx[],
  range: Range | null,
  isShown = false,
): MenuItem[] {
  const alone = { threads: [], process, ...(range === null ? {} : { range }) };
  const [only, ...others] = threads;
  return [
    ...(range !== null && only !== undefined && others.length === 0
      ? [{ title: "Explain its thread", hint: "E", run: () => explainThread(only, range) }]
      : []),
    ...(isShown ? [] : [showItem(`p${process}`, range)]),
    ...severalItems(threads, range, true),
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
