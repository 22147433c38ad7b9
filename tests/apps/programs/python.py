"""Python: one interpreter lock, one event loop, one worker that is late."""

import asyncio
import http.client
import json
import multiprocessing
import queue
import re
import socket
import sys
import threading
import time

import actor
import web
from hang import Truth, Who, hang
from stage import HERE, children, connects, free_port, until

COMPUTES = r"sre_|SRE|pattern_match|validate_input"

# Takes about a second for each twenty-four letters: it backtracks.
SLOW_PATTERN = r"(a+)+$"
SLOW_TEXT = "a" * 24 + "b"


def validate_input():
    """The function that computes."""
    return re.match(SLOW_PATTERN, SLOW_TEXT)


def slow_beats():
    """Starts a thread that has a rhythm; returns the list to which it adds its slow beats, and its id."""
    slow = []

    def heartbeat():
        while True:
            begin = time.monotonic_ns()
            json.dumps({"beat": begin})
            time.sleep(actor.PERIOD)
            end = time.monotonic_ns()
            if end - begin >= actor.SLOW_NS:
                slow.append([begin, end])

    beat = threading.Thread(target=heartbeat, daemon=True, name="heartbeat")
    beat.start()
    return slow, beat.native_id


def threaded_program():
    """A program of two threads: one has a rhythm, the other computes when told so."""
    slow, beat = slow_beats()

    def compute():
        validate_input()
        time.sleep(0.2)
        return max(slow, key=lambda span: span[1] - span[0], default=[0, 0])

    return compute, {"beat": beat}


@hang("Python", [COMPUTES, r"take_gil|heartbeat"], lock=True, quick=True)
def python_gil(stage):
    """A regular expression keeps the interpreter lock, so another thread cannot beat."""
    program = stage.deed(threaded_program)
    pid = program.who.pid
    with stage.recording():
        program.go()
        began, ended = program.result()["result"]
    victim = Who(pid, program.facts["beat"], "heartbeat")
    return Truth(victim, began, ended, culprits=[Who(pid, program.who.tid)])


def asyncio_server(port, flag):
    """An echo server; one of its coroutines calls something that blocks."""

    async def serve(reader, writer):
        while line := await reader.readline():
            if actor.told(flag):
                write_report()
            writer.write(line)

    def write_report():
        time.sleep(1.2)

    async def run():
        async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
            await server.serve_forever()

    threading.Thread(target=asyncio.run, args=(run(),), daemon=True, name="loop").start()
    return lambda: None


def echo(port):
    """A client that sends a line and waits for it to come back."""
    connection = socket.create_connection(("127.0.0.1", port))
    replies = connection.makefile("rb")

    def call():
        connection.sendall(b"hello\n")
        replies.readline()

    return call


@hang("Python", [r"write_report|\bserve\b|time_sleep|pysleep|time\.sleep"])
def python_asyncio(stage):
    """A coroutine sleeps with time.sleep, so the event loop serves nobody."""
    port = free_port()
    server = stage.deed(asyncio_server, port=port, flag=stage.folder / "report")
    until("the server", lambda: connects(port))
    client = stage.rhythm(echo, port=port)
    with stage.recording(after=2.5):
        (stage.folder / "report").touch()
    return client.truth(culprits=[Who(server.who.pid)])


def resize(picture):
    """What a pool's worker does: one picture is far bigger than the others."""
    actor.name_process("resize")
    if picture == "big":
        validate_input()
    return multiprocessing.current_process().pid


def pool_of_workers(flag):
    """A program that has a pool of two resize four pictures, again and again."""
    pool = multiprocessing.get_context("spawn").Pool(2)

    def batch():
        first = "big" if actor.told(flag) else "small"
        return pool.map(resize, [first, "small", "small", "small"], chunksize=1)[0]

    for _ in range(20):
        batch()
    return batch


@hang("Python", [COMPUTES, r"\bresize\b"])
def python_pool(stage):
    """A pool's worker gets one big picture, and all wait for it."""
    program = stage.rhythm(pool_of_workers, flag=stage.folder / "big")
    with stage.recording(after=3):
        (stage.folder / "big").touch()
    longest = program.longest()
    culprits = [Who(longest["result"])]
    helpers = [Who(program.who.pid)]
    return Truth(program.who, longest["from"], longest["to"], culprits, others=helpers)


def page_server(port):
    """http.server serves one connection after the other."""
    web.serve(port, lambda _: b"page")
    return lambda: None


