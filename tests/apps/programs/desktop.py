"""A message bus and a window system."""

import json
import os
import subprocess
import time

from actor import told
from hang import Truth, Who, hang
from stage import HERE, connects, stop_for_a_while, until

NAME = "org.example.Spelling"


def bus_service(address, flag):
    """A service on the bus that answers, except when it is told to think first."""
    from jeepney import MessageType, message_bus, new_method_return
    from jeepney.io.blocking import open_dbus_connection

    connection = open_dbus_connection(address)
    connection.send_and_get_reply(message_bus.RequestName(NAME))

    def serve():
        while True:
            message = connection.receive()
            if message.header.message_type == MessageType.method_call:
                if told(flag):
                    time.sleep(1.2)
                connection.send(new_method_return(message))

    return serve


def bus_client(address):
    """A desktop program that asks the service."""
    from jeepney import DBusAddress, new_method_call
    from jeepney.io.blocking import open_dbus_connection

    connection = open_dbus_connection(address)
    service = DBusAddress("/spelling", bus_name=NAME, interface=NAME)
    return lambda: connection.send_and_get_reply(new_method_call(service, "Check")) and None


def bus(stage):
    """A message bus; its process and its address."""
    path = stage.folder / "bus"
    address = f"unix:path={path}"
    daemon = stage.start("dbus-daemon", "--session", "--nofork", f"--address={address}")
    until("the bus", lambda: path.exists() and connects(path))
    return daemon, address


@hang("D-Bus", [r"\bserve\b|time_sleep|pysleep"], needs=["dbus-daemon"])
def dbus_slow_service(stage):
    """A service on the bus does not answer."""
    daemon, address = bus(stage)
    service = stage.deed(bus_service, address=address, flag=stage.folder / "think")
    service.go()
    client = stage.rhythm(bus_client, address=address)
    with stage.recording(after=2.5):
        (stage.folder / "think").touch()
    return client.truth(culprits=[service.who], others=[Who(daemon.pid)])


@hang("GTK", [r"call_sync|check_spelling|\bserve\b|time_sleep|pysleep"], needs=["dbus-daemon", "Xvfb"])
def gtk_waits_for_service(stage):
    """A desktop program asks a service in its main loop, and draws nothing meanwhile."""
    address = bus(stage)[1]
    service = stage.deed(bus_service, address=address, flag=stage.folder / "think")
    service.go()
    editor = stage.start(
        *("/usr/bin/python3", HERE / "sources/editor.py", address, NAME),
        env=os.environ | {"DISPLAY": screen(stage)[1], "NO_AT_BRIDGE": "1"},
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True},
    )
    until("its window", lambda: editor.stdout.readline())
    with stage.recording():
        (stage.folder / "think").touch()
        print(file=editor.stdin, flush=True)
        time.sleep(2)
    print(file=editor.stdin, flush=True)
    began, ended = json.loads(until("its end", editor.stdout.readline))
    return Truth(Who(editor.pid, editor.pid), began, ended, culprits=[service.who])


def screen(stage):
    """A window system without a screen; its process and its display."""
    read = subprocess.PIPE
    options = ["-displayfd", "1", "-nolisten", "tcp", "-noreset"]
    server = stage.start("Xvfb", *options, stdout=read, text=True)
    return server, ":" + until("Xvfb", server.stdout.readline).strip()


def x_client(display):
    """A program that asks the window system something, as each does when it draws."""
    import Xlib.display

    connection = Xlib.display.Display(display)
    return lambda: connection.get_input_focus() and None


def x_grab(display):
    """A program that grabs the server for itself, as window managers do."""
    import Xlib.display

    connection = Xlib.display.Display(display)

    def grab():
        connection.grab_server()
        connection.sync()
        time.sleep(1.2)
        connection.ungrab_server()
        connection.sync()

    return grab


@hang("X", [r"\bgrab\b|time_sleep|pysleep"], needs=["Xvfb"])
def x_server_grabbed(stage):
    """A client has grabbed the X server, so no other client gets an answer."""
    server, display = screen(stage)
    client = stage.rhythm(x_client, display=display)
    grabber = stage.deed(x_grab, display=display)
    with stage.recording():
        grabber.go()
        grabber.result()
    return client.truth(culprits=[grabber.who], others=[Who(server.pid)])


def paste(display):
    """A script that asks for the clipboard."""
    argv = ["xclip", "-display", display, "-selection", "clipboard", "-o"]

    def run():
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        process.wait()
        return process.pid

    return run


@hang("X", [], needs=["Xvfb", "xclip"])
def x_clipboard(stage):
    """The owner of the clipboard has been stopped."""
    server, display = screen(stage)
    argv = ["xclip", "-display", display, "-selection", "clipboard", "-quiet"]
    owner = stage.start(*argv, stdin=subprocess.PIPE)
    owner.stdin.write(b"text")
    owner.stdin.close()
    time.sleep(0.5)
    script = stage.rhythm(paste, display=display)
    with stage.recording():
        somebody = stop_for_a_while(owner.pid)
    longest = script.longest()
    command = Who(longest["result"], longest["result"], "xclip")
    culprits = [Who(owner.pid), somebody]
    others = [script.who, Who(server.pid)]
    return Truth(command, longest["from"], longest["to"], culprits, others)
