/**
 * Exports pictures of the page as stand-alone files, with its CSS variables resolved to colours.
 */

/** Stacks the pictures in one SVG with a title. */
export function svgText(
  pictures: readonly SVGSVGElement[],
  title: string,
): { svg: string; width: number; height: number } {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim() || "#888";
  const pad = 16;
  const head = 28;
  let y = pad + head;
  let width = 0;
  const parts: string[] = [];
  for (const picture of pictures) {
    const box = picture.getBoundingClientRect();
    const clone = picture.cloneNode(true) as SVGSVGElement;
    clone.setAttribute("x", String(pad));
    clone.setAttribute("y", String(y));
    clone.setAttribute("width", String(Math.round(box.width)));
    clone.setAttribute("height", String(Math.round(box.height)));
    parts.push(new XMLSerializer().serializeToString(clone));
    y += Math.round(box.height) + pad;
    width = Math.max(width, Math.round(box.width));
  }
  const whole = width + 2 * pad;
  const svg = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${whole}" height="${y}" `,
    'font-family="sans-serif" font-size="12">',
    `<rect width="100%" height="100%" fill="${color("--panel")}"/>`,
    `<text x="${pad}" y="${pad + 12}" font-size="14" font-weight="600" fill="${color("--text")}">`,
    `${escaped(title)}</text>`,
    ...parts,
    "</svg>",
  ].join("");
  return {
    svg: svg.replace(/var\((--[a-z-]+)\)/g, (_, name: string) => color(name)),
    width: whole,
    height: y,
  };
}

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
