"""Hangs that have not ended when the recording ends: nobody has woken the victim yet, and what it
waits for is still there."""

import os
import signal
import socket
import subprocess
import threading
import time

import programs.postgres as postgres
from hang import Who, hang
from programs.kernel import ticking
from programs.once import SOURCES, runs, started
from programs.servers import SLEEPS, write_script
from stage import HERE, free_port, thread_of, until

# Longer than anything is recorded.
FOR_GOOD = 60


def keeps_row(port, seconds=FOR_GOOD):
    """A client that has gone away from its desk in the midst of a transaction."""
    connection = postgres.connect(port)

    def leave_desk():
        connection.run("begin")
        connection.run("update accounts set amount = 0 where id = 7")
        time.sleep(seconds)
        connection.run("commit")

    return leave_desk, postgres.backend_of(connection)


LEAVES = [*postgres.LOCKS, rf"leave_desk|{SLEEPS}"]


@hang("PostgreSQL", LEAVES, lock=True, needs=[*postgres.NEEDS, "psql"])
def psql_waits_for_row(stage):
    """psql still waits for a row that a transaction has locked."""
    port = postgres.server(stage)
    address = ["-h", "127.0.0.1", "-p", str(port), "-U", postgres.USER]
    delete = ["-c", "delete from accounts where id = 7"]
    script = stage.errand(runs, argv=["psql", "-X", *address, *delete, "postgres"])
    holder = stage.deed(keeps_row, port=port)
    monitor = postgres.connect(port)
    psql = "select pid from pg_stat_activity where application_name = 'psql'"
    with stage.recording(after=1.3):
        holder.go()
        time.sleep(0.3)
        script.go()
        client, _ = started(script.who.pid, "psql")
        backends = until("psql", lambda: monitor.run(psql))
    return script.unfinished(
        culprits=[holder.who, Who(holder.facts["backend"])],
        others=[*client, *(Who(backend) for backend, in backends)],
    )


def bank(port):
    """A service that knows its name, and does not answer anything else."""
    listener = socket.create_server(("127.0.0.1", port))

    def find_balance():
        time.sleep(FOR_GOOD)

    def answer_questions():
        connection, _ = listener.accept()
        for line in connection.makefile("rb"):
            if line == b"balance\n":
                find_balance()
            connection.sendall(line)

    threading.Thread(target=answer_questions, daemon=True).start()
    return ticking()


@hang("Java", [rf"find_balance|askBank|{SLEEPS}"], needs=["java", "javac"])
def java_future_of_silent_bank(stage):
    """A program waits for its thread, which waits for a service that does not answer."""
    classes, port = stage.subfolder("classes"), free_port()
    stage.run("javac", "-d", classes, SOURCES / "Balance.java")
    silent = stage.deed(bank, port=port)
    program = stage.errand_of("java", "-cp", classes, "Balance", port)
    asking = thread_of(program.who.pid, "bank")
    with stage.recording(after=2):
        program.go()
    return program.unfinished(culprits=[Who(silent.who.pid)], others=[asking])


MAKEFILE = """
library:
\tflock build.lock sleep 60
program:
\tflock build.lock cp Makefile program
"""


@hang("make", [], lock=True, needs=["make", "flock"])
def make_waits_for_other_build(stage):
    """make waits for a recipe, which waits for a lock that another build has."""
    (stage.folder / "Makefile").write_text(MAKEFILE)
    (stage.folder / "build.lock").touch()
    script = stage.errand(runs, argv=["make", "program"], cwd=stage.folder)
    with stage.recording(after=0.7):
        other = stage.start("make", "library")
        sleep, holder = started(other.pid, "sleep")
        script.go()
        waits, others = started(script.who.pid, "flock")
    return script.unfinished(culprits=[*sleep, *holder], others=[*waits, *others])


@hang("C", [r"rebuild_index|look_up"], lock=True, needs=["cc"])
def c_mutex_for_good(stage):
    """A thread computes with a mutex, and has not released it yet."""
    program = stage.folder / "index"
    options = ["-O2", "-g", "-pthread", "-I", HERE / "sources/native"]
    stage.run("cc", *options, "-o", program, SOURCES / "index.c")
    index = stage.errand_of(program)
    with stage.recording(after=1.5):
        index.go()
    return index.unfinished(culprits=[Who(index.who.pid, index.facts["indexer"], "indexer")])


