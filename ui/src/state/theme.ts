/** Dark or light, and how dense: kept by the browser, since they are the reader's and not the trace's. */
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
    // Storage can be forbidden, or hold what another program wrote.
    return {};
  }
}

export const theme = signal<Theme>("dark");
export const density = signal<Density>("comfortable");

/** Takes the stored look or the system's, and writes changes into the document; call once. */
export function applyTheme(doc: Document): void {
  const look = stored();
  theme.value =
    look.theme ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
  density.value = look.density === "compact" ? "compact" : "comfortable";
  let first = true;
  effect(() => {
    doc.documentElement.dataset.theme = theme.value;
    doc.documentElement.dataset.density = density.value;
    const look = JSON.stringify({ theme: theme.value, density: density.value });
    if (!first) {
      try {
        localStorage.setItem(KEY, look);
      } catch {
        // It then lasts as long as the page.
      }
    }
    first = false;
  });
}
