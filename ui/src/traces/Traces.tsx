/**
 * The trace folder: each trace with its first answer and notes; open, rename, delete, add files.
 */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { getJson, send } from "../api/client";
import { server } from "../api/data";
import { asApiError, liveQuery, type QueryState } from "../api/query";
import type { TraceEntry } from "../api/types";
import { Fleet } from "../fleet/Fleet";
import { Dialog } from "../parts/Dialog";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { openWithStart } from "../startView";
import * as store from "../state/store";
import { replacing } from "../state/url";
import { bytesText, plural } from "../units";
import { traceUrl } from "./Notes";
import { passes, Rows, wordsOf } from "./Rows";
import { type Upload, upload, uploads } from "./upload";
import "./traces.css";

/** How often the list is fetched again: while traces are being judged, and else. */
const JUDGING_POLL_MS = 1000;
const POLL_MS = 5000;

type DialogKind = "rename" | "delete";

export function Traces() {
  const list = useMemo(
    () =>
      liveQuery<{ traces: TraceEntry[] }>(() => ({
        key: "traces",
        fetch: (signal) => getJson("/api/traces", {}, signal),
      })),
    [],
  );
  useEffect(() => list.stop, []);
  const { data, error } = useKept(list.state.value);
  // The server judges the traces one after the other.
  const judging = data?.traces.some((entry) => entry.judging) ?? false;
  useEffect(() => {
    const look = () => {
      if (!document.hidden && !list.state.peek().loading) list.refetch();
    };
    const timer = setInterval(look, judging ? JUDGING_POLL_MS : POLL_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [judging]);
  const over = useSignal(false);
  const dialog = useSignal<{ kind: DialogKind; entry: TraceEntry } | null>(null);
  const editable = server.value.data?.editable ?? false;
  const add = (files: FileList | null | undefined) => addFiles([...(files ?? [])], list.refetch);
  const closeDialog = () => {
    dialog.value = null;
  };

  return (
    <main
      class={over.value ? "page-main traces over" : "page-main traces"}
      data-ready={data !== null}
      onDragOver={(event) => {
        if (!editable) return;
        event.preventDefault();
        over.value = true;
      }}
      onDragLeave={(event) => {
        if (event.target === event.currentTarget) over.value = false;
      }}
      onDrop={(event) => {
        event.preventDefault();
        over.value = false;
        if (editable) add(event.dataTransfer?.files);
      }}
    >
      <Head editable={editable} add={add} />
      {server.value.data?.fleet && <Fleet />}
      {uploads.value.map((one) => (
        <UploadRow key={one.id} upload={one} />
      ))}
      {error && <ErrorMessage error={error} retry={list.refetch} />}
      {!data && !error && <Busy what="Reading the folder …" />}
      {data && (
        <TraceList
          traces={data.traces}
          editable={editable}
          openDialog={(kind, entry) => {
            dialog.value = { kind, entry };
          }}
          changed={list.refetch}
        />
      )}
      {dialog.value?.kind === "rename" && (
        <Rename entry={dialog.value.entry} close={closeDialog} changed={list.refetch} />
      )}
      {dialog.value?.kind === "delete" && (
        <Delete entry={dialog.value.entry} close={closeDialog} changed={list.refetch} />
      )}
    </main>
  );
}

/** Of a list that is fetched again and again: what came last, also while it loads or after it failed. */
function useKept<T>({
  data,
  error,
  loading,
}: QueryState<T>): Pick<QueryState<T>, "data" | "error"> {
  const kept = useRef<Pick<QueryState<T>, "data" | "error">>({ data: null, error: null });
  const before = kept.current;
  kept.current = { data: data ?? before.data, error: loading ? before.error : error };
  return kept.current;
}

function addFiles(files: readonly File[], changed: () => void): void {
  const limit = server.value.data?.upload_limit_bytes ?? Infinity;
  for (const file of files) {
    void upload(file, limit).then((done) => {
      if (!done) return;
      // A single file is opened, unless the user has opened another trace meanwhile.
      if (files.length === 1 && store.trace.value === null) openWithStart(file.name);
      else changed();
    });
  }
}

interface HeadProps {
  editable: boolean;
  add: (files: FileList | null) => void;
}

function Head({ editable, add }: HeadProps) {
  const list = store.list.value;
  return (
    <>
      <header class="traces-head">
        <h1>
          Traces
          {server.value.data && <span class="dim"> in {server.value.data.folder}</span>}
        </h1>
        <input
          type="search"
          aria-label="Filter the traces"
          placeholder='Filter: any word, host:box, cause:"lock starvation", stall>1s, size<10MB'
          value={list.filter}
          onInput={({ currentTarget: { value: filter } }) =>
            replacing(() => (store.list.value = { ...list, filter }))
          }
        />
        {editable && (
          <label class="btn primary">
            Add a file …
            <input
              type="file"
              class="sr-only"
              multiple
              onChange={(event) => {
                add(event.currentTarget.files);
                event.currentTarget.value = "";
              }}
            />
          </label>
        )}
      </header>
      {editable && (
        <p class="dim">
          Drop a .hitch, perf.data, .etl, zipped .etl, Perfetto or trace.dat file anywhere here to
          add and open it. It stays on this machine.
        </p>
      )}
    </>
  );
}

function UploadRow({ upload: { name, error, progress, cancel } }: { upload: Upload }) {
  return (
    <div class="upload" role="status">
      {error ? (
        <p class="bad">
          {name}: {error}
        </p>
      ) : (
        <>
          <span>{name}</span>
          <progress max={1} value={progress} aria-label={`Uploading ${name}`} />
          <button type="button" class="btn small" onClick={cancel}>
            Cancel
          </button>
        </>
      )}
    </div>
  );
}

interface TraceListProps {
  traces: readonly TraceEntry[];
  editable: boolean;
  openDialog: (kind: DialogKind, entry: TraceEntry) => void;
  changed: () => void;
}

function TraceList({ traces, editable, openDialog, changed }: TraceListProps) {
  const words = wordsOf(store.list.value.filter);
  const shown = traces.filter((entry) => words.every((word) => passes(entry, word)));
  // What is too large for that never will be, and must not keep the progress from ending.
  const awaited = traces.filter((entry) => !entry.too_large && entry.error === null);
  const judged = awaited.filter((entry) => entry.first_answer !== null);
  return (
    <>
      {judged.length < awaited.length && (
        <p class="judging">
          <progress max={awaited.length} value={judged.length} aria-label="Traces analysed" />
          {judged.length} of {plural(awaited.length, "trace")} analysed
        </p>
      )}
      {shown.length > 0 && (
        <Rows entries={shown} editable={editable} openDialog={openDialog} changed={changed} />
      )}
      {shown.length === 0 && (
        <p class="empty">
          {traces.length === 0 ? (
            <>
              No traces yet. Make one with <code>unhitch record</code> or <code>unhitch watch</code>
              .
            </>
          ) : (
            "No trace matches the filter."
          )}
        </p>
      )}
    </>
  );
}

interface DialogProps {
  entry: TraceEntry;
  close: () => void;
  changed: () => void;
}

function Rename({ entry, close, changed }: DialogProps) {
  const name = useSignal(entry.name);
  const problem = useSignal("");
  return (
    <Dialog label="Rename the trace" onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void send("PATCH", traceUrl(entry.name), { name: name.value.trim() }).then(
            () => {
              close();
              changed();
              store.notify("Renamed.");
            },
            (error: unknown) => {
              const { message, hint } = asApiError(error);
              problem.value = `${message}. ${hint}`;
            },
          );
        }}
      >
        <h1 class="dialog-title">Rename the trace</h1>
        <input
          class="wide-field"
          aria-label="New name"
          autoFocus
          value={name.value}
          onInput={(event) => (name.value = event.currentTarget.value)}
        />
        {problem.value && (
          <p class="bad" role="alert">
            {problem.value}
          </p>
        )}
        <div class="dialog-buttons">
          <button type="button" class="btn" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="btn primary">
            Rename
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Delete({ entry, close, changed }: DialogProps) {
  const problem = useSignal("");
  return (
    <Dialog label="Delete the trace" onClose={close}>
      <h1 class="dialog-title">Delete this trace?</h1>
      <p>
        <strong>{entry.name}</strong>, {bytesText(entry.bytes)}, with its notes. This cannot be
        undone.
      </p>
      {problem.value && (
        <p class="bad" role="alert">
          {problem.value}
        </p>
      )}
      <div class="dialog-buttons">
        <button type="button" class="btn" autoFocus onClick={close}>
          Cancel
        </button>
        <button
          type="button"
          class="btn danger"
          onClick={() =>
            void send("DELETE", traceUrl(entry.name)).then(
              () => {
                close();
                changed();
                store.notify("Deleted.");
              },
              (error: unknown) => {
                const { message, hint } = asApiError(error);
                problem.value = `${message}. ${hint}`;
              },
            )
          }
        >
          Delete
        </button>
      </div>
    </Dialog>
  );
}
