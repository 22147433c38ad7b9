/** An answer that did not come: what went wrong, what to do, and work under way. */
import type { ApiError } from "../api/client";

export function Trouble({ error, again }: { error: ApiError; again?: () => void }) {
  return (
    <div class="trouble" role="alert">
      <p class="trouble-what">{error.message}</p>
      {error.hint && <p class="dim">{error.hint}</p>}
      {again && (
        <button class="btn" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Busy({ what }: { what: string }) {
  return (
    <div class="busy" role="status">
      <span class="busy-bar" aria-hidden="true" />
      {what}
    </div>
  );
}
