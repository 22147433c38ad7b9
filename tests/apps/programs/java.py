"""Java: a monitor, a lock of java.util.concurrent, a collection, a safepoint."""

import json
import subprocess
import time

from hang import Truth, hang
from stage import HERE, thread_of

NEEDS = ["java", "javac"]
COMPUTES = r"computeInterest|disturb"


def program(stage, name, *options):
    """Starts a hang of `sources/Hangs.java`, as anybody starts a program."""
    classes = stage.subfolder("classes")
    stage.run("javac", "-d", classes, HERE / "sources/Hangs.java")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = stage.start("java", "-Xmx2g", *options, "-cp", classes, "Hangs", name, **pipes)
    process.stdout.readline()
    return process


def tell(process):
    process.stdin.write("\n")
    process.stdin.flush()


def disturbed(stage, name, *options, culprit="disturber"):
    """Makes the hang `name`: `culprit` is the thread to blame."""
    process = program(stage, name, *options)
    culprits = [thread_of(process.pid, culprit)]
    victim = thread_of(process.pid, "heartbeat")
    with stage.recording():
        tell(process)
        time.sleep(2.5)
    tell(process)
    beat = json.loads(process.stdout.readline())
    return Truth(victim, beat["from"], beat["to"], culprits)


@hang("Java", [COMPUTES, r"ObjectMonitor|deposit|monitorenter"], lock=True, needs=NEEDS)
def java_monitor(stage):
    """A thread computes inside `synchronized`."""
    return disturbed(stage, "monitor")


@hang("Java", [COMPUTES, r"ReentrantLock|AbstractQueued|deposit"], lock=True, needs=NEEDS)
def java_reentrant_lock(stage):
    """A thread computes with a ReentrantLock."""
    return disturbed(stage, "reentrant")


@hang("Java", [r"MarkSweep|GenCollect|Compact|mark_and_push|follow_|oop_iterate|adjust_pointer|Generation"], needs=NEEDS)
def java_collection(stage):
    """A full collection stops the world."""
    return disturbed(stage, "collection", "-XX:+UseSerialGC", culprit="VM Thread")


@hang("Java", [r"sumWithoutSafepoint|disturb|Safepoint"], needs=NEEDS)
def java_safepoint(stage):
    """All wait until a counted loop reaches a safepoint."""
    return disturbed(stage, "safepoint", "-XX:+UseSerialGC", "-XX:-UseCountedLoopSafepoints")


@hang("Java", [COMPUTES, r"enqueue|submit|FutureTask"], needs=NEEDS)
def java_pool(stage):
    """The only thread of an executor computes, and a task waits in its queue."""
    return disturbed(stage, "pool", culprit="pool-1-thread-1")


@hang("Java", [r"disturb|Thread\.sleep|deposit|ReadWrite|AbstractQueued"], lock=True, needs=NEEDS)
def java_read_lock(stage):
    """A reader sleeps with a ReentrantReadWriteLock, and a writer waits."""
    return disturbed(stage, "readers")
