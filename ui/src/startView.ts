/**
 * The start view: what traces open with from the list, if the user chose it. The browser stores an
 * address without what belongs to one trace. Where an address says what to show, it wins.
 */
import { batch, effect } from "@preact/signals";
import { tables } from "./api/data";
import * as store from "./state/store";
import { start } from "./state/theme";
import { current, ofAnyTrace, parse, replacing, restore, write } from "./state/url";
import { tableOfAnyTrace } from "./table/anyTrace";

/** Opens a trace with the start view. */
export function openWithStart(trace: string): void {
  const state = ofAnyTrace(parse(start.peek()));
  batch(() => {
    store.openTrace(trace);
    restore({ ...state, trace, list: store.list.peek() });
    store.unchecked.value = state.table;
  });
}

effect(() => {
  const { data } = tables.value;
  const table = store.unchecked.value;
  if (data === null || table === null) return;
  replacing(() =>
    batch(() => {
      store.unchecked.value = null;
      if (store.table.peek() !== table) return;
      const usable = tableOfAnyTrace(data, table);
      store.table.value = usable ?? store.NO_TABLE;
      if (usable !== null || store.view.peek() !== "tables") return;
      store.view.value = "answers";
      store.layout.value = "split";
    }),
  );
});

/** Makes the current view the start view. */
export function keepAsStart(): void {
  const state = ofAnyTrace(current());
  const { data } = tables.peek();
  const table =
    data === null ? state.table : (tableOfAnyTrace(data, state.table) ?? store.NO_TABLE);
  start.value = write({ ...state, table });
  const lost = state.table.where !== table.where;
  if (start.value === "") startOnAnswer();
  else if (lost)
    store.notify(
      "From now on, traces open with this view, but without its filter, which is about this trace.",
    );
  else store.notify("From now on, traces open with this view.");
}

/** Lets traces open as usual. */
export function startOnAnswer(): void {
  start.value = "";
  store.notify("From now on, traces open on their answer.");
}
