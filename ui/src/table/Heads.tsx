/**
 * The column heads, and the gold and blue bars across which columns are dragged or moved by keys.
 */
import { type Signal, useSignal } from "@preact/signals";
import type { ButtonHTMLAttributes, TargetedKeyboardEvent } from "preact";
import { type MenuItem, openMenu } from "../parts/MenuHost";
import * as store from "../state/store";
import {
  type Arrangement,
  aggregatesOf,
  asAggregate,
  asPlain,
  columnOf,
  kindOf,
  moveTo,
  order,
  remove,
  spec,
  step,
  title,
  type Zone,
} from "./arrange";
import { isNumeric } from "./cells";
import { setWidth } from "./widths";

interface Drag {
  readonly text: string;
  readonly from: number;
  /** Pixels from the left edge of the heads. */
  readonly x: number;
  readonly moved: boolean;
}

/** A drag shorter than this is a click. */
const MIN_DRAG_PX = 5;
/** Columns can be dropped this close to the left edge to group, or to the blue bar to draw. */
const BAR_REACH_PX = 14;

/** Where the columns and the bars are, in pixels from the left. */
interface Positions {
  /** Left edge of each column, and the right edge of the last. */
  readonly edges: readonly number[];
  readonly gold: number;
  readonly blue: number;
}

function positions(of: Arrangement, widths: readonly number[]): Positions {
  const edges = [0];
  for (const width of widths) edges.push((edges.at(-1) ?? 0) + width);
  return {
    edges,
    gold: edges[of.by.length] ?? 0,
    blue: edges[of.by.length + of.show.length] ?? 0,
  };
}

function zoneAt(of: Arrangement, { gold, blue }: Positions, x: number): Zone {
  if (x < Math.max(gold, BAR_REACH_PX)) return "by";
  if (of.graph.length > 0) return x >= blue ? "graph" : "show";
  return x > blue - BAR_REACH_PX && x > gold + 40 ? "graph" : "show";
}

/** Where a column dropped at `x` goes: its zone, its index there, and where to draw the line. */
function dropTarget(
  of: Arrangement,
  at: Positions,
  x: number,
  text: string,
): { zone: Zone; index: number; line: number } {
  const zone = zoneAt(of, at, x);
  const start = { by: 0, show: of.by.length, graph: of.by.length + of.show.length }[zone];
  let index = 0;
  // Counts without the dragged column itself.
  let others = 0;
  for (const [i, column] of of[zone].entries()) {
    const middle = ((at.edges[start + i] ?? 0) + (at.edges[start + i + 1] ?? 0)) / 2;
    if (x <= middle) continue;
    index = i + 1;
    if (column !== text) others += 1;
  }
  return { zone, index: others, line: at.edges[start + index] ?? 0 };
}

export function Heads({ of, widths }: { of: Arrangement; widths: readonly number[] }) {
  const drag = useSignal<Drag | null>(null);
  const texts = [...of.by, ...of.show, ...of.graph];
  const at = positions(of, widths);
  const drop = drag.value?.moved ? dropTarget(of, at, drag.value.x, drag.value.text) : null;
  return (
    <div class="heads" role="row" aria-rowindex={1}>
      {texts.map((text, i) => (
        <Head
          key={text}
          of={of}
          text={text}
          zone={i < of.by.length ? "by" : i < of.by.length + of.show.length ? "show" : "graph"}
          at={at}
          left={at.edges[i] ?? 0}
          width={widths[i] ?? 100}
          drag={drag}
        />
      ))}
      <span
        class="bar gold"
        style={{ left: `${at.gold - 2}px` }}
        title="The table is grouped by the columns left of the gold bar"
      />
      <span
        class="bar blue"
        style={{ left: `${at.blue - 2}px` }}
        title="Columns right of the blue bar are drawn above the table"
      />
      {drop && <span class="drop" style={{ left: `${drop.line - 1}px` }} />}
    </div>
  );
}

interface HeadProps {
  of: Arrangement;
  text: string;
  zone: Zone;
  at: Positions;
  left: number;
  width: number;
  drag: Signal<Drag | null>;
}

