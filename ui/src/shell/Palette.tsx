/** The command palette: every command of the registry by name. */
import { useSignal } from "@preact/signals";
import { all, available, chordText, registered } from "../commands";
import { Dialog } from "../parts/Dialog";
import { rank } from "./fuzzy";
import { paletteOpen } from "./panels";

export function Palette() {
  return paletteOpen.value ? <Open /> : null;
}

function Open() {
  const text = useSignal("");
  const at = useSignal(0);
  void registered.value;
  const close = () => (paletteOpen.value = false);
  const list = rank(
    all().filter((command) => command.id !== "palette" && available(command)),
    text.value,
    (command) => `${command.group} ${command.title}`,
  );
  const current = Math.min(at.value, Math.max(0, list.length - 1));
  const go = (index: number) => {
    const command = list[index];
    close();
    // Runs after the dialog restored the focus, so that a command which moves it keeps it.
    if (command) setTimeout(() => command.run(false));
  };
  return (
    <Dialog label="Commands" onClose={close}>
      <input
        class="palette-field"
        role="combobox"
        aria-label="Command"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={list[current] ? `command-${current}` : undefined}
        placeholder="Type a command"
        autoFocus
        spellcheck={false}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (step !== undefined && list.length > 0) {
            at.value = (current + step + list.length) % list.length;
            document.getElementById(`command-${at.value}`)?.scrollIntoView({ block: "nearest" });
          } else if (event.key === "Enter") go(current);
          else return;
          event.preventDefault();
        }}
      />
      <ul id="palette-list" class="palette-list" role="listbox" aria-label="Commands">
        {list.map((command, i) => (
          <li
            key={command.id}
            id={`command-${i}`}
            role="option"
            aria-selected={i === current}
            class={i === current ? "hit current" : "hit"}
            onClick={() => go(i)}
          >
            <span class="hit-kind">{command.group}</span>
            <span class="hit-name">{command.title}</span>
            {command.keys?.[0] && <kbd>{chordText(command.keys[0])}</kbd>}
          </li>
        ))}
        {list.length === 0 && <li class="dim pad">No command matches.</li>}
      </ul>
    </Dialog>
  );
}
