"""Where a hang is made: its folder, its processes, and the recording of it."""

import contextlib
import json
import os
import pathlib
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from hang import DidNotHang, Missing, Truth, Who

HERE = pathlib.Path(__file__).parent
BEFORE = 3.0
AFTER = 1.0
PATIENCE = 30.0
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def until(what, condition, seconds=PATIENCE):
    """Waits until `condition` returns something true, and returns that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise DidNotHang(f"{what}: not within {seconds:.0f} s")


def connects(address):
    """Whether somebody listens at a port of this machine, or at a Unix socket's path."""
    kind = socket.AF_INET if isinstance(address, int) else socket.AF_UNIX
    with socket.socket(kind) as probe:
        where = ("127.0.0.1", address) if isinstance(address, int) else str(address)
        return probe.connect_ex(where) == 0


def waited_for_cpus_us():
    """For how long some thread of the machine has been ready without a CPU; 0 if that is unknown."""
    try:
        some = pathlib.Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return 0
    return int(some.rpartition("total=")[2])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def thread_of(pid, name):
    """The only thread of this name."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return Who(pid, int(task.name), name)
    raise DidNotHang(f"process {pid} has no thread {name}")


def threads(pid):
    """All threads of a process but its first."""
    tids = [int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return [Who(pid, tid) for tid in tids if tid != pid]


def children(pid):
    """The processes that a process has started, with theirs."""
    direct = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Who(int(child)) for child in direct] + [
        who for child in direct for who in children(int(child))
    ]


def stop_for_a_while(pid, seconds=1.2):
    """Stops a process with a signal, as somebody does by mistake; returns who did it."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)
    return Who(os.getpid(), threading.get_native_id(), "test-apps")


