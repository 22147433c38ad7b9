/**
 * Requests to the server. Each can be cancelled, and each error comes with a hint at what to do.
 *
 * The server sets the token as a cookie when the page is opened, so requests carry no credentials.
 */

/** A refusal by the server: what is wrong and what to do about it. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string,
    /** Where a filter is wrong, in characters; `null` for any other error. */
    readonly at: number | null = null,
  ) {
    super(message);
  }
}

/** Parameters of a request; `null`, `undefined` and empty strings are omitted. */
export type Params = Readonly<
  Record<string, string | number | boolean | null | undefined | readonly string[]>
>;

export function queryString(params: Params): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    if (Array.isArray(value)) {
      if (value.length) out.set(name, value.join(","));
    } else {
      out.set(name, String(value));
    }
  }
  const text = out.toString();
  return text && `?${text}`;
}

/** The path of a trace's resource: `tracePath("a.hitch", "view")`. */
export function tracePath(trace: string, resource: string): string {
  return `/api/t/${encodeURIComponent(trace)}/${resource}`;
}

async function request(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(
      0,
      "the server does not answer",
      "Is `unhitch view` still running? Start it again and open the address it prints.",
    );
  }
  if (response.ok) return response;
  let message = `${response.status} ${response.statusText}`;
  let hint = "";
  let at: number | null = null;
  try {
    const body = (await response.json()) as { error?: string; hint?: string; at?: number };
    message = body.error ?? message;
    hint = body.hint ?? "";
    at = body.at ?? null;
  } catch {
    // Without a body, the status is all there is to report.
  }
  throw new ApiError(response.status, message, hint, at);
}

export async function getJson<T>(
  path: string,
  params: Params = {},
  signal?: AbortSignal,
): Promise<T> {
  return (await (
    await request(path + queryString(params), { signal: signal ?? null })
  ).json()) as T;
}

export async function getBytes(
  path: string,
  params: Params = {},
  signal?: AbortSignal,
): Promise<ArrayBuffer> {
  return (await request(path + queryString(params), { signal: signal ?? null })).arrayBuffer();
}

export async function getText(
  path: string,
  params: Params = {},
  signal?: AbortSignal,
): Promise<string> {
  return (await request(path + queryString(params), { signal: signal ?? null })).text();
}

/** Sends a change. `body` is sent as JSON unless it is a file. */
export async function send<T>(
  method: "POST" | "PATCH" | "DELETE" | "PUT",
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T | null> {
  const init: RequestInit = { method, signal: signal ?? null };
  if (body instanceof Blob) {
    init.body = body;
  } else if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  const response = await request(path, init);
  return response.headers.get("content-type")?.includes("json")
    ? ((await response.json()) as T)
    : null;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
