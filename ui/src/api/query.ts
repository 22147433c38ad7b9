/** Keeps an answer of the server beside a question that changes: the newest question wins, older requests are cancelled. */
import { effect, type ReadonlySignal, signal, untracked } from "@preact/signals";
import { ApiError, isAbort } from "./client";

export interface Answer<T> {
  /** The latest answer; while a newer one is on its way, the older one. */
  readonly data: T | null;
  readonly error: ApiError | null;
  readonly loading: boolean;
}

const NOTHING = { data: null, error: null, loading: false } as const;

/**
 * `question` reads signals and returns a function that asks, or `null` for nothing to ask. It is called again whenever one of those
 * signals changes. `same` tells whether a new question is about the same thing, so that the old answer may stay meanwhile.
 */
export function ask<T>(
  question: () => {
    key: string;
    subject?: string;
    ask: (signal: AbortSignal) => Promise<T>;
  } | null,
): {
  answer: ReadonlySignal<Answer<T>>;
  again: () => void;
  stop: () => void;
} {
  const answer = signal<Answer<T>>(NOTHING);
  const round = signal(0);
  let current: AbortController | null = null;
  let key: string | null = null;
  let subject: string | undefined;

  const stop = effect(() => {
    const turn = round.value;
    const next = question();
    const nextKey = next === null ? null : `${turn} ${next.key}`;
    if (nextKey === key) return;
    key = nextKey;
    current?.abort();
    if (next === null) {
      answer.value = NOTHING;
      return;
    }
    const controller = new AbortController();
    current = controller;
    const keep = next.subject === subject ? answer.peek().data : null;
    subject = next.subject;
    answer.value = { data: keep, error: null, loading: true };
    untracked(() => next.ask(controller.signal)).then(
      (data) => {
        if (current === controller) answer.value = { data, error: null, loading: false };
      },
      (error: unknown) => {
        if (current !== controller || isAbort(error)) return;
        answer.value = { data: null, error: asApiError(error), loading: false };
      },
    );
  });

  return {
    answer,
    again: () => (round.value += 1),
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
