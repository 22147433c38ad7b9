"""Places where the kernel waits that no other module has: a sync of all disks, a rename, an exit,
the end of a container, a scheduling class, a key, and the end of somebody else's process."""

import ctypes
import fcntl
import itertools
import multiprocessing
import os
import pathlib
import struct
import subprocess
import threading
import time

from actor import name_process, told
from hang import Missing, Who, hang
from programs.backends import ON_DISK, slowed_down
from programs.corners import (
    BATCH_FORGET,
    DESTROY,
    FOLDER_MODE,
    FORGET,
    GETATTR,
    INIT,
    INTERRUPT,
    LOOKUP,
)
from programs.kernel import SECONDS, ticking
from programs.once import runs, started
from programs.servers import SLEEPS, until_asleep, write_script
from programs.storage import MEBIBYTE, disk
from stage import until


def copies_photos(path):
    """A program that copies to a disk, which is over when all of it is in memory."""

    def copy_photos():
        with open(path, "wb", buffering=0) as file:
            file.write(os.urandom(5 * MEBIBYTE))

    return copy_photos


SYNC = (
    r"\bsync\b|sync_(filesystems?|inodes|fs)|iterate_supers|ksys_sync|writeback|copy_photos"
    rf"|{ON_DISK}"
)


@hang("sync", [SYNC], needs=["mkfs.ext4", "sync"])
def sync_of_all_disks(stage):
    """A script has everything written that it has changed (sync), and waits for what somebody else
    has copied to another disk, which is slow. Both are to blame."""
    folder = disk(stage)
    client = stage.errand(runs, argv=["sync"])
    other = stage.deed(copies_photos, path=folder / "photos")
    slowed_down(stage, folder)
    with stage.recording():
        other.go()
        other.result()
        client.go()
        waits, _ = started(client.who.pid, "sync")
        return client.truth(culprits=[other.who], disk=True, others=waits)


RENAME, OPEN, RELEASE, FLUSH = 12, 14, 18, 25
FILE_MODE = 0o100644


def drive(folder, slow, seconds=SECONDS):
    """A file system far away, with folders and files that are always empty. It takes long to do one
    thing (an operation and a name), in a thread for each request."""
    libc, numbers_of_nodes = ctypes.CDLL(None, use_errno=True), itertools.count(2)
    # A node of each name in each folder; the root is the first one.
    nodes, folders = {}, {1}
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"drive", folder.encode(), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "fuse")

    def add(parent, name, is_folder=False):
        nodes[parent, name] = node = next(numbers_of_nodes)
        if is_folder:
            folders.add(node)
        return node

    for name in (b"inbox", b"letters", b"films", b"archive"):
        add(add(1, name, is_folder=True), b"one")

    def ask_far_away():
        time.sleep(seconds)

    def attributes(node):
        mode, links = (FOLDER_MODE, 2) if node in folders else (FILE_MODE, 1)
        return struct.pack("=6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0, 4096, 0)

    def name_of(node):
        return next((name for (_, name), number in nodes.items() if number == node), b"")

    def answer(operation, node, body):
        if [operation, name_of(node).decode()] == slow:
            ask_far_away()
        if operation == INIT:
            return struct.pack("=4I2HI2x", 7, 31, 0, 0, 12, 10, 65536).ljust(64, b"\0")
        if operation == GETATTR:
            return struct.pack("=Q2I", 0, 0, 0) + attributes(node)
        if operation == LOOKUP:
            found = nodes.get((node, body.rstrip(b"\0")))
            return struct.pack("=4Q2I", found, 0, 0, 0, 0, 0) + attributes(found) if found else 2
        if operation == RENAME:
            old, new, _ = body[8:].split(b"\0")
            nodes[struct.unpack_from("=Q", body)[0], new] = nodes.pop((node, old))
            return b""
        if operation == OPEN:
            return struct.pack("=Q2I", 0, 0, 0)
        return b"" if operation in (FLUSH, RELEASE) else 38

    def serve_request(request):
        _, operation, unique, node = struct.unpack_from("=IIQQ", request)
        result = answer(operation, node, request[40:])
        error, body = (-result, b"") if isinstance(result, int) else (0, result)
        try:
            os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)
        except OSError:
            """Who asked may have gone."""

    def serve_drive():
        while True:
            request = os.read(device, 200_000)
            silent = FORGET, BATCH_FORGET, INTERRUPT, DESTROY
            if struct.unpack_from("=II", request)[1] not in silent:
                threading.Thread(target=serve_request, args=(request,), daemon=True).start()

    threading.Thread(target=serve_drive, daemon=True).start()
    return ticking()


def slow_drive(stage, operation, name):
    """Such a file system; its process and its folder."""
    folder = stage.subfolder("drive")
    server = stage.actor("deed", drive, folder=folder, slow=[operation, name])
    stage.closing.callback(subprocess.run, ["umount", "-l", folder])
    until("the drive", lambda: os.path.ismount(folder))
    return server, folder


def moves(path, there):
    """A program that moves something into another folder, and back."""

    def move_letter():
        os.rename(path, there)
        os.rename(there, path)

    return move_letter


FAR = rf"ask_far_away|serve_(request|drive)|fuse_|{SLEEPS}"


@hang("a rename", [rf"move_letter|lock_(two_directories|rename)|do_renameat|{FAR}"], lock=True)
def rename_between_folders(stage):
    """A file system takes long to move a film from one folder to another. So long, nothing can be
    moved between any two folders of it, as the kernel has one lock for that."""
    server, folder = slow_drive(stage, RENAME, "films")
    client = stage.rhythm(moves, path=folder / "inbox/one", there=folder / "letters/two")
    other = stage.deed(moves, path=folder / "archive/one", there=folder / "films/two")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.who.pid)], others=[other.who])


