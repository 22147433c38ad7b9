/** Colour theme, density and the wheel's habit. The browser stores them: they belong to the user, not to the trace. */
import { effect, signal } from "@preact/signals";

export type Theme = "dark" | "light";
export type Density = "comfortable" | "compact";
/** What the wheel does over the timeline; the other one with a key. */
export type Wheel = "scroll" | "zoom";

const KEY = "unhitch-look";
/** A window that is lower than this is small. */
export const SMALL_SCREEN_PX = 800;

interface Preferences {
  theme?: Theme;
  density?: Density;
  wheel?: Wheel;
}

function stored(): Preferences {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}") as Preferences;
  } catch {
    // Storage can be forbidden, or hold something that another program wrote.
    return {};
  }
}

export const theme = signal<Theme>("dark");
export const density = signal<Density>("comfortable");
export const wheel = signal<Wheel>("scroll");

/** Applies the stored or the system's theme and keeps the document up to date; call once. */
export function applyTheme(doc: Document): void {
  const preferences = stored();
  theme.value =
    preferences.theme ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
  // A small screen has room for ten rows of a table, or a chain, only if they are compact.
  const usual = innerHeight < SMALL_SCREEN_PX ? "compact" : "comfortable";
  density.value = preferences.density ?? usual;
  wheel.value = preferences.wheel === "zoom" ? "zoom" : "scroll";
  let first = true;
  effect(() => {
    doc.documentElement.dataset.theme = theme.value;
    doc.documentElement.dataset.density = density.value;
    const changed = JSON.stringify({
      theme: theme.value,
      density: density.value,
      wheel: wheel.value,
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
