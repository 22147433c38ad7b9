"""What the kernel offers every program: locks, stops, sockets, terminals, priorities."""

import ctypes
import fcntl
import multiprocessing
import os
import pathlib
import pty
import socket
import subprocess
import threading
import time

from actor import told
from hang import Truth, Who, hang
from stage import free_port

SECONDS = 1.2


def ticking():
    """A program that does something ten times a second."""
    return lambda: time.sleep(0.08)


def locked_file(path):
    """A program that locks a region of a file for a moment."""
    file = open(path, "wb")

    def write_record():
        fcntl.lockf(file, fcntl.LOCK_EX, 100)
        fcntl.lockf(file, fcntl.LOCK_UN, 100)

    return write_record


def keeper(path):
    """Another one, which keeps it."""
    file = open(path, "wb")

    def keep_record():
        fcntl.lockf(file, fcntl.LOCK_EX, 100)
        time.sleep(SECONDS)
        fcntl.lockf(file, fcntl.LOCK_UN, 100)

    return keep_record


@hang("fcntl", [r"keep_record|write_record"], lock=True, quick=True)
def record_lock(stage):
    """A process keeps a record lock (fcntl) while it sleeps."""
    path = stage.folder / "records"
    path.touch()
    other = stage.deed(keeper, path=path)
    program = stage.rhythm(locked_file, path=path)
    with stage.recording():
        other.go()
        other.result()
    return program.truth(culprits=[other.who])


class Operation(ctypes.Structure):
    """`struct sembuf`."""

    _fields_ = [("number", ctypes.c_ushort), ("add", ctypes.c_short), ("flags", ctypes.c_short)]


def semaphore(key, seconds=0.0):
    """A program that takes a System V semaphore, and keeps it for so long."""
    libc = ctypes.CDLL(None, use_errno=True)
    of_system = libc.semget(key, 1, 0o600)

    def add(value):
        if libc.semop(of_system, ctypes.byref(Operation(0, value, 0)), 1):
            raise OSError(ctypes.get_errno(), "semop")

    def take_semaphore():
        add(-1)
        time.sleep(seconds)
        add(1)

    return take_semaphore


@hang("System V semaphore", [r"take_semaphore|semop"])
def system_v_semaphore(stage):
    """A process keeps a semaphore of System V while it sleeps."""
    libc, key = ctypes.CDLL(None), os.getpid()
    identifier = libc.semget(key, 1, 0o600 | 0o1000)
    stage.closing.callback(libc.semctl, identifier, 0, 0)
    libc.semop(identifier, ctypes.byref(Operation(0, 1, 0)), 1)
    other = stage.deed(semaphore, key=key, seconds=SECONDS)
    program = stage.rhythm(semaphore, key=key)
    with stage.recording():
        other.go()
        other.result()
    return program.truth(culprits=[other.who])


def workers(flag):
    """Two processes of `multiprocessing` that share a lock."""
    lock = multiprocessing.Lock()

    def keep_lock():
        while True:
            if told(flag):
                with lock:
                    time.sleep(SECONDS)
            time.sleep(0.01)

    worker = multiprocessing.Process(target=keep_lock, daemon=True)
    worker.start()

    def take_lock():
        with lock:
            pass

    return take_lock, {"worker": worker.pid}


@hang("Python multiprocessing", [r"keep_lock|take_lock"], lock=True)
def python_process_lock(stage):
    """A worker process keeps the lock that it shares with its parent."""
    flag = stage.folder / "keep"
    program = stage.rhythm(workers, flag=flag)
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=[Who(program.facts["worker"])])


@hang("gdb", [], needs=["gdb"])
def gdb_attached(stage):
    """Somebody attaches a debugger."""
    program = stage.rhythm(ticking)
    with stage.recording():
        command = ["-p", program.who.pid, "-ex", f"shell sleep {SECONDS}"]
        gdb = stage.start("gdb", "-batch", "-nx", *command)
        gdb.wait()
    return program.truth(culprits=[Who(gdb.pid)])


