/** The report over a fleet in words. */
import type { FleetReport } from "../api/fleet";
import { count, durationText, plural } from "../units";

/** Letters of a build id that tell builds apart. */
const BUILD_LETTERS = 12;

/** `long_hold` as the page names it. */
export function patternName(pattern: string): string {
  return pattern.replaceAll("_", " ");
}

/** A cause in a few words. */
export function causeName(cause: {
  pattern: string;
  function: string;
  culprit?: string | null;
}): string {
  const by = cause.culprit ? `, by ${cause.culprit}` : "";
  return `${patternName(cause.pattern)} in ${cause.function || "an unknown function"}${by}`;
}

export function shortBuild(id: string | null): string {
  return id === null ? "?" : id.slice(0, BUILD_LETTERS);
}

/** A false discovery rate: `3.1e-21`, `0.012`. */
export function chanceText(rate: number): string {
  return rate > 0 && rate < 0.001 ? rate.toExponential(1) : Number(rate.toPrecision(2)).toString();
}

export function summaryText(fleet: FleetReport["fleet"]): string {
  const days =
    fleet.first_day === fleet.last_day
      ? fleet.first_day
      : `${fleet.first_day} to ${fleet.last_day}`;
  const of = `${plural(fleet.traces, "recording")} of ${plural(fleet.hosts, "machine")}, ${days}`;
  const lost = fleet.with_losses > 0 ? ` ${count(fleet.with_losses)} lost events.` : "";
  const stalls = plural(fleet.stalls ?? 0, "stall");
  const delay = `${durationText(fleet.total_ns)} in all`;
  return `${of}: ${stalls} in ${count(fleet.with_stalls)} of them, ${delay}.${lost}`;
}
