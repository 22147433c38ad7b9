"""Queues of the kernel that are full or empty: messages, a terminal, connections, a ring of requests."""

import ctypes
import os
import pty
import socket
import struct
import threading
import time

from actor import told
from hang import Who, hang
from programs.kernel import SECONDS, printing, ticking
from programs.native import Program, compiled, header
from programs.servers import SLEEPS
from stage import free_port


class Attributes(ctypes.Structure):
    """`struct mq_attr`."""

    _fields_ = [(name, ctypes.c_long) for name in ("flags", "maximum", "size", "now")]
    _fields_ += [("reserved", ctypes.c_long * 4)]


def message_queue(name, how):
    """A queue of POSIX for two messages."""
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = Attributes(0, 2, 64, 0)
    queue = libc.mq_open(name.encode(), how | os.O_CREAT, 0o600, ctypes.byref(wanted))
    if queue < 0:
        raise OSError(ctypes.get_errno(), "mq_open")
    return libc, queue


def orders(name):
    """A program that puts each order into a queue."""
    libc, queue = message_queue(name, os.O_WRONLY)

    def send_order():
        libc.mq_send(queue, b"order", 5, 0)

    return send_order


def kitchen(name, flag):
    """Who takes them out, and stops to think."""
    libc, queue = message_queue(name, os.O_RDONLY)
    message = ctypes.create_string_buffer(64)

    def cook_orders():
        while True:
            libc.mq_receive(queue, message, 64, None)
            if told(flag):
                time.sleep(SECONDS)

    threading.Thread(target=cook_orders, daemon=True).start()
    return ticking()


@hang("POSIX messages", [rf"cook_orders|send_order|mq_(timed)?send|{SLEEPS}"])
def posix_queue_full(stage):
    """Nobody takes messages out of a queue of POSIX, so it is full."""
    name, flag = f"/unhitch-apps-{os.getpid()}", stage.folder / "think"
    reader = stage.actor("deed", kitchen, name=name, flag=flag)
    stage.closing.callback(ctypes.CDLL(None).mq_unlink, name.encode())
    program = stage.rhythm(orders, name=name)
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=[Who(reader.who.pid)])


def user_at_terminal():
    """A terminal emulator, whose user stops the output with Ctrl-S and continues it with Ctrl-Q."""
    ours, theirs = pty.openpty()

    def show_output():
        while True:
            os.read(ours, 4096)

    def press_ctrl_s():
        os.write(ours, b"\x13")
        time.sleep(SECONDS)
        os.write(ours, b"\x11")

    threading.Thread(target=show_output, daemon=True).start()
    return press_ctrl_s, {"path": os.ttyname(theirs), "open": theirs}


@hang("a terminal", [rf"press_ctrl_s|n_tty_write|{SLEEPS}"])
def terminal_flow_control(stage):
    """Somebody has stopped a terminal's output with Ctrl-S."""
    emulator = stage.deed(user_at_terminal)
    program = stage.rhythm(printing, path=emulator.facts["path"])
    with stage.recording():
        emulator.go()
        emulator.result()
    return program.truth(culprits=[Who(emulator.who.pid)])


def shopper(port):
    """A client that connects for each order."""

    def place_order():
        socket.create_connection(("127.0.0.1", port)).close()

    return place_order


def shop(port, flag):
    """A server with a short queue, which does not accept for a while."""
    listener = socket.create_server(("127.0.0.1", port), backlog=1)

    def accept_orders():
        while True:
            if told(flag):
                # The client's kernel tries again after a second.
                time.sleep(0.95)
            listener.accept()[0].close()

    threading.Thread(target=accept_orders, daemon=True).start()
    return ticking()


@hang("TCP", [rf"accept_orders|place_order|inet_\w*connect|{SLEEPS}"])
def tcp_accept_queue(stage):
    """A server does not accept, its queue is full, and the kernel drops who wants to connect."""
    port, flag = free_port(), stage.folder / "think"
    server = stage.actor("deed", shop, port=port, flag=flag)
    client = stage.rhythm(shopper, port=port)
    with stage.recording(after=3):
        flag.touch()
    return client.truth(culprits=[Who(server.who.pid)])


def uploading(port):
    """A client that makes sure that everything has arrived before it goes on."""
    data = bytes(96 << 10)

    def upload_file():
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 512 << 10)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 10))
        connection.sendall(data)
        connection.close()

    return upload_file


def storing(port, flag):
    """Its server, which stops to think before it reads."""
    listener = socket.create_server(("127.0.0.1", port))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 10)

    def store_file():
        while True:
            connection, _ = listener.accept()
            if told(flag):
                time.sleep(SECONDS)
            while connection.recv(65536):
                pass
            connection.close()

    threading.Thread(target=store_file, daemon=True).start()
    return ticking()


@hang("TCP", [rf"store_file|upload_file|tcp_close|sk_stream_wait_close|{SLEEPS}"])
def lingering_close(stage):
    """A client closes its connection, and that waits until the server has read everything."""
    port, flag = free_port(), stage.folder / "think"
    server = stage.actor("deed", storing, port=port, flag=flag)
    client = stage.rhythm(uploading, port=port)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(server.who.pid)])


def sensor(path, flag):
    """Who writes samples into a named pipe, and is late once."""

    def send_samples():
        with open(path, "wb", buffering=0) as pipe:
            while True:
                if told(flag):
                    time.sleep(SECONDS)
                pipe.write(b"21")
                time.sleep(0.01)

    threading.Thread(target=send_samples, daemon=True).start()
    return ticking()


@hang("io_uring", [rf"send_samples|read_sample|io_uring|io_cqring|{SLEEPS}"], needs=["cc"])
def io_uring_read(stage):
    """A program waits with io_uring for data that come late."""
    header("liburing.h", "liburing-dev")
    pipe, flag = stage.folder / "pipe", stage.folder / "think"
    os.mkfifo(pipe)
    source = stage.actor("deed", sensor, path=pipe, flag=flag)
    program = Program(stage, compiled(stage, "samples.c", "-luring"), pipe)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(source.who.pid)])
