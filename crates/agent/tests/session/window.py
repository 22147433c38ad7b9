"""A window of GTK with a line of text; its title is the argument. `hang SECONDS` on standard input keeps its thread away from
its event loop, `hang` until the next line. Prints when that begins and ends (CLOCK_MONOTONIC), and
`drawn` when what was typed is on the screen."""
import os
import select
import sys
import time

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk  # noqa: E402

window = Gtk.Window(title=sys.argv[1])
entry = Gtk.Entry()
window.add(entry)
window.connect("map-event", lambda *_: print("mapped", os.getpid(), flush=True))


def drawn():
    print("drawn", flush=True)
    return False


def command(*_):
    words = sys.stdin.buffer.raw.readline().split()
    if not words:
        Gtk.main_quit()
        return False
    print("hangs", time.monotonic_ns(), flush=True)
    if len(words) > 1:
        time.sleep(float(words[1]))
    else:
        while not select.select([sys.stdin], [], [], 0)[0]:
            time.sleep(0.5)
        sys.stdin.buffer.raw.readline()
    print("hung", time.monotonic_ns(), flush=True)
    return True


# Idle comes after all that is to be drawn.
entry.connect("changed", lambda *_: GLib.idle_add(drawn))
GLib.io_add_watch(sys.stdin, GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, command)
window.show_all()
Gtk.main()
