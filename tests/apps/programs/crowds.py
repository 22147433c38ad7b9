"""Many who wait for one: threads of a pool, backends of a database, requests, commands and recipes.
The victim is who waits longest, and to find the hang of another one is to find that."""

import contextlib
import json
import os
import random
import subprocess
import threading
import time

import programs.postgres as postgres
import web
from actor import SLOW_NS, told
from hang import DidNotHang, Truth, Who, hang
from programs.languages import go_server
from programs.native import LONG_NS, Program
from programs.once import SOURCES, runs, started
from programs.servers import SLEEPS, browse
from programs.shell import LZMA, numbers
from programs.unfinished import LEAVES, keeps_row
from stage import children, connects, free_port, thread_of, until


def crowd(operations, pause):
    """Starts a thread for each operation, which it repeats in no rhythm; returns the list to which
    all add their slow ones, each with its thread and the operation's number."""
    slow = []

    def repeat(number, operation):
        chance = random.Random(number)
        while True:
            time.sleep(chance.uniform(0.3, 1.7) * pause)
            begin = time.monotonic_ns()
            operation()
            end = time.monotonic_ns()
            if end - begin >= SLOW_NS:
                slow.append([begin, end, threading.get_native_id(), number])

    for each in enumerate(operations):
        threading.Thread(target=repeat, args=each, daemon=True).start()
    return slow


def truth_of(stage, pid, slow, **facts):
    """The truth of whoever waited longest: `slow` has times, and threads of the process."""
    began = stage.recording_from_ns
    long = [each for each in slow if each[0] >= began and each[1] - each[0] >= LONG_NS]
    if not long:
        raise DidNotHang("nobody waited for long")
    begin, end, victim, *_ = max(long, key=lambda each: each[1] - each[0])
    others = [Who(pid, tid) for _, _, tid, *_ in long if tid != victim] + facts.pop("others", [])
    return Truth(Who(pid, victim), begin, end, others=others, **facts)


class Crowd(Program):
    """A program many threads of which measure themselves."""

    def read(self):
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                span = json.loads(line)
                self.slow.append((span["from"], span["to"], span["tid"]))


STOCK = r"countShelves|takeStock|takeArticle|ObjectMonitor"


@hang("Java", [STOCK], lock=True, needs=["java", "javac"])
def java_sixty_pickers(stage):
    """Sixty threads wait for a monitor, with which another one computes."""
    classes, flag = stage.subfolder("classes"), stage.folder / "now"
    stage.run("javac", "-d", classes, SOURCES / "Warehouse.java")
    program = Crowd(stage, "java", "-cp", classes, "Warehouse", flag)
    counting = thread_of(program.pid, "stocktaking")
    with stage.recording():
        program.hang(flag)
    return truth_of(stage, program.pid, list(program.slow), culprits=[counting])


def payers(port, count):
    """A server of applications with as many connections to its database."""
    clients = [postgres.pay(port) for _ in range(count)]
    slow = crowd([pay for pay, _ in clients], 0.4)
    return lambda: slow, {"backends": [facts["backend"] for _, facts in clients]}


@hang("PostgreSQL", LEAVES, lock=True, needs=postgres.NEEDS)
def postgres_fifty_backends(stage):
    """Fifty backends wait for one row, which a transaction has locked that is idle."""
    port = postgres.server(stage, "-c", "fsync=off")
    clients = stage.deed(payers, port=port, count=50)
    holder = stage.deed(keeps_row, port=port, seconds=1.6)
    with stage.recording():
        holder.go()
        holder.result()
    clients.go()
    return truth_of(
        *(stage, clients.who.pid, clients.result()["result"]),
        culprits=[holder.who, Who(holder.facts["backend"])],
        others=[Who(backend) for backend in clients.facts["backends"]],
    )


def hundred_threads(flag):
    """A program of a hundred threads that share a cache, and one that cleans it."""
    lock, cache = threading.Lock(), {}

    def use_cache():
        with lock:
            cache["visits"] = cache.get("visits", 0) + 1

    def clean_cache():
        while True:
            if told(flag):
                with lock:
                    time.sleep(0.9)
            time.sleep(0.02)

    cleaner = threading.Thread(target=clean_cache, daemon=True)
    cleaner.start()
    slow = crowd([use_cache] * 100, 0.3)
    return lambda: slow, {"cleaner": cleaner.native_id}


LOCK = r"use_cache|clean_cache|acquire_lock|acquire_timed|lock_acquire"