function Head({ of, text, zone, at, left, width, drag }: HeadProps) {
  const { name, tag } = title(text);
  const { what: sorted, down } = order(of.sort);
  const isSorted = sorted === text || (zone === "by" && sorted === name);
  const numeric = isNumeric(kindOf(of.info, text)) && zone !== "by";
  const dragged = drag.value?.moved && drag.value.text === text;
  const doc = columnOf(of.info, asPlain(text) ?? "")?.doc ?? "number of rows";
  return (
    <div
      role="columnheader"
      aria-sort={isSorted ? (down ? "descending" : "ascending") : "none"}
      class={`head${numeric ? " num" : ""}${dragged ? " dragged" : ""}`}
      style={{ left: `${left}px`, width: `${width}px` }}
      data-column={text}
      data-zone={zone}
    >
      <button
        type="button"
        class="head-button"
        title={`${doc}\n${HINT}`}
        onClick={() => {
          if (!drag.value?.moved) sort(of, text);
        }}
        onContextMenu={(event) => {
          event.preventDefault();
          openMenu(name, headMenu(of, text), { x: event.clientX, y: event.clientY });
        }}
        onKeyDown={(event) => onKeyDown(event, of, text)}
        {...dragHandlers(of, text, at, drag)}
      >
        {tag && <span class="tag">{tag}</span>}
        <span class="head-name">{name}</span>
        {isSorted && <span aria-hidden="true">{down ? "▾" : "▴"}</span>}
      </button>
      <Resizer text={text} width={width} />
    </div>
  );
}

const HINT =
  "Click to sort. Drag across the gold bar to group. Alt+← and Alt+→ move the column, Shift+F10 " +
  "opens a menu.";

function onKeyDown(event: TargetedKeyboardEvent<HTMLElement>, of: Arrangement, text: string): void {
  event.stopPropagation();
  const by = event.altKey ? ({ ArrowLeft: -1, ArrowRight: 1 } as const)[event.key] : undefined;
  if (by !== undefined) stepColumn(of, text, by);
  else if (event.key === "Delete") removeColumn(of, text);
  else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey))
    openMenu(title(text).name, headMenu(of, text), event.currentTarget);
  else return;
  event.preventDefault();
}

function dragHandlers(
  of: Arrangement,
  text: string,
  at: Positions,
  drag: Signal<Drag | null>,
): ButtonHTMLAttributes<HTMLButtonElement> {
  return {
    onPointerDown: (event) => {
      if (event.button !== 0) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      drag.value = { text, from: event.clientX, x: 0, moved: false };
    },
    onPointerMove: (event) => {
      if (!drag.value) return;
      const left = event.currentTarget.closest(".heads")?.getBoundingClientRect().left ?? 0;
      const moved = drag.value.moved || Math.abs(event.clientX - drag.value.from) > MIN_DRAG_PX;
      drag.value = { ...drag.value, x: event.clientX - left, moved };
    },
    onPointerUp: () => {
      const dragged = drag.value;
      if (dragged?.moved) {
        const { zone, index } = dropTarget(of, at, dragged.x, dragged.text);
        moveColumn(of, dragged.text, zone, index);
      }
      // Not before the click event that follows, which belongs to the drag.
      setTimeout(() => {
        drag.value = null;
      });
    },
    onPointerCancel: () => {
      drag.value = null;
    },
  };
}

/** The handle at a column's right edge. */
function Resizer({ text, width }: { text: string; width: number }) {
  const start = useSignal<{ from: number; width: number } | null>(null);
  const end = () => {
    start.value = null;
  };
  return (
    <span
      class="resize"
      aria-hidden="true"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        start.value = { from: event.clientX, width };
      }}
      onPointerMove={(event) => {
        if (start.value) setWidth(text, start.value.width + event.clientX - start.value.from);
      }}
      onPointerUp={end}
      onPointerCancel={end}
    />
  );
}

