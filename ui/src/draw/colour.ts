/** Colours for canvases: packed pixels for blits, CSS strings for fills. */

/** A pixel as `ImageData` stores it on a little-endian machine: 0xAABBGGRR. */
export type Pixel = number;

export const pack = (r: number, g: number, b: number, a = 255): Pixel =>
  ((a << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** Parses #rgb, #rrggbb, and rgb() or rgba() with commas or spaces; null for anything else. */
export function parse(css: string): Pixel | null {
  const text = css.trim().toLowerCase();
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/.exec(text)?.[1];
  if (hex) {
    const wide = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex;
    const n = Number.parseInt(wide, 16);
    return pack(n >> 16, (n >> 8) & 255, n & 255);
  }
  const rgb = /^rgba?\(\s*([\d.]+)[\s,]+([\d.]+)[\s,]+([\d.]+)/.exec(text);
  if (rgb)
    return pack(Math.round(Number(rgb[1])), Math.round(Number(rgb[2])), Math.round(Number(rgb[3])));
  return null;
}

/** Blends `share` of `top` into `under`; opaque. */
export function mix(under: Pixel, top: Pixel, share: number): Pixel {
  const part = (shift: number) =>
    Math.round(((under >>> shift) & 255) * (1 - share) + ((top >>> shift) & 255) * share);
  return pack(part(0), part(8), part(16));
}

export const css = (p: Pixel): string => `rgb(${p & 255},${(p >>> 8) & 255},${(p >>> 16) & 255})`;

/** Perceived lightness from 0 to 1 (Rec. 709 luma without gamma correction). */
export const lightness = (p: Pixel): number =>
  (0.2126 * (p & 255) + 0.7152 * ((p >>> 8) & 255) + 0.0722 * ((p >>> 16) & 255)) / 255;

/** Black or white, whichever is more legible on `p`. */
export const inkOn = (p: Pixel): string => (lightness(p) > 0.55 ? "#111" : "#fff");

/** A hash that is the same on every machine and in every session (FNV-1a). */
export function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  }
  return h >>> 0;
}

/** Hue in degrees; saturation and lightness from 0 to 1. */
export function hsl(hue: number, saturation: number, light: number): Pixel {
  const chroma = saturation * Math.min(light, 1 - light);
  const channel = (n: number) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - chroma * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return pack(channel(0), channel(8), channel(4));
}
