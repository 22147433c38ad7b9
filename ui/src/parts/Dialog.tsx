/**
 * A modal dialog: the browser's `<dialog>` traps the focus, closes on Esc, and restores the focus.
 */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export function Dialog({
  label,
  onClose,
  children,
  wide,
}: {
  label: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  // Before the next key: letters typed into a palette that is not open yet would run commands.
  useLayoutEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    // The focus may be on a button at the end of a long dialog.
    dialog?.firstElementChild?.scrollTo(0, 0);
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      aria-label={label}
      class={wide ? "dialog wide" : "dialog"}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === ref.current && onClose()}
      // The page's shortcuts are off while a dialog is open.
      onKeyDown={(event) => event.stopPropagation()}
    >
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}
