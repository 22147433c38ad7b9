/**
 * Colour theme, density, the wheel's habit and the start view. The browser stores them: they belong
 * to the user, not to the trace.
 */
import { batch, effect, signal } from "@preact/signals";

export type Theme = "dark" | "light";
export type Density = "comfortable" | "compact";
/** What the wheel does over the timeline; the other one with a key. */
export type Wheel = "scroll" | "zoom";

const KEY = "unhitch-look";
/** A window that is lower than this is small. */
export const SMALL_SCREEN_PX = 800;

/** A start view that is longer was not written by the page. */
const MAX_START = 4000;

/** What is stored; nothing of it can be relied on. */
type Stored = Partial<Record<"theme" | "density" | "wheel" | "start", unknown>>;

function stored(): Stored {
  try {
    // Also `null`, which is JSON, too.
    return (JSON.parse(localStorage.getItem(KEY) ?? "{}") as Stored | null) ?? {};
  } catch {
    // Storage can be forbidden, or hold something that another program wrote.
    return {};
  }
}

function oneOf<T extends string>(allowed: readonly T[], value: unknown): T | undefined {
  return allowed.find((one) => one === value);
}

export const theme = signal<Theme>("dark");
export const density = signal<Density>("comfortable");
export const wheel = signal<Wheel>("scroll");
/** What traces open with, as an address (`startView.ts`); empty: their answer. */
export const start = signal("");

/** Reads what is stored; what is missing or wrong is as usual. */
function read(): void {
  const { theme: colours, density: rows, wheel: habit, start: view } = stored();
  // A small screen has room for ten rows of a table, or a chain, only if they are compact.
  const usualRows = innerHeight < SMALL_SCREEN_PX ? "compact" : "comfortable";
  const usual = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  batch(() => {
    theme.value = oneOf(["dark", "light"], colours) ?? usual;
    density.value = oneOf(["comfortable", "compact"], rows) ?? usualRows;
    wheel.value = oneOf(["scroll", "zoom"], habit) ?? "scroll";
    start.value = typeof view === "string" && view.length <= MAX_START ? view : "";
  });
}

/** Applies the stored or the system's theme and keeps the document up to date; call once. */
export function applyTheme(doc: Document): void {
  read();
  // Or the next change here would undo what another tab has stored.
  addEventListener("storage", (event) => event.key === KEY && read());
  let first = true;
  effect(() => {
    doc.documentElement.dataset.theme = theme.value;
    doc.documentElement.dataset.density = density.value;
    const changed = JSON.stringify({
      theme: theme.value,
      density: density.value,
      wheel: wheel.value,
      start: start.value,
    });
    if (!first) {
      try {
        localStorage.setItem(KEY, changed);
      } catch {
        // Without storage, the choice lasts as long as the page.
      }
    }
    first = false;
  });
}
