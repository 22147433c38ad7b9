/**
 * The report over a fleet, above the traces of its folder: what costs all machines most, how much of
 * it a few causes explain, what a newer build changed, and which recordings to open.
 */
import { batch } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { getJson } from "../api/client";
import type {
  FleetCause,
  FleetCluster,
  FleetContrast,
  FleetExemplar,
  FleetRegression,
  FleetReport,
} from "../api/fleet";
import { liveQuery } from "../api/query";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import * as store from "../state/store";
import { count, durationText, percent, plural, stallId } from "../units";
import { Coverage } from "./Coverage";
import { causeName, chanceText, patternName, shortBuild, summaryText } from "./words";
import "./fleet.css";

/** Rows of a table; the report itself has all. */
const MAX_ROWS = 20;

export function Fleet() {
  const query = useMemo(
    () =>
      liveQuery<FleetReport>(() => ({
        key: "fleet",
        fetch: (signal) => getJson("/api/fleet", {}, signal),
      })),
    [],
  );
  useEffect(() => query.stop, []);
  const { data, error } = query.state.value;
  return (
    <section class="fleet" aria-label="Fleet" data-ready={data !== null}>
      {error && <ErrorMessage error={error} retry={query.refetch} />}
      {!data && !error && <Busy what="Reading the report …" />}
      {data && <Overview report={data} />}
    </section>
  );
}

function Overview({ report }: { report: FleetReport }) {
  return (
    <>
      <h2>What costs all machines most</h2>
      <p>{summaryText(report.fleet)}</p>
      {report.causes.length > 0 && (
        <div class="fleet-top">
          <Causes causes={report.causes} since={report.since} />
          <Coverage points={report.coverage} />
        </div>
      )}
      <Regressions rows={report.regressions} />
      <Contrasts rows={report.contrast} />
      <Clusters rows={report.clusters} />
    </>
  );
}

interface TableProps<Row> {
  label: string;
  heads: readonly string[];
  rows: readonly Row[];
  /** Of the columns, how many are numbers; they come first. */
  numbers: number;
  cells: (row: Row) => readonly ComponentChildren[];
}

function Table<Row>({ label, heads, rows, numbers, cells }: TableProps<Row>) {
  const kind = (column: number) => (column < numbers ? "num" : "");
  return (
    <div class="fleet-box">
      <table class="fleet-table" aria-label={label}>
        <thead>
          <tr>
            {heads.map((head, column) => (
              <th key={head} scope="col" class={kind(column)}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_ROWS).map((row) => {
            const shown = cells(row);
            return (
              <tr key={JSON.stringify(row)}>
                {heads.map((head, column) => (
                  <td key={head} class={kind(column)}>
                    {shown[column]}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
      {rows.length > MAX_ROWS && (
        <p class="dim">… and {count(rows.length - MAX_ROWS)} more in the report</p>
      )}
    </div>
  );
}

function Causes({ causes, since }: { causes: readonly FleetCause[]; since: string | null }) {
  return (
    <Table
      label="Causes"
      heads={["Delay", "Share", "Stalls", "Machines", "Worst", "Cause", "Open"]}
      rows={causes}
      numbers={5}
      cells={(cause) => [
        <strong key="delay">{durationText(cause.total_ns)}</strong>,
        percent(cause.share, 1),
        count(cause.stalls),
        count(cause.hosts),
        durationText(cause.worst_ns),
        <>
          {causeName(cause)}
          {since !== null && cause.is_new && <span class="fleet-new">new since {since}</span>}
        </>,
        <Exemplars key="open" exemplars={cause.exemplars} />,
      ]}
    />
  );
}

/** Links to recordings of this folder; others by name. */
function Exemplars({ exemplars }: { exemplars: readonly FleetExemplar[] }) {
  return (
    <>
      {exemplars.map(({ file, stall, duration_ns, is_here }) =>
        file === null ? null : is_here ? (
          <button
            key={`${file} ${stall}`}
            type="button"
            class="fleet-open"
            onClick={() => open(file, stall)}
          >
            {file} <span class="dim">{durationText(duration_ns)}</span>
          </button>
        ) : (
          <span key={`${file} ${stall}`} class="dim" title="This folder has no such file">
            {file}
          </span>
        ),
      )}
    </>
  );
}

/** Opens a recording at its stall, as one step of the browser's history. */
function open(file: string, stall: number): void {
  batch(() => {
    store.openTrace(file);
    store.stall.value = stallId(stall);
    store.unplaced.value = stallId(stall);
  });
}

function Regressions({ rows }: { rows: readonly FleetRegression[] }) {
  if (rows.length === 0) return null;
  return (
    <>
      <h3>More or less frequent in a newer build</h3>
      <Table
        label="Builds"
        heads={["Before", "After", "By chance", "Change", "Cause", "Builds"]}
        rows={rows}
        numbers={3}
        cells={(row) => [
          `${count(row.before.hits)} of ${count(row.before.traces)}`,
          `${count(row.after.hits)} of ${count(row.after.traces)}`,
          chanceText(row.false_discovery_rate),
          <span key="change" class={row.change === "worse" ? "bad" : "good"}>
            {row.change === "worse" ? "▲ more" : "▼ less"}
          </span>,
          causeName(row),
          `${row.program} ${shortBuild(row.before.build_id)} → ${shortBuild(row.after.build_id)}`,
        ]}
      />
    </>
  );
}

function Contrasts({ rows }: { rows: readonly FleetContrast[] }) {
  const [first] = rows;
  if (first === undefined) return null;
  return (
    <details>
      <summary>
        Waits of {durationText(first.least_ns)} and more that recordings with a hang have, and
        others have not
      </summary>
      <Table
        label="Waits"
        heads={["With a hang", "Others", "By chance", "Program", "Wait"]}
        rows={rows}
        numbers={3}
        cells={(row) => [
          `${count(row.slow.hits)} of ${count(row.slow.traces)}`,
          `${count(row.fast.hits)} of ${count(row.fast.traces)}`,
          chanceText(row.false_discovery_rate),
          row.process,
          row.pattern,
        ]}
      />
    </details>
  );
}

function Clusters({ rows }: { rows: readonly FleetCluster[] }) {
  if (rows.length === 0) return null;
  return (
    <details>
      <summary>{plural(rows.length, "group")} of wait chains that are alike</summary>
      <Table
        label="Chains"
        heads={["Stalls", "Delay", "Mostly", "Open"]}
        rows={rows}
        numbers={2}
        cells={(row) => [
          count(row.stalls),
          durationText(row.total_ns),
          `${patternName(row.pattern)} in ${row.function || "an unknown function"}`,
          <Exemplars key="open" exemplars={row.exemplars} />,
        ]}
      />
    </details>
  );
}