/** Moves a column, unless it cannot be grouped by. */
function moveColumn(of: Arrangement, text: string, zone: Zone, index: number): void {
  if (zone === "by" && asPlain(text) === null) {
    store.notify("A count cannot be grouped by.");
    return;
  }
  const remainsGrouped = of.by.some((column) => column !== text);
  if (zone !== "by" && remainsGrouped && asAggregate(of.info, text) === null)
    store.notify(`${title(text).name} has no aggregate; it is shown in single rows.`);
  store.table.value = {
    ...store.table.value,
    ...moveTo(of, text, zone, index),
    sort: store.table.value.sort || of.sort,
  };
}

/** Moves a column by one to the left (−1) or right (1). */
function stepColumn(of: Arrangement, text: string, by: -1 | 1): void {
  const next = step(of, text, by);
  if (next) moveColumn(of, text, next.zone, next.index);
}

function removeColumn(of: Arrangement, text: string): void {
  store.table.value = { ...store.table.value, ...remove(of, text) };
}

function sort(of: Arrangement, text: string): void {
  const { what, down } = order(of.sort);
  const first = isNumeric(kindOf(of.info, text)) ? "desc" : "asc";
  const next = what === text ? (down ? "asc" : "desc") : first;
  store.table.value = {
    ...store.table.value,
    by: store.table.value.by.length ? store.table.value.by : of.by.length ? of.by : ["none"],
    show: of.show,
    graph: of.graph,
    sort: `${text}:${next}`,
  };
}

/** The column of ids beside a column of names. */
const IDS: Readonly<Record<string, string>> = {
  process: "pid",
  thread: "tid",
  "woken by": "woken by tid",
  "woken by process": "woken by pid",
  culprit: "culprit tid",
  "lock owner": "lock owner tid",
};

/** Groups by a name hold all that share it: this groups each of them by its id, too. */
function tellApart(of: Arrangement, text: string): MenuItem[] {
  const id = IDS[text];
  const at = of.by.indexOf(text);
  if (id === undefined || at < 0 || of.by.includes(id) || !columnOf(of.info, id)) return [];
  return [
    {
      title: "Tell those of one name apart",
      hint: id,
      run: () => {
        store.table.value = {
          ...store.table.value,
          by: [...of.by.slice(0, at + 1), id, ...of.by.slice(at + 1)],
          show: of.show,
          graph: of.graph,
        };
      },
    },
  ];
}

function headMenu(of: Arrangement, text: string): MenuItem[] {
  const { aggregate, column } = spec(text);
  const info = columnOf(of.info, column);
  const inBy = of.by.includes(text);
  const inGraph = of.graph.includes(text);
  const replaceBy = (to: string) => {
    const swap = (list: readonly string[]) => list.map((other) => (other === text ? to : other));
    store.table.value = {
      ...store.table.value,
      by: of.by,
      show: swap(of.show),
      graph: swap(of.graph),
    };
  };
  return [
    {
      title: "Sort descending",
      run: () => (store.table.value = { ...store.table.value, sort: `${text}:desc` }),
    },
    {
      title: "Sort ascending",
      run: () => (store.table.value = { ...store.table.value, sort: `${text}:asc` }),
    },
    ...(info && !inBy
      ? [{ title: `Group by ${column}`, run: () => moveColumn(of, text, "by", of.by.length) }]
      : []),
    ...(inBy
      ? [{ title: "Stop grouping by this", run: () => moveColumn(of, text, "show", 0) }]
      : []),
    ...tellApart(of, text),
    ...(!inBy
      ? [
          {
            title: inGraph ? "Stop drawing this" : "Draw above the table",
            run: () =>
              moveColumn(
                of,
                text,
                inGraph ? "show" : "graph",
                inGraph ? of.show.length : of.graph.length,
              ),
          },
        ]
      : []),
    ...(info && aggregate !== null
      ? aggregatesOf(info)
          .filter((name) => name !== aggregate)
          .map((name) => ({
            title: `Show the ${name}`,
            run: () => replaceBy(`${name}:${column}`),
          }))
      : []),
    { title: "Move left", hint: "Alt+←", run: () => stepColumn(of, text, -1) },
    { title: "Move right", hint: "Alt+→", run: () => stepColumn(of, text, 1) },
    {
      title: "Remove the column",
      hint: "Del",
      run: () => removeColumn(of, text),
    },
  ];
}
