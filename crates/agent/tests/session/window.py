"""A window of GTK with a line of text. `hang SECONDS` on standard input keeps its thread busy."""
import os
import sys
import time

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk  # noqa: E402

window = Gtk.Window(title="victim")
window.add(Gtk.Entry())
window.connect("map-event", lambda *_: print("mapped", os.getpid(), flush=True))


def command(*_):
    words = sys.stdin.readline().split()
    if not words:
        Gtk.main_quit()
        return False
    time.sleep(float(words[1]))
    return True


GLib.io_add_watch(sys.stdin, GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, command)
window.show_all()
Gtk.main()
