/** Short messages: shown for a moment, and announced to screen readers. */
import { useSignalEffect } from "@preact/signals";
import { announced, toast } from "../state/store";

const SHOWN_MS = 3500;

export function Notices() {
  useSignalEffect(() => {
    if (toast.value === "") return;
    const timer = setTimeout(() => (toast.value = ""), SHOWN_MS);
    return () => clearTimeout(timer);
  });
  return (
    <>
      <div class="sr-only" role="status" aria-live="polite">
        {announced.value}
      </div>
      {toast.value && (
        <div class="toast" aria-hidden="true">
          {toast.value}
        </div>
      )}
    </>
  );
}
