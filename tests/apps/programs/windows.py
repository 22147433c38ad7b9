"""Desktop programs that wait for each other: for the clipboard, for the manager of all windows, for the
first one of their kind, for a slow folder, for a terminal."""

import os
import threading
import time

from actor import told
from hang import Missing, Who, hang
from programs.desktop import screen, x_grab
from programs.go_betweens import drive
from programs.kernel import SECONDS, ticking
from programs.native import Program
from programs.servers import PYTHON, SLEEPS
from stage import HERE, children, until

SOURCES = HERE / "sources/desk"


def desktop(stage, display, script, *arguments):
    """A desktop program that measures itself, in Debian's Python."""
    settings = {"DISPLAY": display, "NO_AT_BRIDGE": "1", "GIO_USE_VFS": "local"}
    return Program(stage, PYTHON, SOURCES / script, *arguments, env=os.environ | settings)


@hang("GTK", [r"lay_out_pages|wait_for_(text|contents)|gtk_clipboard"], needs=["Xvfb"])
def gtk_pastes_from_busy_program(stage):
    """A desktop program pastes what another one has copied, and that one computes in its main loop."""
    (server, display), flag = screen(stage), stage.folder / "compute"
    owner = desktop(stage, display, "pasting.py", "copies", flag)
    time.sleep(1)
    program = desktop(stage, display, "pasting.py", "pastes")
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(owner.pid, owner.pid)], [Who(server.pid)], Who(program.pid, program.pid))


@hang("GTK", [rf"fetch_block|serve_drive|preview_file|g_file|g_input_stream|fuse_|{SLEEPS}"], needs=["Xvfb"])
def gtk_preview_on_slow_drive(stage):
    """A desktop program shows a file in its main loop, and that is on a file system (FUSE) that fetches it
    from far away."""
    server, folder = drive(stage)
    display, flag = screen(stage)[1], stage.folder / "film"
    program = desktop(stage, display, "chooser.py", folder / "note", folder / "film", flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(server.who.pid)], victim=Who(program.pid, program.pid))


@hang("Qt", [r"load_document|give_file|waitForReadyRead|QLocalSocket"])
def qt_second_instance(stage):
    """Who is started second gives its file to the program that already runs (QLocalSocket), and that one
    loads a document in its main loop."""
    if os.system(f"{PYTHON} -c 'import PyQt5.QtNetwork' 2>/dev/null"):
        raise Missing("python3-pyqt5 is not installed")
    name, flag = stage.folder / "instance", stage.folder / "load"
    first = desktop(stage, "", "instance.py", "first", name, flag)
    second = desktop(stage, "", "instance.py", "second", name)
    with stage.recording():
        second.hang(flag)
    return second.truth([Who(first.pid, first.pid)], victim=Who(second.pid, second.pid))


def window_manager(display, flag):
    """Whoever shows all windows; sometimes it writes down where they are first."""
    import Xlib.display
    import Xlib.X

    connection = Xlib.display.Display(display)
    connection.screen().root.change_attributes(event_mask=Xlib.X.SubstructureRedirectMask)
    connection.sync()

    def save_places():
        if told(flag):
            time.sleep(SECONDS)

    def manage_windows():
        while True:
            event = connection.next_event()
            if event.type == Xlib.X.MapRequest:
                save_places()
                event.window.map()
                connection.flush()

    threading.Thread(target=manage_windows, daemon=True).start()
    return ticking()


def opens_window(display):
    """A program that opens a small window, and waits until it is shown."""
    import Xlib.display
    import Xlib.X

    connection = Xlib.display.Display(display)
    root = connection.screen().root

    def open_window():
        window = root.create_window(0, 0, 50, 50, 0, 0, event_mask=Xlib.X.StructureNotifyMask)
        window.map()
        while connection.next_event().type != Xlib.X.MapNotify:
            pass
        window.destroy()
        while connection.next_event().type != Xlib.X.DestroyNotify:
            pass

    return open_window


@hang("X", [rf"save_places|manage_windows|open_window|{SLEEPS}"], needs=["Xvfb"])
def x_slow_window_manager(stage):
    """A program opens a window, and the window manager takes long until it shows that."""
    (server, display), flag = screen(stage), stage.folder / "save"
    manager = stage.actor("deed", window_manager, display=display, flag=flag)
    program = stage.rhythm(opens_window, display=display)
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=[Who(manager.who.pid)], others=[Who(server.pid)])


def prints_much(path):
    """A program in a terminal that prints much."""
    terminal = os.open(path, os.O_WRONLY)
    lines = b"a line of a build's output that is as long as many others are\r\n" * 400

    def print_lines():
        left = lines
        while left:
            left = left[os.write(terminal, left) :]

    return print_lines


XTERM = r"\bgrab\b|print_lines|n_tty_write|tty_write|xcb_|_X[A-Z]\w+|XtApp|do_xevents"


@hang("xterm", [rf"{XTERM}|{SLEEPS}"], needs=["Xvfb", "xterm"])
def xterm_behind_grab(stage):
    """A program prints into an xterm, which cannot draw that, because another client has grabbed the X
    server."""
    server, display = screen(stage)
    xterm = stage.start("xterm", "-display", display, "-e", "sh", "-c", "tty >tty; exec sleep 100")
    tty = stage.folder / "tty"
    until("xterm", lambda: tty.exists() and tty.read_text())
    program = stage.rhythm(prints_much, path=tty.read_text().strip())
    grabber = stage.deed(x_grab, display=display)
    with stage.recording():
        grabber.go()
        grabber.result()
    shell = children(xterm.pid)
    return program.truth(culprits=[grabber.who], others=[Who(server.pid), Who(xterm.pid), *shell])
