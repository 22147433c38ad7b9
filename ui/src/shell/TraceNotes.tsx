/** The dialog with the open trace's notes. */
import { refetchSummary, summary } from "../api/data";
import { Dialog } from "../parts/Dialog";
import { Notes } from "../traces/Notes";
import { notesOpen } from "./panels";

export function TraceNotes() {
  const data = summary.value.data;
  if (!notesOpen.value || data === null) return null;
  const close = () => (notesOpen.value = false);
  return (
    <Dialog label="Notes" onClose={close}>
      <h1 class="dialog-title">Notes on {data.name}</h1>
      <Notes name={data.name} format={data.format} notes={data.notes} changed={refetchSummary} />
      <div class="dialog-buttons">
        <button type="button" class="btn" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
