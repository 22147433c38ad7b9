/** The column heads with the gold and the blue bar; columns are dragged across them, or moved by keys. */
import { useSignal } from "@preact/signals";
import { openMenu } from "../parts/MenuHost";
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
  /** Pixels from the head row's left. */
  readonly x: number;
  readonly moved: boolean;
}

/** A press that moves less is a click. */
const MIN_DRAG_PX = 5;

export function Heads({ of, widths }: { of: Arrangement; widths: readonly number[] }) {
  const drag = useSignal<Drag | null>(null);
  const resize = useSignal<{ text: string; from: number; width: number } | null>(null);
  const texts = [...of.by, ...of.show, ...of.graph];
  const edges = widths.reduce<number[]>(
    (sums, width) => [...sums, (sums.at(-1) ?? 0) + width],
    [0],
  );
  const gold = edges[of.by.length] ?? 0;
  const blue = edges[of.by.length + of.show.length] ?? 0;
  const { what: sorted, down } = order(of.sort);

  /** The zone and place for a pointer at `x`; near a bar, the side that the pointer is on counts. */
  const target = (x: number, text: string): { zone: Zone; index: number; line: number } => {
    const zone: Zone =
      x < Math.max(gold, 14)
        ? "by"
        : of.graph.length === 0
          ? x > blue - 14 && x > gold + 40
            ? "graph"
            : "show"
          : x >= blue
            ? "graph"
            : "show";
    const start =
      zone === "by" ? 0 : zone === "show" ? of.by.length : of.by.length + of.show.length;
    const list = of[zone];
    let index = 0;
    let others = 0;
    for (let i = 0; i < list.length; i++) {
      const middle = ((edges[start + i] ?? 0) + (edges[start + i + 1] ?? 0)) / 2;
      if (x > middle) {
        index = i + 1;
        if (list[i] !== text) others += 1;
      }
    }
    return { zone, index: others, line: edges[start + index] ?? 0 };
  };
  const apply = (text: string, zone: Zone, index: number) => {
    if (zone === "by" && asPlain(text) === null) {
      store.notify("A count cannot be grouped by.");
      return;
    }
    if (
      zone !== "by" &&
      of.by.length - (of.by.includes(text) ? 1 : 0) > 0 &&
      asAggregate(of.info, text) === null
    ) {
      store.notify(`${title(text).name} has no sum; it shows in single rows.`);
    }
    store.table.value = {
      ...store.table.value,
      ...moveTo(of, text, zone, index),
      sort: store.table.value.sort || of.sort,
    };
  };
  const drop = drag.value?.moved ? target(drag.value.x, drag.value.text) : null;

  return (
    <div class="heads" role="row" aria-rowindex={1}>
      {texts.map((text, i) => {
        const { name, tag } = title(text);
        const zone: Zone =
          i < of.by.length ? "by" : i < of.by.length + of.show.length ? "show" : "graph";
        const isSorted = sorted === text || (zone === "by" && sorted === name);
        return (
          <div
            key={text}
            role="columnheader"
            aria-sort={isSorted ? (down ? "descending" : "ascending") : "none"}
            class={`head${isNumeric(kindOf(of.info, text)) && zone !== "by" ? " num" : ""}${drag.value?.moved && drag.value.text === text ? " dragged" : ""}`}
            style={{ left: `${edges[i]}px`, width: `${widths[i]}px` }}
            data-column={text}
            data-zone={zone}
          >
            <button
              class="head-button"
              title={`${columnOf(of.info, asPlain(text) ?? "")?.doc ?? "how many rows"}\nClick to sort, drag across the gold bar to group; Alt+← → moves it, Shift+F10 for more`}
              onClick={() => {
                if (drag.value?.moved) return;
                sort(of, text);
              }}
              onContextMenu={(event) => {
                event.preventDefault();
                openMenu(name, headMenu(of, text, apply), {
                  x: event.clientX,
                  y: event.clientY,
                });
              }}
              onKeyDown={(event) => {
                event.stopPropagation();
                const by = event.altKey
                  ? { ArrowLeft: -1 as const, ArrowRight: 1 as const }[event.key]
                  : undefined;
                if (by !== undefined) {
                  const next = step(of, text, by);
                  if (next) apply(text, next.zone, next.index);
                } else if (event.key === "Delete")
                  store.table.value = {
                    ...store.table.value,
                    ...remove(of, text),
                  };
                else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey))
                  openMenu(name, headMenu(of, text, apply), event.currentTarget);
                else return;
                event.preventDefault();
              }}
              onPointerDown={(event) => {
                if (event.button !== 0) return;
                event.currentTarget.setPointerCapture(event.pointerId);
                drag.value = { text, from: event.clientX, x: 0, moved: false };
              }}
              onPointerMove={(event) => {
                if (!drag.value) return;
                const left =
                  event.currentTarget.closest(".heads")?.getBoundingClientRect().left ?? 0;
                const moved =
                  drag.value.moved || Math.abs(event.clientX - drag.value.from) > MIN_DRAG_PX;
                drag.value = { ...drag.value, x: event.clientX - left, moved };
              }}
              onPointerUp={() => {
                const dragged = drag.value;
                if (dragged?.moved) {
                  const { zone: to, index } = target(dragged.x, dragged.text);
                  apply(dragged.text, to, index);
                }
                // The click that follows belongs to the drag.
                setTimeout(() => (drag.value = null));
              }}
              onPointerCancel={() => (drag.value = null)}
            >
              {tag && <span class="tag">{tag}</span>}
              <span class="head-name">{name}</span>
              {isSorted && <span aria-hidden="true">{down ? "▾" : "▴"}</span>}
            </button>
            <span
              class="resize"
              aria-hidden="true"
              onPointerDown={(event) => {
                event.currentTarget.setPointerCapture(event.pointerId);
                resize.value = {
                  text,
                  from: event.clientX,
                  width: widths[i] ?? 100,
                };
              }}
              onPointerMove={(event) =>
                resize.value &&
                setWidth(resize.value.text, resize.value.width + event.clientX - resize.value.from)
              }
              onPointerUp={() => (resize.value = null)}
              onPointerCancel={() => (resize.value = null)}
            />
          </div>
        );
      })}
      <span
        class="bar gold"
        style={{ left: `${gold - 2}px` }}
        title="Columns left of the gold bar group"
      />
      <span
        class="bar blue"
        style={{ left: `${blue - 2}px` }}
        title="Columns right of the blue bar are drawn above"
      />
      {drop && <span class="drop" style={{ left: `${drop.line - 1}px` }} />}
    </div>
  );
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