@hang("Python", [rf"{LOCK}|{SLEEPS}"], lock=True)
def python_hundred_threads(stage):
    """A hundred threads wait for a lock, with which another one sleeps."""
    flag = stage.folder / "clean"
    program = stage.deed(hundred_threads, flag=flag)
    with stage.recording(after=2):
        flag.touch()
    program.go()
    pid = program.who.pid
    culprits = [Who(pid, program.facts["cleaner"])]
    return truth_of(stage, pid, program.result()["result"], culprits=culprits)


def browsers(port, path, count):
    """A program that asks a server for pages over many connections."""
    slow = crowd([web.get(port, path) for _ in range(count)], 0.35)
    return lambda: slow


@hang("Go", [r"settleAccounts|sellTickets|sha256"], needs=["go"])
def go_sixty_four_requests(stage):
    """The goroutines of 64 requests wait for the one that takes from their channel, which
    computes."""
    server, port = go_server(stage, "tickets", folder=SOURCES)
    clients = stage.deed(browsers, port=port, path="/ticket", count=64)
    other = stage.deed(web.get, port=port, path="/settle")
    with stage.recording():
        other.go()
        other.result()
    clients.go()
    slow = clients.result()["result"]
    return truth_of(stage, clients.who.pid, slow, culprits=[Who(server.pid)])


def many(argv, count):
    """A script that starts the same command many times at once, and waits for all."""

    def run_commands():
        # With its object: whoever has none any more may be waited for by Popen itself.
        running, ended = {}, []
        for _ in range(count):
            begin = time.monotonic_ns()
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            running[process.pid] = begin, process
        while running:
            pid, status = os.wait()
            begin, process = running.pop(pid)
            ended.append([begin, time.monotonic_ns(), pid])
            if status:
                raise SystemExit(f"{argv[0]}: {status}")
        return ended

    return run_commands


def truth_of_commands(script, **facts):
    """The truth of the command that took longest."""
    commands = script.result()["result"]
    begin, end, victim = max(commands, key=lambda each: each[1] - each[0])
    others = [Who(pid) for _, _, pid in commands if pid != victim]
    facts["others"] = [script.who, *others, *facts.get("others", [])]
    return Truth(Who(victim, victim), begin, end, **facts)


@hang("Perl", [r"Perl_"], needs=["perl", "curl"])
def curl_forty_times(stage):
    """Forty curls wait for a server in one process, which makes a long page for somebody."""
    port = free_port()
    server = stage.start("perl", SOURCES / "pages.pl", port, "1.4")
    until("Perl", lambda: connects(port))
    command = ["curl", "--silent", "--output", "/dev/null", f"http://127.0.0.1:{port}/page"]
    script = stage.errand(many, argv=command, count=40)
    other = stage.deed(browse, port=port, path="/report")
    with stage.recording():
        other.go()
        time.sleep(0.1)
        script.go()
        truth = truth_of_commands(script, culprits=[Who(server.pid)])
        other.result()
    return truth


@hang("flock", [], lock=True, needs=["flock"])
def flock_thirty_times(stage):
    """Thirty commands wait for a file lock that another one has."""
    path = stage.folder / "lock"
    path.touch()
    script = stage.errand(many, argv=["flock", path, "true"], count=30)
    with stage.recording():
        holder = stage.start("flock", path, "sleep", "1.8")
        sleep, _ = started(holder.pid, "sleep")
        script.go()
        return truth_of_commands(script, culprits=[Who(holder.pid), *sleep])


# The first recipe makes something that takes long, with the lock that all have in turn.
MAKEFILE = """
parts = $(addprefix part,$(shell seq 23))
all: archive $(parts)
archive:
\tflock build.lock xz -T1 -3 -k -f numbers
$(parts):
\tsleep 0.1; flock build.lock touch $@
"""


@hang("make", LZMA, lock=True, needs=["make", "flock", "xz"])
def make_with_24_jobs(stage):
    """The recipes of make -j24 wait for the lock that one of them has, which compresses."""
    numbers(stage, 230_000)
    (stage.folder / "Makefile").write_text(MAKEFILE)
    (stage.folder / "build.lock").touch()
    script = stage.errand(runs, argv=["make", "-j24"], cwd=stage.folder)
    with stage.recording():
        script.go()
        xz, _ = started(script.who.pid, "xz")
        time.sleep(0.4)
        _, others = started(script.who.pid, "xz")
        holds = [who for who in others if who.name == "flock" and children(who.pid)]
        rest = [who for who in others if who not in holds]
        return script.truth(culprits=[*xz, *holds], others=rest)
