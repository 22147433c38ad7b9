/**
 * Branded number types for quantities that must not be mixed up, and their formatting.
 *
 * Why all times are relative to the trace's start: after 104 days of uptime a machine's clock
 * exceeds 2^53 ns, which a JavaScript number cannot hold. An offset into a recording always fits.
 */

declare const brand: unique symbol;
type Branded<T, B extends string> = T & { readonly [brand]: B };

/** A point in time: nanoseconds since the trace's origin, which `unhitch info` prints. */
export type Ns = Branded<number, "Ns">;
/** A length of time in nanoseconds. */
export type Duration = Branded<number, "Duration">;
/** A length or position on the screen in CSS pixels. */
export type Px = Branded<number, "Px">;
/** Index into the trace's list of threads. Stable for a given file. */
export type ThreadIx = Branded<number, "ThreadIx">;
/** Index into the trace's list of processes. Stable for a given file. */
export type ProcessIx = Branded<number, "ProcessIx">;
/** A stall's number, from 1, as in `unhitch why`. */
export type StallId = Branded<number, "StallId">;

export const ns = (value: number): Ns => value as Ns;
export const duration = (value: number): Duration => value as Duration;
export const px = (value: number): Px => value as Px;
export const threadIx = (value: number): ThreadIx => value as ThreadIx;
export const processIx = (value: number): ProcessIx => value as ProcessIx;
export const stallId = (value: number): StallId => value as StallId;

/** A time range: `from` inclusive, `to` exclusive. */
export interface Range {
  readonly from: Ns;
  readonly to: Ns;
}

export const range = (from: number, to: number): Range => ({
  from: ns(Math.min(from, to)),
  to: ns(Math.max(from, to)),
});
export const lengthOf = (r: Range): Duration => duration(r.to - r.from);

/** Fits `inner` into `outer`: moves it if that is enough, else clips it. Never empty. */
export function confine(inner: Range, outer: Range): Range {
  const length = Math.max(1, Math.min(inner.to - inner.from, outer.to - outer.from));
  const from = Math.min(Math.max(inner.from, outer.from), outer.to - length);
  return range(from, from + length);
}

/** Formats a duration as the command line does: `2.810 s`, `22.0 ms`, `7.6 µs`, `12 ns`. */
export function durationText(value: number): string {
  const sign = value < 0 ? "−" : "";
  const n = Math.abs(value);
  if (n >= 999_950_000) return `${sign}${thousands((n / 1e9).toFixed(3))} s`;
  if (n >= 999_950) return `${sign}${(n / 1e6).toFixed(1)} ms`;
  if (n >= 1000) return `${sign}${(n / 1e3).toFixed(1)} µs`;
  return `${sign}${Math.round(n)} ns`;
}

/** A duration with its sign, which a difference always has. */
export function signed(value: number): string {
  if (value === 0) return "±0";
  return `${value > 0 ? "+" : "−"}${durationText(Math.abs(value))}`;
}

/** Formats a point in time with the digits that `resolution` (in ns) resolves: `1.103 204 s`. */
export function timeText(at: Ns, resolution = 1e6): string {
  const digits = Math.min(9, Math.max(3, Math.ceil(9 - Math.log10(Math.max(1, resolution)))));
  const [whole = "0", fraction = ""] = (at / 1e9).toFixed(digits).split(".");
  return `${thousands(whole)}.${fraction.replace(/(\d{3})(?=\d)/g, "$1 ")} s`;
}

/** Formats a count: `5,768`. */
export function count(value: number): string {
  return thousands(String(Math.round(value)));
}

/** Formats a count with its noun: `1 stall`, `5,768 wake-ups`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Formats a share: `99.9 %`. Truncates, so that 99.97 % does not read as all of it. */
export function percent(part: number, whole: number): string {
  if (whole <= 0) return "–";
  return `${(Math.floor((part / whole) * 1000 + 1e-9) / 10).toFixed(1)} %`;
}

/**
 * The parts of a whole in tenths of a percent, which add up to `of`, as the program's own text has
 * them. Each is truncated, and the tenths that are left go to those that lost most. Only the whole
 * is 100.0 %.
 */
export function apportion(parts: readonly number[], of = 1000): number[] {
  const whole = parts.reduce((sum, part) => sum + part, 0);
  if (whole <= 0) return parts.map(() => 0);
  const exact = parts.map((part) => (part / whole) * of);
  const tenths = exact.map((share) => Math.floor(share + 1e-9));
  const left = of - tenths.reduce((sum, share) => sum + share, 0);
  const lost = (i: number) => (exact[i] ?? 0) - (tenths[i] ?? 0);
  const isAlmostAll = (i: number) => Number(tenths[i] === 999);
  parts
    .map((_, i) => i)
    .sort((a, b) => isAlmostAll(a) - isAlmostAll(b) || lost(b) - lost(a))
    .slice(0, left)
    .forEach((i) => {
      tenths[i] = (tenths[i] ?? 0) + 1;
    });
  return tenths;
}

/** Formats tenths of a percent: `99.9 %`. */
export const tenthsText = (tenths: number): string => `${(tenths / 10).toFixed(1)} %`;

/** Formats a file size: `14.2 MiB`. */
export function bytesText(value: number): string {
  if (value < 1024) return `${value} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let n = value / 1024;
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${n.toFixed(n >= 100 ? 0 : 1)} ${units[unit] ?? ""}`;
}

function thousands(digits: string): string {
  const [whole = "", fraction] = digits.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}
