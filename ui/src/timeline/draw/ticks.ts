/** The ticks of the time axis: round steps, and labels with just enough digits to differ. */
import { lengthOf, type Ns, type Px, type Range } from "../../units";

export interface Tick {
  readonly at: Ns;
  readonly label: string;
}

export interface Ticks {
  /** Distance between labelled ticks. */
  readonly step: number;
  /** What offset labels count from; null if labels count from the trace's start. */
  readonly base: { readonly at: Ns; readonly label: string } | null;
  readonly labelled: readonly Tick[];
  /** The unlabelled ticks between. */
  readonly small: readonly Ns[];
}

const UNITS = [
  { ns: 1e9, name: "s" },
  { ns: 1e6, name: "ms" },
  { ns: 1e3, name: "µs" },
  { ns: 1, name: "ns" },
] as const;

/**
 * The smallest of 1, 2, 5 × 10ⁿ that is at least `least`, and the number of parts it divides into.
 */
export function roundStep(least: number): { step: number; parts: number } {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const [digit, parts] of [
    [1, 5],
    [2, 4],
    [5, 5],
  ] as const) {
    if (digit * power >= least * (1 - 1e-9)) return { step: digit * power, parts };
  }
  return { step: 10 * power, parts: 5 };
}

/** Formats a time to the precision of `step`, in the unit that fits `largest`, the axis's end. */
export function tickLabel(at: number, step: number, largest = at): string {
  const scale = Math.max(Math.abs(largest), step);
  const unit = UNITS.find((u) => scale >= u.ns) ?? UNITS[3];
  const digits = Math.max(0, Math.ceil(Math.log10(unit.ns / step) - 1e-9));
  return `${(at / unit.ns).toFixed(digits)} ${unit.name}`;
}

/** Ticks for a range drawn `width` wide, with labels at least `apart` pixels from each other. */
export function ticks(s: Range, width: Px, apart = 110): Ticks {
  const { step, parts } = roundStep((lengthOf(s) * apart) / Math.max(width, 1));
  const first = Math.ceil(s.from / step) * step;
  // Labels of over seven digits must be compared digit by digit; an offset from a round time reads
  // at once.
  const offsets = s.from / step > 1e6;
  const { step: baseStep } = roundStep(Math.max(lengthOf(s), step) * 10);
  const base = offsets ? Math.floor(s.from / baseStep) * baseStep : 0;
  const labelled: Tick[] = [];
  const small: Ns[] = [];
  const minor = step / parts;
  if (minor >= 1) {
    for (let n = Math.ceil(s.from / minor); n * minor <= s.to; n++) {
      if (n % parts !== 0) small.push((n * minor) as Ns);
    }
  }
  for (let n = 0; first + n * step <= s.to; n++) {
    const at = first + n * step;
    labelled.push({
      at: at as Ns,
      label: offsets ? `+${tickLabel(at - base, step, s.to - base)}` : tickLabel(at, step, s.to),
    });
  }
  return {
    step,
    base: offsets ? { at: base as Ns, label: tickLabel(base, baseStep) } : null,
    labelled,
    small,
  };
}
