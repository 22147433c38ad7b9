"""A desktop program with a main loop; when told so, it asks a service on the bus and waits.

    editor.py BUS NAME

Prints a line when its window is there. A line on standard input makes it ask; a second one ends it,
and it prints the longest time that the loop was away.
"""

import json
import sys
import threading
import time

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gio, GLib, Gtk  # noqa: E402

PERIOD_MS = 20
address, name = sys.argv[1:]
flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT
flags |= Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
bus = Gio.DBusConnection.new_for_address_sync(address, flags, None, None)
last = time.monotonic_ns()
longest = (0, 0)


def tick():
    global last, longest
    now = time.monotonic_ns()
    if now - last > longest[1] - longest[0]:
        longest = (last, now)
    last = now
    return True


def check_spelling():
    bus.call_sync(name, "/spelling", name, "Check", None, None, 0, 10_000, None)
    return False


def told():
    sys.stdin.readline()
    GLib.idle_add(check_spelling)
    sys.stdin.readline()
    GLib.idle_add(Gtk.main_quit)


window = Gtk.Window(title="letter")
window.add(Gtk.TextView())
window.show_all()
GLib.timeout_add(PERIOD_MS, tick)
GLib.timeout_add(500, lambda: print("ready", flush=True))
threading.Thread(target=told, daemon=True, name="told").start()
Gtk.main()
print(json.dumps(longest), flush=True)
