/** Binary searches in sorted columns. */

/** The first index whose value is at least `least`. */
export function firstAtLeast(sorted: ArrayLike<number>, least: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first slice that ends after `at`. Slices do not overlap, so their ends are sorted, too. */
export function firstEndingAfter(end: Float64Array, at: number): number {
  let low = 0;
  let high = end.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((end[middle] as number) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}
