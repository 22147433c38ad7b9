"""Corners of the kernel and of libraries in which somebody may have to wait: a child that is no program yet,
the handlers of fork, a future that nobody wants, a folder's lock, a barrier between processes."""

import contextlib
import ctypes
import itertools
import os
import struct
import subprocess
import threading
import time

from actor import told
from hang import Truth, Who, hang
from programs.go_betweens import (
    BATCH_FORGET,
    DESTROY,
    FOLDER_MODE,
    FORGET,
    GETATTR,
    INIT,
    INTERRUPT,
    LOOKUP,
)
from programs.kernel import ticking
from programs.native import Program, between_threads, compiled
from programs.servers import SLEEPS
from stage import HERE, until

SOURCES = HERE / "sources/desk"


def starts_tool(pipe):
    """A program that starts a tool, whose output goes into a named pipe."""
    opens = [(os.POSIX_SPAWN_OPEN, 1, pipe, os.O_WRONLY, 0)]

    def start_tool():
        pid = os.posix_spawn("/bin/true", ["true"], {}, file_actions=opens)
        os.waitpid(pid, 0)
        return pid

    return start_tool


def collector(pipe, flag):
    """Whoever reads what the tools say, one after the other."""

    def store_output():
        if told(flag):
            time.sleep(1.3)

    def collect_output():
        while True:
            with open(pipe, "rb", buffering=0) as output:
                while output.read(4096):
                    pass
            store_output()

    threading.Thread(target=collect_output, daemon=True).start()
    return ticking()


SPAWN = r"store_output|collect_output|start_tool|posix_spawn|spawni|vfork|fifo_open|wait_for_partner"


@hang("posix_spawn", [rf"{SPAWN}|{SLEEPS}"])
def spawn_opens_named_pipe(stage):
    """A child opens a pipe that nobody reads, before it is a program; its parent has to wait so long
    (posix_spawn)."""
    pipe, flag = stage.folder / "output", stage.folder / "store"
    os.mkfifo(pipe)
    reader = stage.actor("deed", collector, pipe=pipe, flag=flag)
    program = stage.rhythm(starts_tool, pipe=pipe)
    with stage.recording(after=2.5):
        flag.touch()
    longest = program.longest()
    times = longest["from"], longest["to"]
    return Truth(program.who, *times, [Who(reader.who.pid)], [Who(longest["result"])])


FORK = r"clean_cache|clean_when_told|lock_cache|start_helper|run_atfork|run_prefork|\bfork\b|fork_internal"


@hang("C", [FORK], lock=True, needs=["cc"])
def c_fork_handler(stage):
    """A thread computes with a mutex, and another one cannot fork: a handler of that needs the mutex, too
    (pthread_atfork)."""
    return between_threads(stage, SOURCES / "helpers.c", "cleaner")


ASYNC = r"write_mail|send_mail|take_order|_Async_state|_State_base|future|Thread::_M_join|thread::join"


@hang("C++", [ASYNC], needs=["c++"])
def cpp_discarded_future(stage):
    """A program has a thread send a mail, and throws the future of std::async away: that waits for the
    thread's end."""
    flag = stage.folder / "now"
    program = Program(stage, compiled(stage, SOURCES / "mails.cpp"), flag)
    with stage.recording():
        program.hang(flag)
    sends = int((stage.folder / "now.tid").read_text())
    return program.truth([Who(program.pid, sends)])


def starts_in_jail(flag):
    """A program that prepares each child before that becomes another program (preexec_fn)."""

    def prepare_child():
        if told(flag):
            time.sleep(1.3)

    def start_child():
        process = subprocess.Popen(["/bin/true"], preexec_fn=prepare_child)
        process.wait()
        return process.pid

    return start_child


PREPARES = rf"prepare_child|start_child|fork_exec|child_exec|_execute_child|{SLEEPS}"


