/**
 * The one registry of commands: palette, keys and the help are all made from it.
 *
 * Keys are physical (`KeyboardEvent.code`), so that WASD is where the fingers are on any layout. Modifiers stand before in the order
 * Ctrl, Alt, Shift: `Shift+KeyM`, `Ctrl+Shift+KeyP`; Cmd counts as Ctrl.
 */
import { signal } from "@preact/signals";

export interface Command {
  /** `timeline.zoom-in`: unique. */
  readonly id: string;
  /** Part of the help it stands in. */
  readonly group:
    | "Trace"
    | "View"
    | "Timeline"
    | "Wait chain"
    | "Selection"
    | "Table"
    | "Stacks"
    | "Copy"
    | "Help";
  readonly title: string;
  readonly keys?: readonly string[];
  /** Whether it makes sense now; absent means always. */
  readonly when?: () => boolean;
  /** Runs also on the repeats of a held key; otherwise only the first counts. */
  readonly repeats?: boolean;
  /** Runs also while a text is typed into a field. */
  readonly inFields?: boolean;
  /** `held` is true for a key (with `released` called at its end), false from the palette. */
  readonly run: (held: boolean) => void;
  readonly released?: () => void;
}

const commands = new Map<string, Command>();
/** Counts registrations, so that the palette follows. */
export const registered = signal(0);

/** Adds commands; the result takes them away again, to be called when the part that owns them goes. */
export function register(...list: Command[]): () => void {
  for (const command of list) {
    if (commands.has(command.id)) throw new Error(`two commands are called ${command.id}`);
    commands.set(command.id, command);
  }
  registered.value += 1;
  return () => {
    for (const command of list) commands.delete(command.id);
    registered.value += 1;
  };
}

/** All commands in the order in which they were registered. */
export function all(): Command[] {
  return [...commands.values()];
}

export function available(command: Command): boolean {
  return command.when?.() ?? true;
}

/** Runs a command by its id, as buttons do; says whether it existed and could run. */
export function run(id: string): boolean {
  const command = commands.get(id);
  if (!command || !available(command)) return false;
  command.run(false);
  return true;
}

/** The chord of a key event in the form that `Command.keys` is written in. */
export function chordOf(
  event: Pick<KeyboardEvent, "code" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">,
): string {
  const parts: string[] = [];
  if (event.ctrlKey || event.metaKey) parts.push("Ctrl");
  if (event.altKey) parts.push("Alt");
  if (event.shiftKey) parts.push("Shift");
  parts.push(event.code);
  return parts.join("+");
}

/** A chord as people read it: `Ctrl+Shift+P`, `[`. */
export function chordText(chord: string): string {
  const names: Record<string, string> = {
    BracketLeft: "[",
    BracketRight: "]",
    Period: ".",
    Comma: ",",
    Slash: "/",
    "Shift+Slash": "?",
    Equal: "=",
    Minus: "−",
    ArrowLeft: "←",
    ArrowRight: "→",
    ArrowUp: "↑",
    ArrowDown: "↓",
    Escape: "Esc",
    Space: "Space",
  };
  if (names[chord]) return names[chord];
  return chord
    .split("+")
    .map((part) => names[part] ?? part.replace(/^(Key|Digit)/, ""))
    .join("+");
}

const held = new Map<string, Command>();

/** Whether typing goes into this element. */
function isField(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Binds the keys of all commands; call once. Views that handle a key themselves call `preventDefault` and are left alone. */
export function listen(to: Window): void {
  to.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const chord = chordOf(event);
    const typing = isField(event.target);
    const command = all().find(
      (c) => c.keys?.includes(chord) && (!typing || c.inFields) && available(c),
    );
    if (!command) return;
    event.preventDefault();
    if (event.repeat && !command.repeats) return;
    command.run(true);
    if (command.released) held.set(event.code, command);
  });
  to.addEventListener("keyup", (event) => release(event.code));
  // A key that is let go in another window is never reported.
  to.addEventListener("blur", () => [...held.keys()].forEach(release));
}

function release(code: string): void {
  const command = held.get(code);
  held.delete(code);
  command?.released?.();
}
