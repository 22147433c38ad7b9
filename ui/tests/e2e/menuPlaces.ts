/** The places that have a menu, how it is opened there, and what it must have. */
import type { Page } from "playwright-core";
import { lanePoint, shownWindow } from "./harness";

export interface Place {
  readonly name: string;
  /** Added to the address of the open trace; null for the folder. */
  readonly query: string | null;
  /** Opens the menu. */
  readonly open: (page: Page) => Promise<void>;
  /** Items that must be there. */
  readonly items: readonly (string | RegExp)[];
}

export const secondary = (selector: string) => async (page: Page) => {
  await page.locator(selector).first().click({ button: "right" });
};

/** Right-clicks a row of the timeline: its name, or its slice at a share of the plot. */
export const row = (selector: string, share: number | null) => async (page: Page) => {
  const { x, y } = await lanePoint(page, selector, share);
  await page.mouse.click(x, y, { button: "right" });
};

/** Right-clicks the last arrow of the wait chain: halfway between its two lanes. */
export const arrow = async (page: Page) => {
  const arrows = await page.evaluate(async () => {
    const answer = await (await fetch("/api/t/starve.hitch/stall/1")).json();
    return answer.arrows as { at: number; from_lane: string; to_lane: string }[];
  });
  const { at, from_lane, to_lane } = arrows.at(-1) as (typeof arrows)[number];
  const { from, to } = await shownWindow(page);
  const [a, b] = await Promise.all(
    [from_lane, to_lane].map((lane) =>
      lanePoint(page, `[data-in=chain][data-lane=${lane}]`, (at - from) / (to - from)),
    ),
  );
  if (!a || !b) throw new Error("no arrow");
  await page.mouse.click(a.x, (a.y + b.y) / 2 + 8, { button: "right" });
};

/** A menu that follows an item of another one. */
const following =
  (first: (page: Page) => Promise<void>, item: string | RegExp) => async (page: Page) => {
    await first(page);
    await page.getByRole("menuitem", { name: item }).click();
    await page.getByRole("menuitem", { name: item }).waitFor({ state: "detached" });
  };

export const SLICE = ".tl-tree [data-in^=p][data-lane^=t]";

export const THREAD = [
  "Only this thread, in all views",
  "Without this thread",
  "Pin its lane",
  "Hide its lane",
  "Flame graph of its waits",
  "Flame graph of its samples",
  "Table of its waits",
];
const CPU = ["Pin this CPU", "Hide this CPU"];
/** The same, where the menu is not on the timeline. */
const ELSEWHERE = ["Show on the timeline", ...THREAD];
const ARROW = [
  "Show the wake-up and its waker",
  "Show the woken thread",
  "Explain the wait that it ended",
  "Show the waker's stack",
  "Copy the waker's stack",
  "Callers and callees of the waker's function",
  "Flame graph of all its wake-ups",
  "Copy the wake-up",
  /^The waker, inspector \d+.* …$/,
  /^The woken thread, typing \d+.* …$/,
];
const FUNCTION = [
  "Callers and callees (butterfly)",
  "Filter all views by this function",
  "Highlight it everywhere",
  "Copy the name",
];

