/**
 * The user's notes on a trace, kept in its file. Saved when the field loses focus or is removed.
 */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { send } from "../api/client";
import { asApiError } from "../api/query";
import * as store from "../state/store";

export function traceUrl(name: string): string {
  return `/api/traces/${encodeURIComponent(name)}`;
}

interface NotesProps {
  name: string;
  format: string;
  /** The file's notes when the field appears. */
  notes: string;
  changed: () => void;
}

/** Formats that cannot store notes, as a sentence begins with them. */
const FORMATS: Record<string, string> = {
  "perf.data": "A perf.data",
  etl: "An .etl",
  perfetto: "A Perfetto",
  "trace.dat": "A trace.dat",
  "perf script": "A perf script text",
};

/** Only the .hitch format can. */
export const storesNotes = (format: string): boolean => format === "hitch";

/** A field for them; for a format that cannot store notes, a sentence that says so. */
export function Notes(props: NotesProps) {
  return storesNotes(props.format) ? (
    <Field {...props} />
  ) : (
    <p class="notes dim">{FORMATS[props.format] ?? "This kind of"} file cannot store notes.</p>
  );
}

function Field({ name, notes, changed }: NotesProps) {
  const text = useSignal(notes);
  const saved = useRef(notes);
  const save = async () => {
    const before = saved.current;
    if (text.peek() === before) return;
    saved.current = text.peek();
    try {
      await send("PATCH", traceUrl(name), { notes: saved.current });
      store.notify("Notes saved.");
      changed();
    } catch (error) {
      saved.current = before;
      const { message, hint } = asApiError(error);
      store.notify(`Not saved: ${message}. ${hint}`);
    }
  };
  // A closing dialog removes the field without a blur event.
  useEffect(() => () => void save(), []);
  return (
    <textarea
      class="notes"
      aria-label={`Notes on ${name}`}
      placeholder="Notes"
      rows={text.value.includes("\n") ? 3 : 1}
      value={text.value}
      onInput={(event) => (text.value = event.currentTarget.value)}
      onBlur={() => void save()}
    />
  );
}