class Actor:
    """A process that runs `actor.py`."""

    def __init__(self, stage, process, name):
        self.stage = stage
        self.process = process
        self.name = name
        self.facts = self.read()
        self.who = Who(self.facts["pid"], self.facts["tid"], name)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            program = pathlib.Path(self.process.args[0]).name
            said = (self.stage.folder / f"{program}.log").read_text()
            raise DidNotHang(f"{self.name} ended: {said.strip().splitlines()[-1:]}")
        return json.loads(line)

    def go(self):
        """Starts the deed."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def truth(self, **facts):
        """Ends a rhythm: this process is the victim of its longest operation."""
        longest = self.longest()
        return Truth(self.who, longest["from"], longest["to"], **facts)

    def result(self):
        """Waits for the end of the deed."""
        return self.read()

    def slow(self):
        """Ends a rhythm; its slow operations in the recording, the longest first."""
        self.process.send_signal(signal.SIGTERM)
        began = self.stage.recording_from_ns
        slow = [operation for operation in self.read()["slow"] if operation["from"] >= began]
        if not slow:
            raise DidNotHang("nothing took 100 ms")
        return sorted(slow, key=lambda operation: operation["from"] - operation["to"])

    def longest(self):
        """Ends a rhythm; its longest operation in the recording, with its times and its result."""
        return self.slow()[0]

    def repeated(self, at_least, **facts):
        """Ends a rhythm that was late so many times: the longest is the hang."""
        slow = [each for each in self.slow() if each["to"] <= self.stage.recording_to_ns]
        if len(slow) < at_least:
            raise DidNotHang(f"it was late {len(slow)} times")
        longest, *again = ([each["from"], each["to"]] for each in slow)
        return Truth(self.who, *longest, again=again, **facts)


class Errand(Actor):
    """A process that does something once; it need not be `actor.py`, if it speaks as that does."""

    def go(self):
        super().go()
        self.began = self.read()["from"]

    def truth(self, **facts):
        """Waits for the end of the errand: this process is its victim."""
        return Truth(self.who, self.began, self.result()["to"], **facts)

    def unfinished(self, **facts):
        """Of an errand that has not ended: it hangs until the end of the recording."""
        if select.select([self.process.stdout], [], [], 0)[0]:
            raise DidNotHang("it has ended")
        return Truth(self.who, self.began, self.stage.recording_to_ns, **facts)


class Stage:
    """One attempt at one hang. Whatever it starts, it ends."""

    def __init__(self, unhitch, trace, tools, before=BEFORE, attempt=1):
        # Work is as many times larger: on a fast machine it was over too soon.
        self.attempt = attempt
        self.before = before
        self.unhitch = unhitch
        self.trace = trace
        self.tools = tools
        self.recording_from_ns = self.recording_to_ns = 0
        # The share of the recording in which some thread was ready without a CPU.
        self.busy = 0.0
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hang-"))
        self.folder.chmod(0o755)
        self.closing = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def subfolder(self, name, user=None):
        """A folder that belongs to `user`."""
        folder = self.folder / name
        folder.mkdir(mode=0o755)
        if user:
            shutil.chown(folder, user, pwd.getpwnam(user).pw_gid)
        return folder

    def group(self, folder):
        """A control group. It is removed at the end, as soon as the kernel has let it go."""

        def removed():
            with contextlib.suppress(OSError):
                folder.rmdir()
                return True

        try:
            folder.mkdir()
        except OSError as error:
            raise Missing(f"control groups: {error}") from error
        self.closing.callback(until, f"the end of {folder}", removed)
        return folder

    def start(self, *argv, user=None, **options):
        """Starts a program. What it prints goes into a file of the stage, unless told otherwise."""
        log = open(self.folder / f"{pathlib.Path(str(argv[0])).name}.log", "ab")
        options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} | options
        if user:
            entry = pwd.getpwnam(user)
            options |= {"user": user, "group": entry.pw_gid, "extra_groups": []}
        options.setdefault("cwd", self.folder)
        try:
            process = subprocess.Popen([str(a) for a in argv], start_new_session=True, **options)
        except FileNotFoundError as error:
            raise Missing(str(error)) from error
        self.closing.callback(self.end, process)
        return process

    @staticmethod
    def end(process):
        """Ends what was started, with all its children."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe and pipe.close()

    def run(self, *argv, **options):
        """Runs a program to its end; returns what it printed."""
        process = self.start(*argv, **options | {"stdout": subprocess.PIPE})
        printed, _ = process.communicate()
        if process.returncode:
            raise DidNotHang(f"{argv[0]} failed: {process.returncode}")
        return printed.decode()

    def actor(self, mode, function, **arguments):
        argv = [sys.executable, HERE / "actor.py", mode, function.__module__, function.__name__]
        process = self.start(*argv, json.dumps(arguments, default=str), **PIPES)
        kind = Errand if mode == "errand" else Actor
        return kind(self, process, function.__name__)

    def rhythm(self, function, **arguments):
        """A process that repeats an operation, and measures it."""
        return self.actor("rhythm", function, **arguments)

    def deed(self, function, **arguments):
        """A process that does something when told so."""
        return self.actor("deed", function, **arguments)

    def errand(self, function, **arguments):
        """A process that works in no rhythm, and does something once when told so."""
        return self.actor("errand", function, **arguments)

    def errand_of(self, *argv, **options):
        """The same of a program of its own, whatever its language."""
        return Errand(self, self.start(*argv, **PIPES, **options), pathlib.Path(argv[0]).name)

    @contextlib.contextmanager
    def recording(self, after=AFTER):
        """Records what happens inside, and the normal rhythm before and after."""
        self.trace.unlink(missing_ok=True)
        recorder = self.start(self.unhitch, "record", "-o", self.trace)
        until("the recording", lambda: self.trace.exists() or recorder.poll() is not None)
        if recorder.poll() is not None:
            raise Missing("unhitch record: " + (self.folder / "unhitch.log").read_text().strip())
        self.recording_from_ns = time.monotonic_ns()
        waited = waited_for_cpus_us()
        time.sleep(self.before)
        yield
        time.sleep(after)
        self.recording_to_ns = time.monotonic_ns()
        waited_ns = (waited_for_cpus_us() - waited) * 1000
        self.busy = waited_ns / (self.recording_to_ns - self.recording_from_ns)
        recorder.send_signal(signal.SIGINT)
        if recorder.wait():
            raise DidNotHang("unhitch record failed: " + (self.folder / "unhitch.log").read_text())
