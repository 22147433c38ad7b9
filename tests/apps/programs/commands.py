"""Commands, jobs of make, pipelines and folders that are watched."""

import contextlib
import ctypes
import os
import pathlib
import signal
import struct
import subprocess
import threading

from actor import told
from hang import Who, hang
from programs.kernel import ticking
from programs.python import COMPUTES, validate_input
from programs.shell import LZMA, life, numbers
from stage import children, until


DAEMON = """
trap 'echo done >answers' USR1
echo ready >ready
while :; do
    if [ -e rotate ]; then rm rotate; xz -T1 -3 -k -f numbers; fi
    sleep 0.005
done
"""


def asks_daemon(pid, answers):
    """A script that tells a daemon something by a signal, and waits for its answer."""

    def tell_daemon():
        os.kill(pid, signal.SIGUSR1)
        with open(answers, "rb") as pipe:
            pipe.read()

    return tell_daemon


@hang("bash", [*LZMA, r"waitchld|waitpid|wait4|wait_for"], needs=["bash", "xz"])
def bash_trap(stage):
    """A daemon in bash compresses its log, and hears no signal until that is done."""
    numbers(stage, 400_000)
    answers = stage.folder / "answers"
    os.mkfifo(answers)
    (stage.folder / "daemon.sh").write_text(DAEMON)
    daemon = stage.start("bash", stage.folder / "daemon.sh")
    until("the daemon", (stage.folder / "ready").exists)
    client = stage.rhythm(asks_daemon, pid=daemon.pid, answers=answers)

    def compressing():
        names = ((who, pathlib.Path(f"/proc/{who.pid}/comm")) for who in children(daemon.pid))
        with contextlib.suppress(OSError):
            return [who for who, name in names if name.read_text().strip() == "xz"]
        return []

    with stage.recording(after=2.5):
        (stage.folder / "rotate").touch()
        xz = until("xz", compressing)
    return client.truth(culprits=xz, others=[Who(daemon.pid)])


def token_user(path, slow):
    """A tool that takes a token of make's jobserver for what it does, and gives it back."""
    pipe = os.open(path, os.O_RDWR)

    def compile_module():
        token = os.read(pipe, 1)
        os.write(pipe, token)

    def link_program():
        token = os.read(pipe, 1)
        validate_input()
        os.write(pipe, token)

    return link_program if slow else compile_module


@hang("make's jobserver", [COMPUTES, r"link_program|compile_module|pipe_read"])
def jobserver_token(stage):
    """Who links a program has the last token of the jobserver, which is a pipe."""
    path = stage.folder / "jobserver"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR)
    stage.closing.callback(os.close, pipe)
    os.write(pipe, b"+")
    program = stage.rhythm(token_user, path=path, slow=False)
    other = stage.deed(token_user, path=path, slow=True)
    with stage.recording():
        other.go()
        other.result()
    return program.truth(culprits=[other.who])


@hang("a pipeline", [], needs=["sort", "uniq"])
def sort_in_pipeline(stage):
    """uniq waits for sort, which can say nothing until it has everything."""
    file = numbers(stage, 1_500_000)
    read, write = os.pipe()
    with stage.recording():
        sort = stage.start("sort", "--parallel=1", file, stdout=write)
        uniq = stage.start("uniq", "-c", stdin=read, stdout=subprocess.DEVNULL)
        os.close(write)
        os.close(read)
        truth = life(uniq, culprits=[Who(sort.pid)])
        sort.wait()
    return truth


# From <sys/inotify.h>.
IN_MOVED_TO = 0x80


def watched(folder):
    """A folder that is watched; how to wait for the next name in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(0)
    if libc.inotify_add_watch(watch, folder.encode(), IN_MOVED_TO) < 0:
        raise OSError(ctypes.get_errno(), "inotify")

    def names():
        while True:
            events, at = os.read(watch, 4096), 0
            while at < len(events):
                length = struct.unpack_from("=iIII", events, at)[3]
                yield events[at + 16 : at + 16 + length].rstrip(b"\0").decode()
                at += 16 + length

    return names()


def put_into(folder, name):
    """Makes a file there, all at once."""
    draft = f"{folder}.{name}"
    pathlib.Path(draft).touch()
    os.rename(draft, f"{folder}/{name}")


def spooler(jobs, done, flag):
    """A daemon that works off what is put into a folder."""
    names = watched(jobs)

    def print_job(name):
        if told(flag):
            validate_input()
        os.unlink(f"{jobs}/{name}")
        put_into(done, name)

    def work_off_jobs():
        for name in names:
            print_job(name)

    threading.Thread(target=work_off_jobs, daemon=True).start()
    return ticking()


def prints(jobs, done):
    """A program that puts a job into the folder, and waits until it is in the other one."""
    names = watched(done)

    def print_letter():
        put_into(jobs, "letter")
        os.unlink(f"{done}/{next(names)}")

    return print_letter


@hang("inotify", [COMPUTES, r"print_job|print_letter|inotify_read"])
def inotify_spool(stage):
    """A daemon takes long for a job, and a program that watches a folder waits for its end."""
    jobs, done, flag = stage.subfolder("jobs"), stage.subfolder("done"), stage.folder / "slow"
    daemon = stage.actor("deed", spooler, jobs=jobs, done=done, flag=flag)
    program = stage.rhythm(prints, jobs=jobs, done=done)
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(daemon.who.pid)])