def runs_with_input(path):
    """A script that runs a command once, which has a file open that it does not look at."""

    def open_letter():
        os.close(0)
        os.set_inheritable(os.open(path, os.O_RDONLY), True)

    def run_command():
        subprocess.Popen(["true"], preexec_fn=open_letter, stdout=subprocess.DEVNULL).wait()

    return run_command


@hang("an exit", [rf"do_exit|exit_files|filp_close|wait4|waitpid|run_command|{FAR}"])
def exit_closes_remote_file(stage):
    """A command has ended, but the kernel closes its files, one of which a file system far away has
    to write back first (flush); a script waits for its end."""
    server, folder = slow_drive(stage, FLUSH, "one")
    client = stage.errand(runs_with_input, path=folder / "letters/one")
    with stage.recording():
        client.go()
        waits, rest = started(client.who.pid, "true")
        return client.truth(culprits=[Who(server.who.pid)], others=[*waits, *rest])


ENDS = rf"zap_pid_ns|do_exit|do_group_exit|wait4|waitpid|run_command|request_wait_answer|{FAR}"


@hang("a container", [ENDS], needs=["unshare"])
def container_does_not_end(stage):
    """The first process of a container has ended. The kernel kills the other ones, and waits for
    one that asks a slow file system, and cannot be killed so long."""
    server, folder = slow_drive(stage, OPEN, "one")
    script = f"cat {folder}/films/one & sleep 0.06"
    client = stage.errand(runs, argv=["unshare", "--pid", "--fork", "sh", "-c", script])
    with stage.recording():
        client.go()
        waits, rest = started(client.who.pid, "cat")
        return client.truth(culprits=[Who(server.who.pid)], others=[*waits, *rest])


def one_cpu(path, flag):
    """Two programs that have to share a CPU, and a group of the scheduler: a job that is to disturb
    nobody (SCHED_IDLE), which locks what it counts, and another one, which computes as soon as that
    has begun."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    context = multiprocessing.get_context("fork")
    begun = context.Event()

    def count_entries():
        with open(path, "ab") as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            begun.set()
            end = time.thread_time() + 0.1
            while time.thread_time() < end:
                sum(range(1000))

    def nightly_job():
        name_process("nightly-job")
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while not told(flag):
            time.sleep(0.02)
        count_entries()

    def encode_film():
        name_process("film")
        begun.wait()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            sum(range(1000))

    both = [context.Process(target=each, daemon=True) for each in (nightly_job, encode_film)]
    for process in both:
        process.start()
    return ticking(), {"job": both[0].pid, "film": both[1].pid}


def writes_entries(path):
    """A program that adds entries to what both lock."""
    journal = open(path, "ab")

    def write_entry():
        fcntl.flock(journal, fcntl.LOCK_EX)
        fcntl.flock(journal, fcntl.LOCK_UN)

    return write_entry


@hang("SCHED_IDLE", [r"count_entries|encode_film|write_entry|builtin_sum|flock"], lock=True)
def idle_job_with_lock(stage):
    """A nightly job has a file locked, and gets no CPU, because another program computes on that.
    Both are to blame."""
    path, flag = stage.folder / "journal", stage.folder / "night"
    client = stage.rhythm(writes_entries, path=path)
    both = stage.actor("deed", one_cpu, path=path, flag=flag)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(both.facts["job"]), Who(both.facts["film"])])


ASKS_FOR_KEY = """#!/bin/sh
sleep 1.2
keyctl instantiate $1 secret $2
"""


@hang(
    "the keyring",
    [r"nanosleep|request_key|construct_key|call_usermodehelper|wait_for_key"],
    needs=["keyctl"],
)
def key_of_slow_helper(stage):
    """A program needs a key that the kernel does not have, so that it starts a helper (request-
    key), which asks somebody first."""
    rules = pathlib.Path("/etc/request-key.d")
    if not rules.is_dir():
        raise Missing("the kernel's helper for keys is not installed")
    kind = f"unhitch-{os.getpid()}"
    rule = rules / f"{kind}.conf"
    helper = write_script(stage.folder / "ask-for-key", ASKS_FOR_KEY)
    stage.closing.callback(rule.unlink, missing_ok=True)
    rule.write_text(f"create user {kind}:* * {helper} %k %S\n")
    client = stage.errand(runs, argv=["keyctl", "request2", "user", f"{kind}:site", "a", "@s"])
    with stage.recording():
        client.go()
        culprits = until_asleep("ask-for-key")
        waits, _ = started(client.who.pid, "keyctl")
        return client.truth(culprits=culprits, others=waits)


def trains_model():
    """A program that computes until it is ended."""

    def train_model():
        weight = 0
        while True:
            weight = (weight * 31 + 7) % 1000003

    return train_model


@hang("pidwait", [r"train_model|epoll_wait|pidfd_poll"], needs=["pidwait"])
def pidwait_for_other_program(stage):
    """A script is to go on when somebody else's program has ended (pidwait), and that still
    computes."""
    number = stage.folder / "number"
    program = stage.deed(trains_model)
    number.write_text(f"{program.who.pid}\n")
    client = stage.errand(runs, argv=["pidwait", "--pidfile", str(number)])
    with stage.recording(after=1.5):
        program.go()
        client.go()
        waits, _ = started(client.who.pid, "pidwait")
    return client.unfinished(culprits=[program.who], others=waits)
