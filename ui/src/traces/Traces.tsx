/** The folder: its traces with their first answers; open, note, rename, delete, drop a file in. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { getJson, send } from "../api/client";
import { server } from "../api/data";
import { asApiError, liveQuery } from "../api/query";
import type { TraceEntry } from "../api/types";
import { Dialog } from "../parts/Dialog";
import { Busy, ErrorMessage } from "../parts/ErrorMessage";
import { openMenu } from "../parts/MenuHost";
import * as store from "../state/store";
import { bytesText, durationText, plural } from "../units";
import { Notes, traceUrl } from "./Notes";
import { upload, uploads } from "./upload";
import "./traces.css";

type OpenDialog = { what: "rename" | "delete"; entry: TraceEntry };

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
  const over = useSignal(false);
  const asked = useSignal<OpenDialog | null>(null);
  const filter = useSignal("");
  const { data, error } = list.state.value;
  const editable = server.value.data?.editable ?? false;
  const take = (files: FileList | null | undefined) => {
    const added = [...(files ?? [])];
    for (const file of added) {
      void upload(file, server.value.data?.upload_limit_bytes ?? Infinity).then((done) => {
        if (!done) return;
        // One file is added to be looked at, unless its user looks at another by now.
        if (added.length === 1 && store.trace.value === null) store.openTrace(file.name);
        else list.refetch();
      });
    }
  };
  const wanted = filter.value.toLowerCase();
  const shown =
    data?.traces.filter((entry) =>
      [entry.name, entry.host, entry.notes, entry.first_answer?.text].some((text) =>
        text?.toLowerCase().includes(wanted),
      ),
    ) ?? [];

  return (
    <main
      class={over.value ? "page-main traces over" : "page-main traces"}
      data-ready={data !== null}
      onDragOver={(event) => {
        if (!editable) return;
        event.preventDefault();
        over.value = true;
      }}
      onDragLeave={(event) => event.target === event.currentTarget && (over.value = false)}
      onDrop={(event) => {
        event.preventDefault();
        over.value = false;
        if (editable) take(event.dataTransfer?.files);
      }}
    >
      <header class="traces-head">
        <h1>
          Traces
          {server.value.data && <span class="dim"> in {server.value.data.folder}</span>}
        </h1>
        <input
          type="search"
          aria-label="Filter the traces"
          placeholder="Filter by name, host, answer, notes"
          value={filter.value}
          onInput={(event) => (filter.value = event.currentTarget.value)}
        />
        {editable && (
          <label class="btn primary">
            Add a file …
            <input
              type="file"
              class="sr-only"
              multiple
              onChange={(event) => {
                take(event.currentTarget.files);
                event.currentTarget.value = "";
              }}
            />
          </label>
        )}
      </header>
      {editable && (
        <p class="dim">
          Drop a .hitch, perf.data, .etl or zipped .etl file anywhere here to add and open it. It
          stays on this machine.
        </p>
      )}
      {uploads.value.map((one) => (
        <div key={one.id} class="upload" role="status">
          {one.error ? (
            <p class="bad">
              {one.name}: {one.error}
            </p>
          ) : (
            <>
              <span>{one.name}</span>
              <progress max={1} value={one.progress} aria-label={`Uploading ${one.name}`} />
              <button class="btn small" onClick={one.cancel}>
                Cancel
              </button>
            </>
          )}
        </div>
      ))}
      {error && <ErrorMessage error={error} retry={list.refetch} />}
      {!data && !error && <Busy what="Looking into the folder …" />}
      {data && (
        <ul class="trace-list">
          {shown.map((entry) => (
            <Card
              key={entry.name}
              entry={entry}
              editable={editable}
              ask={(what) => (asked.value = { what, entry })}
              changed={list.refetch}
            />
          ))}
        </ul>
      )}
      {data && shown.length === 0 && (
        <p class="empty">
          {data.traces.length === 0 ? (
            <>
              No traces yet. Make one with <code>unhitch record</code> or <code>unhitch watch</code>
              .
            </>
          ) : (
            "None fits the filter."
          )}
        </p>
      )}
      {asked.value?.what === "rename" && (
        <Rename
          entry={asked.value.entry}
          close={() => (asked.value = null)}
          changed={list.refetch}
        />
      )}
      {asked.value?.what === "delete" && (
        <Delete
          entry={asked.value.entry}
          close={() => (asked.value = null)}
          changed={list.refetch}
        />
      )}
    </main>
  );
}

function Card({
  entry,
  editable,
  ask: question,
  changed,
}: {
  entry: TraceEntry;
  editable: boolean;
  ask: (what: OpenDialog["what"]) => void;
  changed: () => void;
}) {
  const facts = [
    entry.host,
    entry.duration_ns === null ? null : durationText(entry.duration_ns),
    entry.cpus === null ? null : plural(entry.cpus, "CPU"),
    bytesText(entry.bytes),
    new Date(entry.modified).toLocaleString(),
  ];
  return (
    <li class="trace-card" data-trace={entry.name}>
      <div class="trace-main">
        <button
          class="trace-open"
          disabled={entry.error !== null}
          onClick={() => store.openTrace(entry.name)}
        >
          {entry.name}
        </button>
        <span class="dim">{facts.filter(Boolean).join(" · ")}</span>
        {editable && (
          <button
            class="btn small"
            aria-haspopup="menu"
            aria-label={`More for ${entry.name}`}
            onClick={(event) =>
              openMenu(
                entry.name,
                [
                  { title: "Rename …", run: () => question("rename") },
                  { title: "Delete …", run: () => question("delete") },
                ],
                event.currentTarget,
              )
            }
          >
            ⋯
          </button>
        )}
      </div>
      {entry.error !== null && <p class="bad">{entry.error}</p>}
      {entry.first_answer && (
        <p class="first-answer">{entry.first_answer.text ?? "No stall was found."}</p>
      )}
      {!entry.first_answer && entry.error === null && (
        <p class="dim">Not judged yet; open it to hear why it hung.</p>
      )}
      <Notes name={entry.name} format={entry.format} notes={entry.notes} changed={changed} />
    </li>
  );
}

function Rename({
  entry,
  close,
  changed,
}: {
  entry: TraceEntry;
  close: () => void;
  changed: () => void;
}) {
  const name = useSignal(entry.name);
  const wrong = useSignal("");
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
              const told = asApiError(error);
              wrong.value = `${told.message}. ${told.hint}`;
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
        {wrong.value && (
          <p class="bad" role="alert">
            {wrong.value}
          </p>
        )}
        <div class="dialog-buttons">
          <button type="button" class="btn" onClick={close}>
            Cancel
          </button>
          <button class="btn primary">Rename</button>
        </div>
      </form>
    </Dialog>
  );
}

function Delete({
  entry,
  close,
  changed,
}: {
  entry: TraceEntry;
  close: () => void;
  changed: () => void;
}) {
  const wrong = useSignal("");
  return (
    <Dialog label="Delete the trace" onClose={close}>
      <h1 class="dialog-title">Delete this trace?</h1>
      <p>
        <strong>{entry.name}</strong>, {bytesText(entry.bytes)}, with its notes. This cannot be
        undone.
      </p>
      {wrong.value && (
        <p class="bad" role="alert">
          {wrong.value}
        </p>
      )}
      <div class="dialog-buttons">
        <button class="btn" autoFocus onClick={close}>
          Keep it
        </button>
        <button
          class="btn danger"
          onClick={() =>
            void send("DELETE", traceUrl(entry.name)).then(
              () => {
                close();
                changed();
                store.notify("Deleted.");
              },
              (error: unknown) => {
                const told = asApiError(error);
                wrong.value = `${told.message}. ${told.hint}`;
              },
            )
          }
        >
          Delete it
        </button>
      </div>
    </Dialog>
  );
}
