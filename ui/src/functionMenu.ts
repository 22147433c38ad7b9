/** What the menus of stacks, flame graphs, tables and the timeline do with a function. */
import { batch } from "@preact/signals";
import { narrow } from "./actions";
import { quoted, stackColumn } from "./api/params";
import { copy } from "./copy";
import type { MenuItem } from "./parts/MenuHost";
import * as store from "./state/store";

/** The menu of a function, the same wherever one is shown. */
export function functionMenu(name: string, of: store.StackKind): MenuItem[] {
  return [
    { title: "Callers and callees (butterfly)", run: () => butterfly(name, of) },
    { title: "Filter all views by this function", run: () => store.select({ stack: name }) },
    ...(store.view.peek() === "stacks"
      ? [
          {
            title: "Without this function",
            run: () => narrow(`not ${stackColumn(of)} ~ ${quoted(name)}`),
          },
        ]
      : []),
    { title: "Highlight it everywhere", run: () => (store.search.value = name) },
    // A function in which threads wait need not have been sampled.
    ...(of === "sample"
      ? [
          {
            title: "Samples by address, with instructions",
            run: () => byAddress(name),
          },
        ]
      : []),
    { title: "Copy the name", run: () => void copy(name, "the name") },
  ];
}

export function butterfly(name: string, of: store.StackKind): void {
  showFunction(name, of, "butterfly");
}

export function byAddress(name: string): void {
  showFunction(name, "sample", "address");
}

function showFunction(name: string, of: store.StackKind, form: "butterfly" | "address"): void {
  const now = store.stacks.peek();
  // Where the user saw it, other views leave nothing out.
  const all: Partial<store.StacksState> =
    store.view.peek() === "stacks" && now.of === of ? {} : { idle: true, scope: "all", where: "" };
  batch(() => {
    store.stacks.value = { ...now, ...all, of, form, by: "function", function: name };
    store.showView("stacks");
  });
}
