/** A frame's colour: a hue per module, stable across sessions, and a shade per function. */
import { hash, hsl, type Pixel } from "../draw/colour";

/** The kernel has the same distinct hue in every trace. */
const KERNEL_HUE = 28;

/** A module's hue in degrees; warm hues are reserved for the kernel. */
export function hue(module: string, kernel: boolean): number {
  return kernel ? KERNEL_HUE : 70 + (hash(module) % 27) * 10;
}

export interface Named {
  readonly name: string;
  readonly module: string;
  readonly kernel: boolean;
  readonly others: boolean;
}

export function colourOf(frame: Named, root: boolean, dark: boolean): Pixel {
  if (root || frame.others || frame.name === "(no stack was recorded)")
    return dark ? hsl(215, 0.1, 0.3) : hsl(215, 0.15, 0.86);
  const shade = ((hash(frame.name) >>> 8) % 7) / 100;
  const tone = hue(frame.module, frame.kernel);
  return dark ? hsl(tone, 0.38, 0.31 + shade) : hsl(tone, 0.55, 0.76 + shade);
}
