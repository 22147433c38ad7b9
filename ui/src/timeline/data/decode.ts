/**
 * Decodes the server's binary view (`UHV1` in docs/page-protocol.md) in place: typed arrays over
 * the answer's bytes.
 *
 * Rejects inconsistent data with the offset of the error, and never reads beyond the end.
 */

export const NONE = 0xffffffff;

export type LaneKind = "cpu" | "thread" | "cpu-samples" | "thread-samples";
const KINDS: readonly LaneKind[] = ["cpu", "thread", "cpu-samples", "thread-samples"];

/** One lane of a view; all arrays are in time order. */
export interface LaneView {
  readonly lane: string;
  readonly kind: LaneKind;
  /** The range that the cells' columns divide: column `i` begins at `from + i · columnNs`. */
  readonly from: number;
  readonly to: number;
  readonly columns: number;
  readonly columnNs: number;
  /** Slices do not overlap and are not clipped to the range. */
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly state: Uint8Array;
  readonly thread: Uint32Array;
  readonly event: Uint32Array;
  readonly wake: Uint32Array;
  /** Cells sum up, column by column, what is too short for slices. */
  readonly cellColumn: Uint16Array;
  readonly cellState: Uint8Array;
  readonly cellCover: Uint8Array;
  readonly cellThread: Uint32Array;
}

export class DecodeError extends Error {}

const HEAD = 40;
const LANE = 24;

const ceil8 = (n: number): number => Math.ceil(n / 8) * 8;

export function decode(bytes: ArrayBuffer): LaneView[] {
  const fail = (what: string, at: number): never => {
    throw new DecodeError(
      `the server's view cannot be read: ${what} (byte ${at} of ${bytes.byteLength})`,
    );
  };
  if (bytes.byteLength < HEAD) fail("shorter than its head", bytes.byteLength);
  const data = new DataView(bytes);
  if (data.getUint32(0, true) !== 0x31564855) fail("it does not begin with UHV1", 0);
  const lanes = data.getUint32(4, true);
  const from = data.getFloat64(8, true);
  const to = data.getFloat64(16, true);
  const columns = data.getUint32(24, true);
  const slices = data.getUint32(28, true);
  const cells = data.getUint32(32, true);
  if (!(to > from) || columns === 0) fail("it has no extent", 8);

  let at = ceil8(HEAD + LANE * lanes);
  const take = (length: number): number => {
    const here = at;
    at += length;
    return here;
  };
  const start = take(8 * slices);
  const end = take(8 * slices);
  const thread = take(4 * slices);
  const event = take(4 * slices);
  const wake = take(4 * slices);
  const cellThread = take(4 * cells);
  const cellColumn = take(2 * cells);
  const state = take(slices);
  const cellState = take(cells);
  const cellCover = take(cells);
  if (at > bytes.byteLength) fail(`${slices} slices and ${cells} cells need ${at} bytes`, 28);

  const out: LaneView[] = [];
  for (let index = 0; index < lanes; index++) {
    const entry = HEAD + LANE * index;
    const word = (n: number) => data.getUint32(entry + 4 * n, true);
    const kind = KINDS[word(0)] ?? fail(`lane ${index} is of kind ${word(0)}`, entry);
    const [firstSlice, sliceCount, firstCell, cellCount] = [word(2), word(3), word(4), word(5)];
    if (firstSlice + sliceCount > slices)
      fail(`lane ${index} has slices beyond the last`, entry + 8);
    if (firstCell + cellCount > cells) fail(`lane ${index} has cells beyond the last`, entry + 16);
    const u32 = (base: number, first: number, count: number) =>
      new Uint32Array(bytes, base + 4 * first, count);
    const u8 = (base: number, first: number, count: number) =>
      new Uint8Array(bytes, base + first, count);
    out.push({
      lane: laneId(kind, word(1)),
      kind,
      from,
      to,
      columns,
      columnNs: (to - from) / columns,
      start: new Float64Array(bytes, start + 8 * firstSlice, sliceCount),
      end: new Float64Array(bytes, end + 8 * firstSlice, sliceCount),
      state: u8(state, firstSlice, sliceCount),
      thread: u32(thread, firstSlice, sliceCount),
      event: u32(event, firstSlice, sliceCount),
      wake: u32(wake, firstSlice, sliceCount),
      cellColumn: new Uint16Array(bytes, cellColumn + 2 * firstCell, cellCount),
      cellState: u8(cellState, firstCell, cellCount),
      cellCover: u8(cellCover, firstCell, cellCount),
      cellThread: u32(cellThread, firstCell, cellCount),
    });
  }
  return out;
}

/** A lane's id in the other routes. */
export function laneId(kind: LaneKind, number: number): string {
  const prefix = { cpu: "c", thread: "t", "cpu-samples": "sc", "thread-samples": "st" }[kind];
  return `${prefix}${number}`;
}
