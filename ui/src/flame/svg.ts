/** Exports the flame graph as a stand-alone SVG, with full names as titles. */
import { css, inkOn } from "../draw/colour";
import { cutFunction, type Measure } from "../draw/text";
import { colourOf } from "./palette";
import { onScreen, rowTop, type Tree, type Zoom } from "./tree";

export interface Picture {
  readonly title: string;
  readonly width: number;
  readonly rowHeight: number;
  readonly up: boolean;
  readonly dark: boolean;
  readonly found: ReadonlySet<number>;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: XML forbids exactly these.
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g;

/** Escapes text for XML; control characters that XML forbids become U+FFFD. */
export const escapeXml = (text: string): string =>
  text.replace(FORBIDDEN, "\ufffd").replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** `label` describes a frame, for its title. */
export function svg(
  tree: Tree,
  zoom: Zoom,
  picture: Picture,
  measure: Measure,
  label: (index: number) => string,
): string {
  const { width, rowHeight, up, dark, found, title } = picture;
  const head = 24;
  const height = head + tree.depth * rowHeight + 4;
  const ground = dark ? "#16181d" : "#ffffff";
  const ink = dark ? "#e6e6e6" : "#1a1a1a";
  const out = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11">`,
    `<rect width="100%" height="100%" fill="${ground}"/>`,
    `<text x="4" y="16" font-size="13" fill="${ink}">${escapeXml(title)}</text>`,
  ];
  for (const box of tree.boxes) {
    const { x, width: w } = onScreen(box, zoom, width);
    if (w < 0.5) continue;
    const y = head + rowTop(box.depth, tree, rowHeight, up);
    const colour = colourOf(box.frame, box.parent < 0, dark);
    const edge = found.has(box.index) ? ` stroke="${ink}" stroke-width="1.5"` : "";
    const text = w > 24 ? cutFunction(box.frame.name, w - 6, measure) : "";
    const drawn =
      text === ""
        ? ""
        : `<text x="${round(x + 3)}" y="${round(y + rowHeight * 0.7)}" ` +
          `fill="${inkOn(colour)}">${escapeXml(text)}</text>`;
    out.push(
      `<g><title>${escapeXml(label(box.index))}</title>` +
        `<rect x="${round(x)}" y="${y}" width="${round(Math.max(w - 0.5, 0.5))}" ` +
        `height="${rowHeight - 1}" fill="${css(colour)}"${edge}/>${drawn}</g>`,
    );
  }
  out.push("</svg>");
  return out.join("\n");
}

const round = (n: number): number => Math.round(n * 100) / 100;
