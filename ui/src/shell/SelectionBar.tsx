/** The selection that filters every view, each part with its own remove button; and the layout. */
import { processItems, threadItems } from "../actions";
import { processName, summary, threadName } from "../api/data";
import { type MenuItem, menuOf } from "../parts/MenuHost";
import * as store from "../state/store";
import { durationText, lengthOf, plural, timeText } from "../units";

interface Chip {
  readonly id: string;
  readonly what: string;
  readonly text: string;
  readonly clear: Partial<store.Selection>;
  readonly menu?: () => MenuItem[];
}

export function SelectionBar() {
  const { range, threads, process, stack } = store.selection.value;
  const chips: Chip[] = [];
  if (range !== null) {
    const length = lengthOf(range);
    const [from, to] = [range.from, range.to].map((at) => timeText(at, length / 100));
    chips.push({
      id: "range",
      what: "time range",
      text: `${from} – ${to} (${durationText(length)})`,
      clear: { range: null },
    });
  }
  for (const thread of threads)
    chips.push({
      id: threads.length > 1 ? `thread-${thread}` : "thread",
      what: "thread",
      text: threadName(thread),
      clear: { threads: threads.filter((other) => other !== thread) },
      menu: () => threadItems(thread, range),
    });
  if (process !== null)
    chips.push({
      id: "process",
      what: "process",
      text: processName(process),
      clear: { process: null },
      menu: () => processItems(process, [], range),
    });
  if (stack !== null)
    chips.push({ id: "stack", what: "function", text: stack, clear: { stack: null } });
  const hidden = store.hidden.value.length;
  return (
    <div class="selection-bar" role="group" aria-label="Selection, which filters every view">
      {chips.length === 0 && (
        <span class="dim">
          No filter. Drag in the timeline or the overview to select a time range, which filters
          every view.
        </span>
      )}
      {chips.map((chip) => (
        <span
          key={chip.id}
          class="chip"
          data-chip={chip.id}
          onContextMenu={chip.menu && menuOf(chip.text, chip.menu)}
        >
          <span class="dim">{chip.what}</span>
          <span class="chip-text" title={chip.text}>
            {chip.text}
          </span>
          <button
            type="button"
            aria-label={`Remove the selected ${chip.what}`}
            onClick={() => store.select(chip.clear)}
          >
            ✕
          </button>
        </span>
      ))}
      {stack !== null && (
        <span class="note">
          does not filter{" "}
          {store.view.value === "answers" ? "the stalls and the timeline" : "the timeline"}
        </span>
      )}
      {hidden > 0 && (
        <span class="chip" data-chip="hidden">
          <span class="dim">hidden</span>
          <span class="chip-text">{plural(hidden, "lane or process", "lanes or processes")}</span>
          <button
            type="button"
            aria-label="Show all hidden lanes"
            onClick={() => (store.hidden.value = [])}
          >
            ✕
          </button>
        </span>
      )}
      {chips.length > 1 && (
        <button type="button" class="btn small" onClick={() => store.clearSelection()}>
          Clear all
        </button>
      )}
      {store.canCompare.value && (store.stall.value !== null || store.view.value !== "answers") && (
        <button
          type="button"
          class="btn small"
          title="Where did the time of each of them go? (E)"
          onClick={store.explain}
        >
          Compare these
        </button>
      )}
      <Caveats />
      {store.canExplain.value && store.stall.value !== null && (
        <button
          type="button"
          class="btn small"
          title="What did this thread do in this time range? (E)"
          onClick={store.explain}
        >
          Explain this
        </button>
      )}
      <span class="layouts" role="group" aria-label="Layout">
        {store.LAYOUTS.map((layout) => (
          <button
            type="button"
            key={layout}
            class="btn small"
            aria-pressed={store.layout.value === layout}
            onClick={() => (store.layout.value = layout)}
            title={`${TITLES[layout]} (Z cycles)`}
          >
            {NAMES[layout]}
          </button>
        ))}
      </span>
    </div>
  );
}

const NAMES = { split: "Both", view: "View", timeline: "Timeline" } as const;
const TITLES = {
  split: "View above, timeline below",
  view: "View only",
  timeline: "Timeline only",
} as const;

/** What the trace lost, lacks or leaves in doubt: once, behind one mark. */
function Caveats() {
  const warnings = [...(summary.value.data?.warnings ?? []), ...store.viewCaveats.value];
  const lost = summary.value.data?.lost ?? 0;
  if (warnings.length === 0 && lost === 0) return null;
  return (
    <details class="warnings">
      <summary>
        ⚠ {lost > 0 ? `${plural(lost, "event")} lost` : plural(warnings.length, "caveat")}
      </summary>
      <ul>
        {lost > 0 && warnings.length === 0 && <li>{plural(lost, "event")} lost</li>}
        {warnings.map((warning, i) => (
          <li key={i}>{warning}</li>
        ))}
      </ul>
    </details>
  );
}
