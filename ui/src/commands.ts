/**
 * The registry of commands, from which palette, key bindings and help are built.
 *
 * Keys are physical (`KeyboardEvent.code`), so that WASD is under the same fingers on any layout.
 * Modifiers come first, in the order Ctrl, Alt, Shift: `Shift+KeyM`, `Ctrl+Shift+KeyP`. Cmd counts
 * as Ctrl.
 */
import { signal } from "@preact/signals";

export interface Command {
  /** Unique, such as `timeline.zoom-in`. */
  readonly id: string;
  /** The section of the help that lists it. */
  readonly group:
    | "Trace"
    | "View"
    | "Timeline"
    | "Tracks"
    | "Wait chain"
    | "Selection"
    | "Table"
    | "Stacks"
    | "Copy"
    | "Help";
  readonly title: string;
  readonly keys?: readonly string[];
  /** Whether it can run now. Absent: always. */
  readonly when?: () => boolean;
  /** Also runs on the repeats of a held key. */
  readonly repeats?: boolean;
  /** Also runs while the user types into a field. */
  readonly inFields?: boolean;
  /** `held`: run by a key, so that `released` will follow. False if run from the palette. */
  readonly run: (held: boolean) => void;
  readonly released?: () => void;
}

const commands = new Map<string, Command>();
/** Changes with each registration, so that the palette updates. */
export const registered = signal(0);

/** Registers commands. Returns a function that unregisters them, for when their owner unmounts. */
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

/** All commands in order of registration. */
export function all(): Command[] {
  return [...commands.values()];
}

export function available(command: Command): boolean {
  return command.when?.() ?? true;
}

/** Runs a command by its id, as buttons do. Returns whether it exists and could run. */
export function run(id: string): boolean {
  const command = commands.get(id);
  if (!command || !available(command)) return false;
  command.run(false);
  return true;
}

/** A key event's chord, in the form of `Command.keys`. */
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

/** A chord for display: `Ctrl+Shift+P`, `[`. */
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

/** Whether this element takes typed text. */
function isField(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Binds the keys of all commands; call once. A view that handles a key calls `preventDefault`. */
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
  // A key released in another window is never reported.
  to.addEventListener("blur", () => {
    for (const code of [...held.keys()]) release(code);
  });
}

function release(code: string): void {
  const command = held.get(code);
  held.delete(code);
  command?.released?.();
}