@hang("Python", [PREPARES])
def python_child_before_exec(stage):
    """A child sleeps before it becomes another program, and its parent waits for that (Popen)."""
    flag = stage.folder / "slow"
    program = stage.rhythm(starts_in_jail, flag=flag)
    with stage.recording(after=2.5):
        flag.touch()
    longest = program.longest()
    return Truth(program.who, longest["from"], longest["to"], [Who(longest["result"])])


@hang("MPI", [r"simulate_storm|next_step|MPI_Barrier|opal_progress"], needs=["mpicc", "mpirun"])
def mpi_late_rank(stage):
    """A process of two comes late to a barrier, because it has more to compute; the other one looks again
    and again whether it is there."""
    program, flag = stage.folder / "tides", stage.folder / "now"
    stage.run("mpicc", "-O2", "-g", "-pthread", "-o", program, SOURCES / "tides.c")
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    options += ["--mca", "btl", "self,vader"]
    simulation = Program(stage, "mpirun", "-n", "2", *options, program, flag, cwd=stage.folder)
    with stage.recording():
        simulation.hang(flag)
    victim = Who(simulation.facts["victim"], simulation.facts["victim"])
    return simulation.truth([Who(simulation.facts["late"])], victim=victim)


MKDIR, RMDIR = 9, 11


def archive(folder):
    """A file system that makes folders, in a thread for each request. One of them is made far away."""
    libc, numbers, known = ctypes.CDLL(None, use_errno=True), itertools.count(2), {}
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"archive", folder.encode(), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "fuse")

    def make_remote_folder():
        time.sleep(1.5)

    def attributes(node):
        return struct.pack("=6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, FOLDER_MODE, 2, 0, 0, 0, 4096, 0)

    def entry(node):
        return struct.pack("=4Q2I", node, 0, 0, 0, 0, 0) + attributes(node)

    def answer(operation, node, body):
        if operation == INIT:
            return struct.pack("=4I2HI2x", 7, 31, 0, 0, 12, 10, 65536).ljust(64, b"\0")
        if operation == GETATTR:
            return struct.pack("=Q2I", 0, 0, 0) + attributes(node)
        if operation == LOOKUP:
            name = body.rstrip(b"\0")
            return entry(known[name]) if name in known else 2
        if operation == MKDIR:
            name = body[8:].rstrip(b"\0")
            if name == b"films":
                make_remote_folder()
            known[name] = next(numbers)
            return entry(known[name])
        if operation == RMDIR:
            known.pop(body.rstrip(b"\0"), None)
            return b""
        return 38

    def serve_request(request):
        _, operation, unique, node = struct.unpack_from("=IIQQ", request)
        result = answer(operation, node, request[40:])
        error, body = (-result, b"") if isinstance(result, int) else (0, result)
        # Who asked may have gone.
        with contextlib.suppress(OSError):
            os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)

    def serve_archive():
        while True:
            request = os.read(device, 200_000)
            if struct.unpack_from("=II", request)[1] not in (FORGET, BATCH_FORGET, INTERRUPT, DESTROY):
                threading.Thread(target=serve_request, args=(request,), daemon=True).start()

    threading.Thread(target=serve_archive, daemon=True).start()
    return ticking()


def makes_folder(path):
    """A program that makes a folder for something, and removes it."""

    def make_folder():
        os.mkdir(path)
        os.rmdir(path)

    return make_folder


FOLDER = r"make_remote_folder|serve_request|make_folder|fuse_|filename_create|inode_lock|rwsem_down"


@hang("FUSE", [rf"{FOLDER}|{SLEEPS}"], lock=True)
def folder_of_slow_mkdir(stage):
    """A file system takes long to make a folder for somebody, and the kernel has the lock of the folder
    above so long: nobody else can make anything there."""
    folder = stage.subfolder("archive")
    server = stage.actor("deed", archive, folder=folder)
    stage.closing.callback(subprocess.run, ["umount", "-l", folder])
    until("the archive", lambda: os.path.ismount(folder))
    client = stage.rhythm(makes_folder, path=folder / "letters")
    other = stage.deed(makes_folder, path=folder / "films")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.who.pid)], others=[other.who])
