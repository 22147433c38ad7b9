/**
 * Serves a need for data that changes all the time. Lets a request finish as long as its answer is
 * useful, and then sends the one needed by then.
 */
import { signal } from "@preact/signals";
import { isAbort } from "../../api/client";
import { asApiError } from "../../api/query";
import * as model from "./model";

/** Number of requests in flight; the picture is complete at 0. */
export const pending = signal(0);

/** Retries after this long when the server is not ready. */
const RETRY_MS = 400;

export class Fetcher<R> {
  private current: { request: R; controller: AbortController } | null = null;
  private failed = "";
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly next: () => R | null,
    private readonly isUseful: (request: R) => boolean,
    private readonly load: (request: R, signal: AbortSignal) => Promise<void>,
  ) {}

  update(): void {
    if (this.current) {
      if (this.isUseful(this.current.request)) return;
      this.stop();
    }
    const request = this.next();
    // A request that failed is not repeated until another one is needed.
    if (request === null || JSON.stringify(request) === this.failed) return;
    const started = { request, controller: new AbortController() };
    this.current = started;
    pending.value += 1;
    this.load(request, started.controller.signal)
      .then(() => {
        this.failed = "";
        return null;
      })
      .catch((error: unknown) => {
        if (isAbort(error) || this.current !== started) return;
        this.failed = JSON.stringify(request);
        const { status: code, message, hint } = asApiError(error);
        if (code !== 503) {
          model.problem.value = hint ? `${message}. ${hint}` : message;
          return;
        }
        this.timer = setTimeout(() => {
          this.failed = "";
          this.update();
        }, RETRY_MS);
      })
      .finally(() => {
        pending.value -= 1;
        if (this.current !== started) return;
        this.current = null;
        this.update();
      });
  }

  stop(): void {
    clearTimeout(this.timer);
    this.failed = "";
    const current = this.current;
    this.current = null;
    current?.controller.abort();
  }
}
