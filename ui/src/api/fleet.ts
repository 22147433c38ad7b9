/** The JSON of `GET /api/fleet` (`docs/page-protocol.md`). */

/** The report over a fleet: what costs all its machines most. */
export interface FleetReport {
  fleet: {
    traces: number;
    hosts: number;
    first_day: string;
    last_day: string;
    stalls: number | null;
    with_stalls: number;
    with_losses: number;
    total_ns: number;
  };
  since: string | null;
  causes: FleetCause[];
  coverage: { causes: number; share: number }[];
  regressions: FleetRegression[];
  contrast: FleetContrast[];
  clusters: FleetCluster[];
}

export interface FleetCause {
  pattern: string;
  culprit: string | null;
  function: string;
  stalls: number;
  hosts: number;
  total_ns: number;
  worst_ns: number;
  share: number;
  first_day: string;
  is_new: boolean;
  exemplars: FleetExemplar[];
}

export interface FleetSide {
  build_id: string | null;
  traces: number;
  hits: number;
}

export interface FleetRegression {
  change: "worse" | "better";
  program: string;
  pattern: string;
  function: string;
  before: FleetSide;
  after: FleetSide;
  false_discovery_rate: number;
}

export interface FleetContrast {
  process: string;
  pattern: string;
  slow: FleetSide;
  fast: FleetSide;
  least_ns: number;
  false_discovery_rate: number;
}

export interface FleetCluster {
  stalls: number;
  total_ns: number;
  pattern: string;
  function: string;
  exemplars: FleetExemplar[];
}

/** A recording to open, with the stall in it. */
export interface FleetExemplar {
  file: string | null;
  stall: number;
  duration_ns: number;
  /** Whether the folder has a file of that name. */
  is_here: boolean;
}