function headMenu(
  of: Arrangement,
  text: string,
  apply: (text: string, zone: Zone, index: number) => void,
) {
  const { aggregate, column } = spec(text);
  const info = columnOf(of.info, column);
  const inBy = of.by.includes(text);
  const inGraph = of.graph.includes(text);
  const change = (to: string) => {
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
      title: "Sort, largest first",
      run: () => (store.table.value = { ...store.table.value, sort: `${text}:desc` }),
    },
    {
      title: "Sort, smallest first",
      run: () => (store.table.value = { ...store.table.value, sort: `${text}:asc` }),
    },
    ...(info && !inBy
      ? [{ title: `Group by ${column}`, run: () => apply(text, "by", of.by.length) }]
      : []),
    ...(inBy ? [{ title: "Do not group by it", run: () => apply(text, "show", 0) }] : []),
    ...(!inBy
      ? [
          {
            title: inGraph ? "Do not draw it" : "Draw it above",
            run: () =>
              apply(text, inGraph ? "show" : "graph", inGraph ? of.show.length : of.graph.length),
          },
        ]
      : []),
    ...(info && aggregate !== null
      ? aggregatesOf(info)
          .filter((name) => name !== aggregate)
          .map((name) => ({
            title: `Show the ${name}`,
            run: () => change(`${name}:${column}`),
          }))
      : []),
    { title: "Move left", hint: "Alt+←", run: () => move(of, text, -1, apply) },
    { title: "Move right", hint: "Alt+→", run: () => move(of, text, 1, apply) },
    {
      title: "Remove the column",
      hint: "Del",
      run: () => (store.table.value = { ...store.table.value, ...remove(of, text) }),
    },
  ];
}

function move(
  of: Arrangement,
  text: string,
  by: -1 | 1,
  apply: (text: string, zone: Zone, index: number) => void,
): void {
  const next = step(of, text, by);
  if (next) apply(text, next.zone, next.index);
}