@hang("a control group", [])
def frozen_group(stage):
    """Somebody freezes a control group."""
    root, name = pathlib.Path("/sys/fs/cgroup"), f"unhitch-apps-{os.getpid()}"
    old = (root / "freezer").is_dir()
    folder = root / ("freezer" if old else "") / name
    stage.group(folder)
    program = stage.rhythm(ticking)
    (folder / "cgroup.procs").write_text(str(program.who.pid))
    state = folder / ("freezer.state" if old else "cgroup.freeze")
    with stage.recording():
        state.write_text("FROZEN" if old else "1")
        time.sleep(SECONDS)
        state.write_text("THAWED" if old else "0")
    truth = program.truth(culprits=[Who(os.getpid(), threading.get_native_id())])
    stage.end(program.process)
    return truth


def pinned():
    """A program that has to stay on one CPU."""
    os.sched_setaffinity(0, {0})
    return ticking()


def urgent():
    """A real-time thread on that CPU, which computes."""
    os.sched_setaffinity(0, {0})

    def compute():
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        end = time.thread_time() + 0.8
        while time.thread_time() < end:
            pass
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    return compute


@hang("the scheduler", [])
def real_time_thread(stage):
    """A real-time thread keeps the CPU for itself."""
    other = stage.deed(urgent)
    program = stage.rhythm(pinned)
    with stage.recording():
        other.go()
        other.result()
    return program.truth(culprits=[other.who])


def printing(path):
    """A program that prints to its terminal."""
    terminal = open(path, "wb", buffering=0)
    return lambda: terminal.write(b"x" * 4000 + b"\n") and None


def terminal(flag):
    """A terminal emulator, which stops to think."""
    ours, theirs = pty.openpty()

    def show_output():
        while True:
            os.read(ours, 4096)
            if told(flag):
                time.sleep(SECONDS)

    threading.Thread(target=show_output, daemon=True).start()
    return ticking(), {"path": os.ttyname(theirs), "open": theirs}


@hang("a terminal", [r"show_output"], quick=True)
def terminal_not_read(stage):
    """A terminal emulator does not read what its program prints."""
    flag = stage.folder / "think"
    emulator = stage.actor("deed", terminal, flag=flag)
    program = stage.rhythm(printing, path=emulator.facts["path"])
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(emulator.who.pid)])


def sender(port):
    """A client that sends without being answered."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    chunk = b"x" * 65536
    return lambda: connection.sendall(chunk)


def receiver(port, flag):
    """Its server, which stops to think."""
    listener = socket.create_server(("127.0.0.1", port))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)

    def receive_upload():
        connection, _ = listener.accept()
        while connection.recv(65536):
            if told(flag):
                time.sleep(SECONDS)

    threading.Thread(target=receive_upload, daemon=True).start()
    return ticking()


@hang("TCP", [r"receive_upload"])
def full_connection(stage):
    """A server does not read, so its client cannot send."""
    port, flag = free_port(), stage.folder / "think"
    server = stage.actor("deed", receiver, port=port, flag=flag)
    client = stage.rhythm(sender, port=port)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(server.who.pid)])


def asking(port):
    """A client of a service that speaks UDP."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("127.0.0.1", port))

    def ask():
        sock.send(b"?")
        sock.recv(100)

    return ask


def answering(port, flag):
    """The service, which is slow once."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", port))

    def answer_question():
        while True:
            _, client = sock.recvfrom(100)
            if told(flag):
                time.sleep(SECONDS)
            sock.sendto(b"!", client)

    threading.Thread(target=answer_question, daemon=True).start()
    return ticking()


@hang("UDP", [r"answer_question"])
def slow_datagrams(stage):
    """A service that speaks UDP answers late."""
    port, flag = free_port(), stage.folder / "think"
    server = stage.actor("deed", answering, port=port, flag=flag)
    client = stage.rhythm(asking, port=port)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(server.who.pid)])


@hang("C", [r"search_index"], lock=True, needs=["cc"])
def c_read_write_lock(stage):
    """A reader searches under its lock, and the writer waits."""
    source = pathlib.Path(__file__).parent.parent / "sources/rwlock.c"
    program, flag = stage.folder / "cache", stage.folder / "search"
    stage.run("cc", "-O2", "-g", "-pthread", "-o", program, source)
    process = stage.start(program, flag, stdout=subprocess.PIPE, text=True)
    writer, reader = (int(tid) for tid in process.stdout.readline().split())
    with stage.recording():
        flag.touch()
        began, ended = (int(time) for time in process.stdout.readline().split())
    return Truth(Who(process.pid, writer), began, ended, [Who(process.pid, reader)])
