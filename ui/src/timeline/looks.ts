/**
 * How states look as pixels: for each height of a lane a table from (look, level, edge) and place in the pattern to a pixel.
 *
 * *Why a table:* the inner loop of the blit is then one look-up per pixel, whatever is drawn; two million of them take some 3 ms.
 */
import { type Pixel, hsl, lightness, mix, parse } from "./colour";
import { IDLE, RAN, STATES, type Pattern } from "./states";

/** Levels of cover: how much of the column was spent so. */
export const LEVELS = 8;
/** What CPUs run is coloured by process, in so many hues. */
export const HUES = 16;

/** Look 0 is nothing; then the states; then the hues of processes on CPU lanes. */
export const NOTHING = 0;
export const lookOfState = (code: number): number => (code < STATES.length ? code + 1 : 1);
export const lookOfHue = (hue: number): number => STATES.length + 1 + (hue % HUES);
const LOOKS = STATES.length + 1 + HUES;

/** Packs what a column shows into one number. `edge` draws the border that parts a slice from the one before it. */
export const keyOf = (look: number, level: number, edge: boolean): number =>
  (look << 4) | (edge ? 8 : 0) | level;
export const lookOf = (key: number): number => key >> 4;
export const KEYS = LOOKS << 4;

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
}

const FALLBACK: Pixel = 0xff808080;

/** Reads the page's CSS variables; `get` gives the text of one. */
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
    // Neighbouring numbers get hues far apart: seven and sixteen have no common factor.
    hues: Array.from({ length: HUES }, (_, n) =>
      hsl(((n * 7) % HUES) * (360 / HUES), dark ? 0.42 : 0.5, dark ? 0.52 : 0.6),
    ),
  };
}

/** Pixels of a lane of one height: `table[y * KEYS * 8 + key * 8 + (x & 7)]`; 0 is transparent. */
export function buildTable(theme: Theme, height: number): Uint32Array {
  const table = new Uint32Array(height * KEYS * 8);
  const fill = (look: number, colour: Pixel, pattern: Pattern, share: number) => {
    const ink = mix(colour, theme.dark ? 0xff000000 : 0xffffffff, 0.45);
    const border = mix(colour, theme.ground, 0.65);
    const top = Math.round(height * (1 - share));
    for (let level = 0; level < LEVELS; level++) {
      const cover = 0.3 + (0.7 * (level + 1)) / LEVELS;
      const [plain, inked] = [mix(theme.ground, colour, cover), mix(theme.ground, ink, cover)];
      for (let y = top; y < height; y++) {
        const bits = pattern[y & 7] ?? 0;
        for (let x = 0; x < 8; x++) {
          const pixel = (bits >> (7 - x)) & 1 ? inked : plain;
          table[(y * KEYS + keyOf(look, level, false)) * 8 + x] = pixel;
          table[(y * KEYS + keyOf(look, level, true)) * 8 + x] = border;
        }
      }
    }
  };
  for (const state of STATES) {
    fill(
      lookOfState(state.code),
      theme.states[state.code] ?? FALLBACK,
      state.pattern,
      state.height,
    );
  }
  const ran = STATES[RAN];
  if (ran) theme.hues.forEach((colour, hue) => fill(lookOfHue(hue), colour, ran.pattern, 1));
  return table;
}

/** Whether a state deserves a label when there is room. */
export const isLabelled = (state: number): boolean => state !== IDLE;
