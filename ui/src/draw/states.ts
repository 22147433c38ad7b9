/**
 * The registry of thread states, by the codes of the server's binary view (docs/page-protocol.md).
 *
 * Each has a colour, a pattern and a height, so that colour is never the only cue. States that cost
 * time are tall, idle is low.
 */

/** Eight rows of eight bits; set bits are drawn in the pattern's ink. */
export type Pattern = readonly [number, number, number, number, number, number, number, number];

export interface State {
  readonly code: number;
  readonly id: string;
  readonly name: string;
  /** What it means, for the legend. */
  readonly description: string;
  /** The CSS variable of its colour. */
  readonly variable: string;
  readonly pattern: Pattern;
  /** Share of the lane's height. */
  readonly height: number;
}

const PLAIN: Pattern = [0, 0, 0, 0, 0, 0, 0, 0];
const RISING: Pattern = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80];
const CROSSES: Pattern = [0x81, 0x42, 0x24, 0x18, 0x18, 0x24, 0x42, 0x81];
const DOTS: Pattern = [0x00, 0x22, 0x00, 0x00, 0x00, 0x22, 0x00, 0x00];
const BARS: Pattern = [0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11];
const LINES: Pattern = [0x00, 0x00, 0x00, 0xff, 0x00, 0x00, 0x00, 0xff];
const GRID: Pattern = [0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];
const DASHES: Pattern = [0x00, 0xf0, 0x00, 0x00, 0x00, 0x0f, 0x00, 0x00];
const CHECKS: Pattern = [0xcc, 0xcc, 0x33, 0x33, 0xcc, 0xcc, 0x33, 0x33];
const FALLING: Pattern = [0x88, 0x44, 0x22, 0x11, 0x88, 0x44, 0x22, 0x11];
const RUNGS: Pattern = [0x00, 0x66, 0x00, 0x00, 0x00, 0x66, 0x00, 0x00];
const WAVES: Pattern = [0x00, 0x00, 0x18, 0xe7, 0x00, 0x00, 0x18, 0xe7];

const list: readonly (readonly [
  id: string,
  name: string,
  variable: string,
  pattern: Pattern,
  height: number,
  description: string,
])[] = [
  [
    "unknown",
    "unknown",
    "--unknown",
    CHECKS,
    0.6,
    "hidden by lost records or by the start or end of the recording",
  ],
  ["ran", "ran", "--ran", PLAIN, 1, "on a CPU"],
  ["runnable", "runnable", "--runnable", RISING, 1, "ready to run, without a CPU"],
  ["lock", "lock", "--lock", CROSSES, 0.8, "waited for a lock that another thread held"],
  ["io", "I/O", "--io", BARS, 0.8, "waited for a disk or a file system"],
  ["memory", "memory", "--memory", GRID, 0.8, "waited for memory"],
  ["timer", "timer", "--timer", DOTS, 0.5, "slept until a timer expired"],
  [
    "ipc",
    "other thread",
    "--ipc",
    LINES,
    0.8,
    "waited for another thread or process: a pipe, a socket, the end of a process, the kernel's work",
  ],
  ["idle", "idle", "--idle", PLAIN, 0.15, "had nothing to do"],
  [
    "stopped",
    "stopped",
    "--stopped",
    FALLING,
    0.8,
    "stopped by a signal, a debugger or the freezer",
  ],
  [
    "slept",
    "slept",
    "--timer",
    DASHES,
    0.6,
    "slept for a device, or for something that its stack does not show",
  ],
  ["network", "network", "--ipc", WAVES, 0.8, "waited for the network"],
  [
    "condition",
    "condition",
    "--condition",
    RUNGS,
    0.6,
    "waited for another thread's signal: a condition variable, a semaphore, a futex",
  ],
];

export const STATES: readonly State[] = list.map(
  ([id, name, variable, pattern, height, description], code) => ({
    code,
    id,
    name,
    variable,
    pattern,
    height,
    description,
  }),
);

export const UNKNOWN = 0;
export const RAN = 1;
export const IDLE = 8;

/** The state of a code; `unknown` for codes that this page does not know. */
export const stateOf = (code: number): State => STATES[code] ?? (STATES[UNKNOWN] as State);
