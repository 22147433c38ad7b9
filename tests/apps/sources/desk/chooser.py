"""A desktop program (GTK) that shows a file in its main loop, every 20 ms.

    chooser.py NOTE FILM FLAG

When the file FLAG appears, it shows FILM once, otherwise NOTE. Prints when the main loop was away for long.
"""

import json
import os
import sys
import time

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gio, GLib, Gtk  # noqa: E402

PERIOD_MS, SLOW_NS = 20, 100_000_000
note, film, flag = sys.argv[1:]


def preview_file():
    try:
        os.unlink(flag)
        path = film
    except FileNotFoundError:
        path = note
    begin = time.monotonic_ns()
    Gio.File.new_for_path(path).read(None).read_bytes(4096, None)
    end = time.monotonic_ns()
    if end - begin >= SLOW_NS:
        print(json.dumps({"from": begin, "to": end}), flush=True)
    return True


window = Gtk.Window(title="files")
window.add(Gtk.Label(label="a note"))
window.show_all()
GLib.timeout_add(PERIOD_MS, preview_file)
print(json.dumps({"victim": os.getpid()}), flush=True)
Gtk.main()
