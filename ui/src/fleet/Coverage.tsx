/** How much of all delay the first so many causes explain. */
import { count, percent } from "../units";
import { curve } from "./curve";

const WIDTH = 220;
const HEIGHT = 110;
/** Points of the curve that the text names. */
const NAMED = [1, 2, 5, 10, 20, 50, 100];

export function Coverage({ points }: { points: readonly { causes: number; share: number }[] }) {
  const named = points.filter(({ causes }) => NAMED.includes(causes));
  const text = named
    .map(({ causes, share }) => `${count(causes)}: ${percent(share, 1)}`)
    .join(", ");
  return (
    <figure class="fleet-coverage">
      <svg width={WIDTH} height={HEIGHT} role="img" aria-label={`Coverage: ${text}`}>
        <rect width={WIDTH} height={HEIGHT} />
        <polyline points={curve(points, WIDTH, HEIGHT)} />
      </svg>
      <figcaption class="dim">Share of all delay by the number of causes: {text}</figcaption>
    </figure>
  );
}
