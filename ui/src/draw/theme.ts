/** The page's CSS variables, as the canvases need them. */
import { hsl, lightness, type Pixel, parse } from "./colour";
import { STATES } from "./states";

/** The colours of the groups of a series, by rank. */
export const GROUPS: readonly string[] = [
  "--blue",
  "--gold",
  "--lock",
  "--ran",
  "--ipc",
  "--memory",
  "--runnable",
];

/** Number of hues by which CPU lanes distinguish processes. */
export const HUES = 16;

export interface Theme {
  readonly dark: boolean;
  readonly ground: Pixel;
  readonly text: string;
  readonly dim: string;
  readonly line: string;
  readonly panel: string;
  readonly raised: string;
  readonly accent: string;
  readonly select: string;
  readonly lost: string;
  readonly warn: string;
  readonly bad: string;
  readonly font: string;
  readonly states: readonly Pixel[];
  readonly hues: readonly Pixel[];
  /** The groups of a series, by rank. */
  readonly groups: readonly string[];
}

export const FALLBACK: Pixel = 0xff808080;

/** Reads the page's CSS variables; `get` returns the value of one. */
export function readTheme(get: (variable: string) => string): Theme {
  const pixel = (variable: string): Pixel => parse(get(variable)) ?? FALLBACK;
  const text = (variable: string, otherwise: string): string => get(variable).trim() || otherwise;
  const ground = pixel("--panel");
  const dark = lightness(ground) < 0.5;
  return {
    dark,
    ground,
    text: text("--text", "#888"),
    dim: text("--dim", "#888"),
    line: text("--line", "#888"),
    panel: text("--panel", "#888"),
    raised: text("--raised", "#888"),
    accent: text("--accent", "#48f"),
    select: text("--select", "rgba(80,140,255,.15)"),
    lost: text("--lost", "#888"),
    warn: text("--warn", "#c80"),
    bad: text("--bad", "#d33"),
    font: text("--font", "sans-serif"),
    states: STATES.map((s) => pixel(s.variable)),
    groups: GROUPS.map((variable) => text(variable, "#888")),
    // Neighbouring numbers get distant hues: 7 and 16 have no common factor.
    hues: Array.from({ length: HUES }, (_, n) =>
      hsl(((n * 7) % HUES) * (360 / HUES), dark ? 0.42 : 0.5, dark ? 0.52 : 0.6),
    ),
  };
}