export const PLACES: readonly Place[] = [
  {
    name: "a stall of the list",
    query: "",
    open: secondary("[data-stall-row]"),
    items: ["Open it", "Select its time range", "Explain this", ...ELSEWHERE, "Copy the line"],
  },
  {
    name: "a part of the partition",
    query: "",
    open: secondary(".parts tr"),
    items: ["Explain this", ...ELSEWHERE, "Copy the line"],
  },
  {
    name: "a slice of a lane",
    query: "",
    open: row(SLICE, 0.5),
    items: ["Explain this", ...THREAD, "Zoom to it", "Functions of this wait …"],
  },
  {
    name: "a lane's name",
    query: "",
    open: row(SLICE, null),
    items: THREAD,
  },
  {
    name: "the functions of a wait",
    query: "",
    open: following(row(SLICE, 0.5), "Functions of this wait …"),
    items: [/^Callers and callees of /, /^Waits without .*, as a table$/],
  },
  {
    name: "the tracks",
    query: "",
    open: following(row(SLICE, 0.5), "Tracks …"),
    items: ["Add CPU over time", "Add Run queue", "Add Pressure", "Add Disk bytes"],
  },
  {
    name: "a track",
    query: "tracks=queue-over-time",
    open: row("[data-in=tracks]", 0.5),
    items: ["Remove the track", "Show as a table"],
  },
  {
    name: "what ran on a CPU",
    query: "",
    open: row("[data-lane=c1]", 0.5),
    items: [...ELSEWHERE, ...CPU, "Zoom to it", "Sort the lanes by relevance"],
  },
  {
    name: "a CPU's name",
    query: "",
    open: row("[data-lane=c1]", null),
    items: [...CPU, "Show the whole trace"],
  },
  {
    name: "an arrow of the wait chain",
    query: "",
    open: arrow,
    items: ARROW,
  },
  {
    name: "the arrow to a lane of the chain, by keyboard",
    query: "",
    open: async (page) => {
      await page.locator(".tl-tree").focus();
      // From the first row, the header of the chain, to its first lane.
      await page.keyboard.press("Home");
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Shift+F10");
    },
    items: [...ARROW, ...THREAD],
  },
  {
    name: "the waker of an arrow",
    query: "",
    open: following(arrow, /^The waker, inspector/),
    items: THREAD,
  },
  {
    name: "a process",
    query: "",
    open: row(".tl-tree [data-section^=p]", null),
    items: [
      "Only this process, in all views",
      "Without this process",
      "Hide the process",
      "Table of its waits",
    ],
  },
  {
    name: "a group of threads of a table",
    query: "view=tables&by=process",
    open: secondary(".grid-row .cell"),
    items: [
      /^Only /,
      /^Without /,
      "Over time, only this",
      "Flame graph of this group",
      "Show on the timeline",
      "Only this process, in all views",
      "Without this process",
    ],
  },
  {
    name: "a group of two threads of a table",
    query:
      "range=&view=tables&by=reason&where=reason = kernel_work and (thread = typing or thread = inspector)",
    open: secondary(".grid-row .cell"),
    items: [
      "Show on the timeline",
      "Compare its threads",
      "Select its 2 threads",
      "Pin its lanes",
      "Hide its lanes",
    ],
  },
  {
    name: "a group of one thread of a table",
    query: "view=tables&by=process,thread,pid,tid&where=thread = typing",
    open: secondary(".grid-row .cell"),
    items: ["Explain this", ...ELSEWHERE, "Flame graph of this group"],
  },
  {
    name: "a single row of a table",
    query: "view=tables&by=none&show=thread,waited,reason",
    open: secondary(".grid-row .cell"),
    items: ["Explain this", ...ELSEWHERE],
  },
  {
    name: "a stack of a table",
    query: "view=tables&by=wait stack",
    open: secondary(".grid-row .cell.stack"),
    items: [
      "Show the whole stack",
      /^Callers and callees of /,
      /^Filter all views by /,
      "Flame graph of this group",
      "Over time, only this",
    ],
  },
  {
    name: "the head of a column of names",
    query: "view=tables&by=reason,process",
    open: secondary("[data-column=process] .head-button"),
    items: ["Sort ascending", "Stop grouping by this", "Tell those of one name apart"],
  },
  {
    name: "the head of a column of values",
    query: "view=tables&by=process&graph=sum:waited&show=count,max:waited",
    open: secondary("[data-column='max:waited'] .head-button"),
    items: ["Group by waited", "Draw above the table", "Show the avg", "Remove the column"],
  },
  {
    name: "a frame of the flame graph",
    query: "view=stacks&form=icicle",
    open: async (page) => {
      const box = await page.locator(".flame canvas").boundingBox();
      if (!box) throw new Error("no flame graph");
      await page.mouse.click(box.x + 30, box.y + 18 * 1.5, { button: "right" });
    },
    items: ["Zoom to this frame", ...FUNCTION, "Without this function", "Copy the stack"],
  },
  {
    name: "a function of the butterfly",
    query: "view=stacks&form=butterfly",
    open: secondary(".ranked [data-function]"),
    items: [...FUNCTION, "Without this function"],
  },
  {
    name: "a caller of the butterfly",
    query: "view=stacks&form=butterfly&function=futex_do_wait",
    open: secondary(".wing [aria-level='2']"),
    items: [...FUNCTION, "Without this function"],
  },
  {
    name: "a function by address",
    query: "view=stacks&of=sample&form=address",
    // By key: a right click on another function is tried at the butterfly.
    open: async (page) => {
      await page.locator(".ranked .name").first().focus();
      await page.keyboard.press("Shift+F10");
    },
    items: [...FUNCTION, "Without this function", "Samples by address, with instructions"],
  },
  {
    name: "a frame of a whole stack",
    query: "view=tables&by=wait stack",
    open: async (page) => {
      await following(secondary(".grid-row .cell.stack"), "Show the whole stack")(page);
      await secondary(".frames .frame")(page);
    },
    items: FUNCTION,
  },
  {
    name: "a thread of a comparison",
    query: "stall=&range=500000000-1500000000&thread=3,4",
    open: secondary(".compare-row .text-link"),
    items: ["Explain this", ...ELSEWHERE],
  },
  {
    name: "a thread of the box of a drag",
    query: "range=500000000-1500000000&swept=3,4",
    open: async (page) => {
      await page.locator(".tl-swept dt button").first().focus();
      await page.keyboard.press("Shift+F10");
    },
    items: ["Explain this", ...ELSEWHERE],
  },
  {
    name: "a trace of the folder",
    query: null,
    open: secondary("[data-trace] .trace-open"),
    items: ["Open", "Rename …", "Delete …"],
  },
];
