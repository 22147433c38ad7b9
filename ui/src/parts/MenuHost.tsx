/**
 * The pop-up menu: arrows move, Enter chooses, Esc or a click elsewhere closes it. One at a time.
 */
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

export interface MenuItem {
  readonly title: string;
  readonly hint?: string;
  readonly disabled?: boolean;
  readonly run: () => void;
}

interface Open {
  readonly label: string;
  readonly items: readonly MenuItem[];
  readonly x: number;
  readonly y: number;
  /** Gets the focus back when the menu closes. */
  readonly opener: HTMLElement | null;
}

const open = signal<Open | null>(null);

/** Opens a menu below the element, or at a point. */
export function openMenu(
  label: string,
  items: readonly MenuItem[],
  at: Element | { x: number; y: number },
): void {
  const place =
    at instanceof Element
      ? { x: at.getBoundingClientRect().left, y: at.getBoundingClientRect().bottom + 2 }
      : at;
  open.value = {
    label,
    items,
    ...place,
    opener: document.activeElement instanceof HTMLElement ? document.activeElement : null,
  };
}

/** Opens a menu on a right click, or on `Shift+F10` where the element has the focus. */
export function menuOf(label: string, items: () => readonly MenuItem[]) {
  return (event: MouseEvent): void => {
    event.preventDefault();
    openMenu(label, items(), { x: event.clientX, y: event.clientY });
  };
}

function close(restoreFocus = true): void {
  const was = open.peek();
  open.value = null;
  if (restoreFocus) was?.opener?.focus();
}

export function MenuHost() {
  const current = open.value;
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const menu = ref.current;
    if (!menu || !current) return;
    const { width, height } = menu.getBoundingClientRect();
    menu.style.left = `${Math.max(4, Math.min(current.x, innerWidth - width - 4))}px`;
    menu.style.top = `${Math.max(4, Math.min(current.y, innerHeight - height - 4))}px`;
    menu.querySelector<HTMLElement>("[role=menuitem]:not([aria-disabled=true])")?.focus();
  }, [current]);
  useEffect(() => {
    if (!current) return;
    const outside = (event: PointerEvent) => {
      if (!ref.current?.contains(event.target as Node)) close(false);
    };
    addEventListener("pointerdown", outside, true);
    return () => removeEventListener("pointerdown", outside, true);
  }, [current]);
  if (!current) return null;

  const move = (step: number) => {
    const items = [...(ref.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    items[(at + step + items.length) % items.length]?.focus();
  };
  return (
    // A landmark of its own: a menu lies over the page and belongs to no part of it.
    <section aria-label="Menu">
      <div
        ref={ref}
        class="menu"
        role="menu"
        aria-label={current.label}
        onKeyDown={(event) => {
          event.stopPropagation();
          if (event.key === "ArrowDown") move(1);
          else if (event.key === "ArrowUp") move(-1);
          else if (event.key === "Escape" || event.key === "Tab") close();
          else return;
          event.preventDefault();
        }}
      >
        {current.items.map((item) => (
          <button
            type="button"
            key={item.title}
            role="menuitem"
            tabIndex={-1}
            aria-disabled={item.disabled ?? false}
            class="menu-item"
            onClick={() => {
              if (item.disabled) return;
              close();
              item.run();
            }}
          >
            <span>{item.title}</span>
            {item.hint && <span class="dim">{item.hint}</span>}
          </button>
        ))}
      </div>
    </section>
  );
}