CONVERT = """
def convert_film(frame)
  frame = (frame * 31 + 7) % 1000003 while frame >= 0
end
convert_film(1)
"""


@hang("Ruby", [r"convert_film|vm_exec|rb_"], needs=["ruby"])
def python_waits_for_ruby(stage):
    """A script in Python waits for its child in Ruby, which still computes."""
    file = stage.folder / "convert.rb"
    file.write_text(CONVERT)
    script = stage.errand(runs, argv=["ruby", file])
    with stage.recording(after=1.2):
        script.go()
        ruby, _ = started(script.who.pid, "ruby")
    return script.unfinished(culprits=ruby)


@hang("FUSE", [], needs=["bindfs", "fusermount3"])
def cp_from_stopped_drive(stage):
    """cp reads a folder of a file system whose program somebody has stopped, and not continued."""
    real, drive = stage.subfolder("real"), stage.subfolder("drive")
    for n in range(20):
        (real / f"letter{n}").write_text("Dear Sir")
    options = ["-f", "-o", "attr_timeout=0,entry_timeout=0,negative_timeout=0"]
    server = stage.start("bindfs", *options, real, drive)
    stage.closing.callback(subprocess.run, ["umount", "-l", drive])
    until("bindfs", lambda: os.path.ismount(drive))
    script = stage.errand(runs, argv=["cp", "-r", drive, stage.folder / "copy"])
    stage.closing.callback(os.kill, server.pid, signal.SIGCONT)
    with stage.recording(after=2.2):
        os.kill(server.pid, signal.SIGSTOP)
        script.go()
        cp, _ = started(script.who.pid, "cp")
    somebody = Who(os.getpid(), threading.get_native_id(), "test-apps")
    return script.unfinished(culprits=[Who(server.pid), somebody], others=cp)


# Looks into the tracker whether all commits may be pushed.
HOOK = """#!/bin/sh
while read -r old new name; do
    sleep 60
done
"""


@hang("git", [], needs=["git"])
def git_push_hook_for_good(stage):
    """git push waits for a hook at the other side, which does not end."""
    origin, copy = stage.folder / "origin.git", stage.folder / "copy"
    stage.run("git", "init", "--quiet", "--bare", origin)
    (origin / "hooks").mkdir(exist_ok=True)
    write_script(origin / "hooks/pre-receive", HOOK)
    stage.run("git", "init", "--quiet", copy)
    git = ["git", "-C", copy, "-c", "user.name=a", "-c", "user.email=a@example.com"]
    stage.run(*git, "commit", "--quiet", "--allow-empty", "-m", "a")
    push = [*git, "push", "--quiet", origin, "HEAD:refs/heads/main"]
    script = stage.errand(runs, argv=push)
    with stage.recording(after=1):
        script.go()
        hook, others = started(script.who.pid, "sleep")
    culprits = [*hook, *(who for who in others if who.name == "pre-receive")]
    return script.unfinished(culprits=culprits, others=[w for w in others if w not in culprits])


PRIMES = """
for (my ($n, $found) = (3, 0); ; $n += 2) {
    my $d = 3;
    $d += 2 while $d * $d <= $n && $n % $d;
    $found++ if $d * $d > $n;
    last if $found > 1e9;
}
print "done\\n";
"""


@hang("a pipeline", [r"Perl_"], needs=["perl", "sort", "tail"])
def pipeline_without_output(stage):
    """A shell waits for a pipeline whose first program computes, and has said nothing yet."""
    file = stage.folder / "primes.pl"
    file.write_text(PRIMES)
    script = stage.errand(runs, argv=["sh", "-c", f"perl {file} | sort -n | tail -1"])
    with stage.recording(after=1.8):
        script.go()
        started(script.who.pid, "tail")
        perl, others = started(script.who.pid, "perl")
    return script.unfinished(culprits=perl, others=others)
