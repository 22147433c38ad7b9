"""flock(1): a file lock that somebody else has."""

import subprocess

from hang import Truth, Who, hang
from stage import children, until


def locked_step(path):
    """Takes the lock for a moment, as a script does around each of its steps."""

    def step():
        process = subprocess.Popen(["flock", path, "true"])
        process.wait()
        return process.pid

    return step


@hang("flock", [], lock=True, needs=["flock"], quick=True)
def flock_held(stage):
    """A command with the lock takes its time, so the next one waits."""
    path = stage.folder / "lock"
    script = stage.rhythm(locked_step, path=path)
    with stage.recording():
        holder = stage.start("flock", path, "sleep", "1.2")
        command = until("the command", lambda: children(holder.pid))
        holder.wait()
    longest = script.longest()
    waiter = Who(longest["result"], longest["result"], "flock")
    culprits = [Who(holder.pid), *command]
    return Truth(waiter, longest["from"], longest["to"], culprits, others=[script.who])
