/** Commands of the page as a whole. Views register their own. */

import { server, summary } from "../api/data";
import { register } from "../commands";
import { copy } from "../copy";
import { keepAsStart, startOnAnswer } from "../startView";
import * as store from "../state/store";
import { density, start, theme } from "../state/theme";
import { helpOpen, notesOpen, paletteOpen, searchFocus } from "./panels";

const inTrace = () => store.trace.value !== null;

const toView = (view: store.View) => () => store.showView(view);

register(
  {
    id: "help",
    group: "Help",
    title: "Keys and commands",
    keys: ["Shift+Slash", "F1"],
    run: () => (helpOpen.value = true),
  },
  {
    id: "palette",
    group: "Help",
    title: "Run any command",
    keys: ["Ctrl+Shift+KeyP", "Ctrl+KeyK"],
    inFields: true,
    run: () => (paletteOpen.value = true),
  },
  {
    id: "trace.list",
    group: "Trace",
    title: "Back to the list of traces",
    when: () => (inTrace() || store.diff.value !== null) && server.value.data?.single === null,
    run: () => store.openTrace(null),
  },
  {
    id: "trace.notes",
    group: "Trace",
    title: "Notes on the trace",
    when: () => summary.value.data !== null,
    run: () => (notesOpen.value = true),
  },
  {
    id: "trace.search",
    group: "Trace",
    title: "Search threads, processes and functions",
    keys: ["Slash", "Ctrl+KeyF"],
    when: inTrace,
    run: () => (searchFocus.value += 1),
  },
  {
    id: "view.answers",
    group: "View",
    title: "Answers",
    keys: ["Digit1"],
    when: inTrace,
    run: toView("answers"),
  },
  {
    id: "view.tables",
    group: "View",
    title: "Tables",
    keys: ["Digit2"],
    when: inTrace,
    run: toView("tables"),
  },
  {
    id: "view.stacks",
    group: "View",
    title: "Stacks",
    keys: ["Digit3"],
    when: inTrace,
    run: toView("stacks"),
  },
  {
    id: "view.maximise",
    group: "View",
    title: "Cycle the layout: both, view only, timeline only",
    keys: ["KeyZ"],
    when: inTrace,
    run: () => {
      const next = { split: "view", view: "timeline", timeline: "split" } as const;
      store.layout.value = next[store.layout.value];
    },
  },
  {
    id: "view.start",
    group: "View",
    title: "Open traces with this view",
    when: inTrace,
    run: keepAsStart,
  },
  {
    id: "view.start-answer",
    group: "View",
    title: "Open traces on their answer",
    when: () => start.value !== "",
    run: startOnAnswer,
  },
  {
    id: "view.theme",
    group: "View",
    title: "Switch between dark and light",
    keys: ["KeyT"],
    run: () => (theme.value = theme.value === "dark" ? "light" : "dark"),
  },
  {
    id: "view.density",
    group: "View",
    title: "Switch between comfortable and compact rows",
    run: () => (density.value = density.value === "compact" ? "comfortable" : "compact"),
  },
  {
    id: "selection.clear",
    group: "Selection",
    title: "Clear the selection",
    keys: ["Escape"],
    when: () =>
      inTrace() && (store.isSelecting(store.selection.value) || store.event.value !== null),
    run: () => {
      // Esc undoes one thing at a time, the details first.
      if (store.event.value !== null) store.event.value = null;
      else store.clearSelection();
    },
  },
  {
    id: "selection.explain",
    group: "Selection",
    title: "Explain what the selected thread did in the selected time range, or compare several",
    keys: ["KeyE"],
    when: () =>
      inTrace() &&
      (store.canExplain.value || store.canCompare.value || store.sweptAlone.value.length > 0),
    run: store.explain,
  },
  {
    id: "copy.link",
    group: "Copy",
    title: "Copy a link to this view",
    when: inTrace,
    run: () => void copy(location.href, "the link"),
  },
);
