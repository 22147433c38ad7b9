/** Adds tracks to the timeline and removes them: by menu, and by commands of the palette. */
import { effect, untracked } from "@preact/signals";
import { tableOf } from "../../actions";
import { register } from "../../commands";
import { type MenuItem, openMenu } from "../../parts/MenuHost";
import * as store from "../../state/store";
import { available } from "../data/tracks";

/** The menu of all tracks. */
export function openTracks(place: { x: number; y: number }): void {
  const shown = store.tracks.peek();
  openMenu(
    "Tracks",
    available.peek().map(({ id, name }) => ({
      title: `${shown.includes(id) ? "Remove" : "Add"} ${name}`,
      run: () => store.toggleTrack(id),
    })),
    place,
  );
}

/** The items about one track. */
export function trackItems(id: string): MenuItem[] {
  const { table, where } = available.peek().find((preset) => preset.id === id) ?? {};
  return [
    { title: "Remove the track", run: () => store.toggleTrack(id) },
    {
      title: "Show as a table",
      disabled: table === undefined,
      run: () => tableOf(id, {}, where),
    },
  ];
}

/** Registers a command for each track; returns a function that unregisters them. */
export function registerTracks(): () => void {
  return effect(() => {
    const presets = available.value;
    return untracked(() =>
      register(
        ...presets.map(({ id, name }) => ({
          id: `track.${id}`,
          group: "Tracks" as const,
          title: `Track: ${name}`,
          run: () => store.toggleTrack(id),
        })),
      ),
    );
  });
}
