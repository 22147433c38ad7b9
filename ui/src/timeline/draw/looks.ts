/**
 * How states look: for each lane height, a table from (look, cover, edge) and position in the
 * pattern to a pixel.
 *
 * *Why a table:* the blit's inner loop is one look-up per pixel, whatever it draws. Two million
 * look-ups take about 3 ms.
 */
import { mix, type Pixel } from "../../draw/colour";
import { IDLE, type Pattern, RAN, STATES } from "../../draw/states";
import { FALLBACK, HUES, type Theme } from "../../draw/theme";

/** Steps of cover: how much of a column the state took. */
export const COVER_STEPS = 8;

/** Look 0 is nothing, then follow the states, then the hues of processes on CPU lanes. */
export const NOTHING = 0;
export const lookOfState = (code: number): number => (code < STATES.length ? code + 1 : 1);
export const lookOfHue = (hue: number): number => STATES.length + 1 + (hue % HUES);
const LOOKS = STATES.length + 1 + HUES;

/** Packs what a column shows into a number. `edge`: draw the border to the previous slice. */
export const keyOf = (look: number, cover: number, edge: boolean): number =>
  (look << 4) | (edge ? 8 : 0) | cover;
export const lookOf = (key: number): number => key >> 4;
export const KEYS = LOOKS << 4;

/** The pixels for one lane height: `table[y * KEYS * 8 + key * 8 + (x & 7)]`; 0 is transparent. */
export function buildTable(theme: Theme, height: number): Uint32Array {
  const table = new Uint32Array(height * KEYS * 8);
  const fill = (look: number, colour: Pixel, pattern: Pattern, share: number) => {
    const ink = mix(colour, theme.dark ? 0xff000000 : 0xffffffff, 0.45);
    const border = mix(colour, theme.ground, 0.65);
    const top = Math.round(height * (1 - share));
    for (let cover = 0; cover < COVER_STEPS; cover++) {
      const opacity = 0.3 + (0.7 * (cover + 1)) / COVER_STEPS;
      const [plain, inked] = [mix(theme.ground, colour, opacity), mix(theme.ground, ink, opacity)];
      for (let y = top; y < height; y++) {
        const bits = pattern[y & 7] ?? 0;
        for (let x = 0; x < 8; x++) {
          const pixel = (bits >> (7 - x)) & 1 ? inked : plain;
          table[(y * KEYS + keyOf(look, cover, false)) * 8 + x] = pixel;
          table[(y * KEYS + keyOf(look, cover, true)) * 8 + x] = border;
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
  if (ran)
    for (const [hue, colour] of theme.hues.entries()) fill(lookOfHue(hue), colour, ran.pattern, 1);
  return table;
}

/** Whether a state gets a label if there is room. */
export const isLabelled = (state: number): boolean => state !== IDLE;
