/** Which dialogs are open. Not in the URL: a link shows a view, not a dialog. */
import { signal } from "@preact/signals";

export const paletteOpen = signal(false);
export const helpOpen = signal(false);
export const notesOpen = signal(false);
/** Changes with each request to focus the search field. */
export const searchFocus = signal(0);
