/** Colour theme and density. The browser stores them: they belong to the user, not to the trace. */
import { effect, signal } from "@preact/signals";

export type Theme = "dark" | "light";
export type Density = "comfortable" | "compact";

const KEY = "unhitch-look";

interface Preferences {
  theme?: Theme;
  density?: Density;
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

/** Applies the stored or the system's theme and keeps the document up to date; call once. */
export function applyTheme(doc: Document): void {
  const preferences = stored();
  theme.value =
    preferences.theme ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
  density.value = preferences.density === "compact" ? "compact" : "comfortable";
  let first = true;
  effect(() => {
    doc.documentElement.dataset.theme = theme.value;
    doc.documentElement.dataset.density = density.value;
    const changed = JSON.stringify({ theme: theme.value, density: density.value });
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
