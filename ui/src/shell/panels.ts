/** What is open above the page; not in the URL, since a link shows a place and not a menu. */
import { signal } from "@preact/signals";

export const paletteOpen = signal(false);
export const helpOpen = signal(false);
export const notesOpen = signal(false);
/** Counts requests to put the focus into the search field. */
export const searchFocus = signal(0);
