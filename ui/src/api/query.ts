/**
 * Keeps the server's latest answer to a request that changes with the page's signals. The newest
 * request wins; older ones are cancelled.
 */
import { effect, type ReadonlySignal, signal, untracked } from "@preact/signals";
import { ApiError, isAbort } from "./client";

export interface QueryState<T> {
  /** The latest answer. While a newer one about the same subject loads, the older one. */
  readonly data: T | null;
  readonly error: ApiError | null;
  readonly loading: boolean;
}

export interface QueryRequest<T> {
  /** Identifies the request: it is sent again only when its key changes. */
  readonly key: string;
  /**
   * What the request is about. The old answer stays visible while a new one with the same subject
   * loads.
   */
  readonly subject?: string;
  readonly fetch: (signal: AbortSignal) => Promise<T>;
}

export interface LiveQuery<T> {
  readonly state: ReadonlySignal<QueryState<T>>;
  /** Sends the current request again. */
  readonly refetch: () => void;
  readonly stop: () => void;
}

const everything = signal(0);
/** Sends all current requests again; the old answers stay until the new ones arrive. */
export function refetchAll(): void {
  everything.value += 1;
}

const NOTHING = { data: null, error: null, loading: false } as const;

/**
 * `request` reads signals and returns what to fetch, or `null` for nothing. It runs again whenever
 * one of those signals changes.
 */
export function liveQuery<T>(request: () => QueryRequest<T> | null): LiveQuery<T> {
  const state = signal<QueryState<T>>(NOTHING);
  const round = signal(0);
  let current: AbortController | null = null;
  let key: string | null = null;
  let subject: string | undefined;

  const stop = effect(() => {
    const turn = `${everything.value} ${round.value}`;
    const next = request();
    const nextKey = next === null ? null : `${turn} ${next.key}`;
    if (nextKey === key) return;
    key = nextKey;
    current?.abort();
    if (next === null) {
      state.value = NOTHING;
      return;
    }
    const controller = new AbortController();
    current = controller;
    const keep = next.subject === subject ? state.peek().data : null;
    subject = next.subject;
    state.value = { data: keep, error: null, loading: true };
    untracked(() => next.fetch(controller.signal)).then(
      (data) => {
        if (current === controller) state.value = { data, error: null, loading: false };
      },
      (error: unknown) => {
        if (current !== controller || isAbort(error)) return;
        state.value = { data: null, error: asApiError(error), loading: false };
      },
    );
  });

  return {
    state,
    refetch: () => {
      round.value += 1;
    },
    stop: () => {
      current?.abort();
      stop();
    },
  };
}

export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError
    ? error
    : new ApiError(0, error instanceof Error ? error.message : String(error), "");
}
