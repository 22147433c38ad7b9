"""Two desktop programs with a main loop (GTK): one that has copied a text, and one that pastes it.

    pasting.py copies FLAG
    pasting.py pastes

The first one has the clipboard; when the file FLAG appears, it computes in its main loop. The second one
asks for the text every 20 ms, and prints when that took long. Each prints a line when it is ready.
"""

import json
import os
import sys
import time

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gdk, GLib, Gtk  # noqa: E402

PERIOD_MS, SLOW_NS = 20, 100_000_000
clipboard = Gtk.Clipboard.get(Gdk.SELECTION_CLIPBOARD)


def lay_out_pages():
    end, value = time.monotonic() + 1.3, 7
    while time.monotonic() < end:
        value = (value * 31 + 7) % 1000003


def look():
    try:
        os.unlink(sys.argv[2])
    except FileNotFoundError:
        return True
    lay_out_pages()
    return True


def paste_text():
    begin = time.monotonic_ns()
    text = clipboard.wait_for_text()
    end = time.monotonic_ns()
    if text is None:
        sys.exit("there is no text")
    if end - begin >= SLOW_NS:
        print(json.dumps({"from": begin, "to": end}), flush=True)
    GLib.timeout_add(PERIOD_MS, paste_text)
    return False


window = Gtk.Window(title=sys.argv[1])
window.add(Gtk.TextView())
window.show_all()
if sys.argv[1] == "copies":
    clipboard.set_text("Dear Sir", -1)
    GLib.timeout_add(PERIOD_MS, look)
else:
    GLib.timeout_add(500, paste_text)
print(json.dumps({"victim": os.getpid()}), flush=True)
Gtk.main()
