/** Uploads a file to the trace folder. `fetch` reports no upload progress, hence XMLHttpRequest. */
import { signal } from "@preact/signals";
import { notify } from "../state/store";
import { bytesText } from "../units";

export interface Upload {
  readonly id: number;
  readonly name: string;
  /** From 0 to 1. */
  readonly progress: number;
  readonly error: string | null;
  readonly cancel: () => void;
}

export const uploads = signal<readonly Upload[]>([]);
let last = 0;

function change(id: number, to: Partial<Upload> | null): void {
  uploads.value =
    to === null
      ? uploads.value.filter((one) => one.id !== id)
      : uploads.value.map((one) => (one.id === id ? { ...one, ...to } : one));
}

/** How long an error stays visible. */
const ERROR_SHOWN_MS = 12_000;

export function upload(file: File, limit: number): Promise<boolean> {
  const id = ++last;
  const request = new XMLHttpRequest();
  uploads.value = [
    ...uploads.value,
    { id, name: file.name, progress: 0, error: null, cancel: () => request.abort() },
  ];
  const refuse = (error: string) => {
    change(id, { error });
    setTimeout(() => change(id, null), ERROR_SHOWN_MS);
    return false;
  };
  if (file.size > limit)
    return Promise.resolve(
      refuse(
        `${bytesText(file.size)} exceeds the server's limit of ${bytesText(limit)}. ` +
          "Copy the file into the folder instead.",
      ),
    );
  return new Promise((resolve) => {
    request.upload.onprogress = (event) =>
      change(id, { progress: event.loaded / Math.max(1, event.total) });
    request.onabort = () => {
      change(id, null);
      resolve(false);
    };
    request.onerror = () => resolve(refuse("the server closed the connection"));
    request.onload = () => {
      if (request.status === 201) {
        change(id, null);
        notify(`Added ${file.name}.`);
        resolve(true);
        return;
      }
      let reason = `${request.status} ${request.statusText}`;
      try {
        const body = JSON.parse(request.responseText) as { error?: string; hint?: string };
        reason = `${body.error ?? reason}. ${body.hint ?? ""}`;
      } catch {
        // Without a body, the status is all there is to report.
      }
      resolve(refuse(reason));
    };
    request.open("POST", `/api/traces?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.send(file);
  });
}
