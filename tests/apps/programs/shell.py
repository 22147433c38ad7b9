"""Commands: a pipeline, an archive, make, git, and a control group's quota."""

import os
import pathlib
import subprocess
import sys
import time

from actor import told
from hang import Missing, Truth, Who, hang
from stage import children, until

LZMA = [r"\blzma_|\blz_"]


def producer(output):
    """A program that logs into a pipe."""
    pipe = open(output, "wb", buffering=0)
    chunk = b"x" * 32768

    def log():
        pipe.write(chunk)

    return log


def pager(source, flag):
    """The pipeline's last program; it stops to think."""
    with open(source, "rb", buffering=0) as pipe:
        while pipe.read(65536):
            if told(flag):
                time.sleep(1.2)


@hang("a pipeline", [], quick=True)
def pipeline_slow_reader(stage):
    """A pipeline is full, because its last program does not read."""
    log, flag = stage.folder / "log", stage.folder / "think"
    os.mkfifo(log)
    code = f"import programs.shell as s; s.pager('/dev/stdin', {str(flag)!r})"
    folder = pathlib.Path(__file__).parent.parent
    shell = stage.start("sh", "-c", f'cat {log} | {sys.executable} -c "{code}"', cwd=folder)
    program = stage.rhythm(producer, output=log)
    reader = until("the pipeline", lambda: [who for who in children(shell.pid)][1:])
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=reader, others=[Who(shell.pid), children(shell.pid)[0]])


def numbers(stage, lines):
    """A file that a compressor takes its time for."""
    file = stage.folder / "numbers"
    with open(file, "w") as out:
        out.writelines(f"{n * n % 1000003}\n" for n in range(lines * stage.attempt))
    return file


def life(process, **facts):
    """The whole life of a command, as its victim."""
    begin = time.monotonic_ns()
    if process.wait():
        raise Missing(f"{process.args} failed")
    return Truth(Who(process.pid, process.pid), begin, time.monotonic_ns(), **facts)


@hang("tar", LZMA, needs=["tar", "xz"])
def tar_xz(stage):
    """tar writes into xz, which computes."""
    file = numbers(stage, 170_000)
    read, write = os.pipe()
    with stage.recording():
        xz = stage.start("xz", "-T1", "-3", "-c", stdin=read, stdout=subprocess.DEVNULL)
        tar = stage.start("tar", "-c", file, stdout=write)
        os.close(write)
        os.close(read)
        truth = life(tar, culprits=[Who(xz.pid)])
        xz.wait()
    return truth


@hang("make", LZMA, needs=["make", "xz"], quick=True)
def make_slow_recipe(stage):
    """make waits for one slow recipe."""
    numbers(stage, 170_000)
    (stage.folder / "Makefile").write_text("numbers.xz: numbers\n\txz -T1 -3 -k -f numbers\n")
    with stage.recording():
        make = stage.start("make")
        recipe = until("the recipe", lambda: children(make.pid))
        return life(make, culprits=recipe)


@hang("git", LZMA, needs=["git", "xz"])
def git_hook(stage):
    """git commit waits for a hook."""
    numbers(stage, 400_000)
    stage.run("git", "init", "--quiet")
    hook = stage.folder / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nxz -T1 -3 -k -f numbers\n")
    hook.chmod(0o755)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    with stage.recording():
        commit = stage.start("git", *identity, "commit", "--allow-empty", "-m", "a")
        hooks = until("the hook's xz", lambda: children(commit.pid)[1:])
        return life(commit, culprits=hooks)


def quota_group(stage):
    """A control group that may use a tenth of a CPU; its folder, and its path in answers."""
    name = f"unhitch-apps-{os.getpid()}"
    old = pathlib.Path("/sys/fs/cgroup/cpu")
    folder = (old if old.is_dir() else old.parent) / name
    try:
        stage.group(folder)
        if old.is_dir():
            (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / "cpu.cfs_quota_us").write_text("10000")
        else:
            (folder / "cpu.max").write_text("10000 100000")
    except OSError as error:
        raise Missing(f"control groups: {error}") from error
    return folder, f"/{name}"


def computing(flag):
    """A program that computes a little, and once in a while more."""

    def compute():
        end = time.thread_time() + (0.13 if told(flag) else 0.0005)
        while time.thread_time() < end:
            pass

    return compute


@hang("a control group", [], quick=True)
def quota(stage):
    """A control group's quota is used up."""
    folder, path = quota_group(stage)
    flag = stage.folder / "more"
    program = stage.rhythm(computing, flag=flag)
    (folder / "cgroup.procs").write_text(str(program.who.pid))
    with stage.recording(after=3):
        flag.touch()
    truth = program.truth(quota=path)
    stage.end(program.process)
    return truth
