/** What stands in for data: an error with its hint, or a progress note. */
import type { ApiError } from "../api/client";

export function ErrorMessage({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="error-box" role="alert">
      <p class="error-message">{error.message}</p>
      {error.hint && <p class="dim">{error.hint}</p>}
      {retry && (
        <button type="button" class="btn" onClick={retry}>
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
