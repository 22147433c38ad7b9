/** The help: every command with its keys, from the registry. */
import { all, chordText, registered } from "../commands";
import { STATES } from "../draw/states";
import { Dialog } from "../parts/Dialog";
import { Tile } from "../parts/Patterns";
import { helpOpen } from "./panels";

export function Help() {
  if (!helpOpen.value) return null;
  void registered.value;
  const groups = Map.groupBy(all(), (command) => command.group);
  return (
    <Dialog label="Keys and commands" wide onClose={() => (helpOpen.value = false)}>
      <h1 class="dialog-title">Keys and commands</h1>
      <div class="help">
        {[...groups].map(([group, commands]) => (
          <section key={group}>
            <h2>{group}</h2>
            <dl>
              {commands.map((command) => (
                <div key={command.id}>
                  <dt>
                    {command.keys?.length ? (
                      command.keys.map((key) => <kbd key={key}>{chordText(key)}</kbd>)
                    ) : (
                      <span class="dim">palette</span>
                    )}
                  </dt>
                  <dd>{command.title}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <section>
          <h2>Colours</h2>
          <ul class="legend">
            {STATES.map((state) => (
              <li key={state.id} title={state.description}>
                <svg class="swatch" width="12" height="12" viewBox="0 0 8 8" aria-hidden="true">
                  <Tile state={state} />
                </svg>{" "}
                {state.name}
              </li>
            ))}
          </ul>
          <p class="dim">
            Keys are physical positions: WASD is where it is on an English keyboard. Everything can
            also be done with a menu, a button or the palette. Underlined text in an answer links to
            its evidence.
          </p>
        </section>
      </div>
      <button type="button" class="btn" autoFocus onClick={() => (helpOpen.value = false)}>
        Close
      </button>
    </Dialog>
  );
}
