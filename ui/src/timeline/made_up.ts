/** Views and lanes as the server sends them, made up; for tests only. */
import type { Lanes } from "../api/types";
import { NONE } from "./decode";

export interface LaneSpec {
  kind: number;
  number: number;
  slices: [start: number, end: number, state: number, thread?: number][];
  cells: [column: number, state: number, cover: number, thread?: number][];
}

/** Writes a view as docs/page-protocol.md says it. */
export function encode(from: number, to: number, columns: number, lanes: LaneSpec[]): ArrayBuffer {
  const slices = lanes.flatMap((l) => l.slices);
  const cells = lanes.flatMap((l) => l.cells);
  const body = Math.ceil((40 + 24 * lanes.length) / 8) * 8;
  const bytes = new ArrayBuffer(body + slices.length * 29 + cells.length * 8);
  const data = new DataView(bytes);
  [0x55, 0x48, 0x56, 0x31].forEach((b, n) => data.setUint8(n, b));
  data.setUint32(4, lanes.length, true);
  data.setFloat64(8, from, true);
  data.setFloat64(16, to, true);
  data.setUint32(24, columns, true);
  data.setUint32(28, slices.length, true);
  data.setUint32(32, cells.length, true);
  let [slice, cell] = [0, 0];
  lanes.forEach((lane, n) => {
    [lane.kind, lane.number, slice, lane.slices.length, cell, lane.cells.length].forEach((v, i) =>
      data.setUint32(40 + 24 * n + 4 * i, v, true),
    );
    slice += lane.slices.length;
    cell += lane.cells.length;
  });
  let at = body;
  for (const s of slices) data.setFloat64((at += 8) - 8, s[0], true);
  for (const s of slices) data.setFloat64((at += 8) - 8, s[1], true);
  for (const s of slices) data.setUint32((at += 4) - 4, s[3] ?? NONE, true);
  for (const [n] of slices.entries()) data.setUint32((at += 4) - 4, 100 + n, true);
  for (const _ of slices) data.setUint32((at += 4) - 4, NONE, true);
  for (const c of cells) data.setUint32((at += 4) - 4, c[3] ?? NONE, true);
  for (const c of cells) data.setUint16((at += 2) - 2, c[0], true);
  for (const s of slices) data.setUint8(at++, s[2]);
  for (const c of cells) data.setUint8(at++, c[1]);
  for (const c of cells) data.setUint8(at++, c[2]);
  return bytes;
}

/** Lanes of so many CPUs, and of processes with so many threads. */
export function lanesOf(
  cpus: number,
  processes: readonly (readonly [process: number, threads: number])[],
): Lanes {
  let thread = 1;
  return {
    cpus: Array.from({ length: cpus }, (_, cpu) => ({
      lane: `c${cpu}`,
      cpu,
      busy_ns: 0,
      samples: 0,
    })),
    processes: processes.map(([process, threads]) => ({
      process,
      pid: process * 100,
      name: `program${process}`,
      command_line: "",
      from: 0,
      to: 1000,
      started: false,
      ended: false,
      relevance: 0,
      threads: Array.from({ length: threads }, () => {
        const index = thread++;
        return {
          lane: `t${index}`,
          thread: index,
          tid: 1000 + index,
          name: "worker",
          from: 0,
          to: 1000,
          ran_ns: 5,
          runnable_ns: 0,
          switches: 2,
          samples: 0,
          relevance: 0,
          role: null,
        };
      }),
    })),
  } as unknown as Lanes;
}
