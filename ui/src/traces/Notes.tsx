/** The user's words about a trace, kept in its file: saved when the field is left or goes. */
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
  /** As the file has them when the field appears. */
  notes: string;
  changed: () => void;
}

/** Only our own container has a place for notes. */
export function Notes(props: NotesProps) {
  return props.format === "hitch" ? (
    <Field {...props} />
  ) : (
    <p class="notes dim">
      {props.format === "etl" ? "An .etl" : "A perf.data"} file has no place for notes.
    </p>
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
      const told = asApiError(error);
      store.notify(`Not saved: ${told.message}. ${told.hint}`);
    }
  };
  // A dialog that closes takes the field away without its being left.
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