def visitor(port):
    """A browser that opens a connection for each page."""

    def visit():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/")
        connection.getresponse().read()
        connection.close()

    return visit


def slow_upload(port):
    """A browser on a bad line: its upload stops in the middle."""

    def upload():
        connection = socket.create_connection(("127.0.0.1", port))
        head = b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 20\r\n\r\n"
        connection.sendall(head + b"0123456789")
        time.sleep(1.2)
        connection.sendall(b"0123456789")
        connection.recv(1000)
        connection.close()

    return upload


@hang("Python", [r"do_POST|do_GET|\bupload\b|sock_recv|time_sleep|pysleep"])
def python_http_server(stage):
    """http.server waits for the rest of an upload, and serves nobody else."""
    port = free_port()
    server = stage.deed(page_server, port=port)
    until("the server", lambda: connects(port))
    client = stage.rhythm(visitor, port=port)
    slow = stage.deed(slow_upload, port=port)
    with stage.recording():
        slow.go()
        slow.result()
    return client.truth(culprits=[slow.who], others=[Who(server.who.pid)])


def pool_of_connections(flag):
    """A program with one connection for two threads; the other one keeps it for long."""
    connections = queue.Queue()
    connections.put("connection")

    def export_everything():
        while True:
            taken = connections.get()
            if actor.told(flag):
                time.sleep(1.2)
            connections.put(taken)
            time.sleep(actor.PERIOD)

    other = threading.Thread(target=export_everything, daemon=True, name="exporter")
    other.start()

    def borrow():
        connections.put(connections.get())

    return borrow, {"exporter": other.native_id}


@hang("Python", [r"export_everything|\bborrow\b|time_sleep|pysleep"])
def python_connection_pool(stage):
    """A thread keeps the only connection of a pool."""
    program = stage.rhythm(pool_of_connections, flag=stage.folder / "export")
    with stage.recording(after=2.5):
        (stage.folder / "export").touch()
    exporter = Who(program.who.pid, program.facts["exporter"], "exporter")
    return program.truth(culprits=[exporter])


def lock_in_two_threads(flag):
    """A program whose two threads take one lock; the other one keeps it for long."""
    lock = threading.Lock()

    def write_backup():
        while True:
            with lock:
                if actor.told(flag):
                    time.sleep(1.2)
            time.sleep(actor.PERIOD)

    other = threading.Thread(target=write_backup, daemon=True, name="backup")
    other.start()

    def save():
        with lock:
            pass

    return save, {"backup": other.native_id}


@hang("Python", [r"write_backup|\bsave\b|lock_acquire|time_sleep|pysleep"], lock=True, quick=True)
def python_lock(stage):
    """A thread sleeps with a threading.Lock."""
    program = stage.rhythm(lock_in_two_threads, flag=stage.folder / "keep")
    with stage.recording(after=2.5):
        (stage.folder / "keep").touch()
    backup = Who(program.who.pid, program.facts["backup"], "backup")
    return program.truth(culprits=[backup])


def converts(flag):
    """A program that runs a command for each document; one document is big."""
    import subprocess

    def convert():
        nap = "1.2" if actor.told(flag) else "0.01"
        command = subprocess.Popen(["sh", "-c", f"sleep {nap}; true"])
        command.wait()
        return command.pid

    return convert


@hang("Python", [r"\bconvert\b|nanosleep"])
def python_child(stage):
    """A program waits for a command that sleeps."""
    program = stage.rhythm(converts, flag=stage.folder / "big")
    with stage.recording():
        (stage.folder / "big").touch()
        time.sleep(0.5)
        culprits = children(program.who.pid)
        time.sleep(1.2)
    longest = program.longest()
    return Truth(program.who, longest["from"], longest["to"], culprits)


@hang("gunicorn", [r"\b(report|application)\b|time_sleep|pysleep"])
def gunicorn_one_worker(stage):
    """The only worker of a web server makes a slow page."""
    port = free_port()
    options = ["-b", f"127.0.0.1:{port}", "-w", "1", "--chdir", HERE / "sources"]
    server = stage.start(sys.executable, "-m", "gunicorn", *options, "wsgi:application")
    until("gunicorn", lambda: connects(port))
    client = stage.rhythm(visitor, port=port)
    other = stage.deed(slow_page, port=port)
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=children(server.pid))


def slow_page(port):
    """A browser that asks for a report."""

    def visit():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/report")
        connection.getresponse().read()
        connection.close()

    return visit
