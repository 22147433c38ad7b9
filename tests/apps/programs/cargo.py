"""Cargo: the lock of the build folder."""

from hang import Truth, Who, hang
from stage import children, until
import time


@hang("Cargo", [r"cargo::.*(flock|lock|acquire)|FileLock"], lock=True, needs=["cargo", "flock"])
def cargo_build_lock(stage):
    """Another build (of an editor, say) has the build folder."""
    stage.run("cargo", "init", "--quiet", "--vcs", "none", "--name", "empty", stage.folder)
    stage.run("cargo", "build", "--quiet")
    lock = stage.folder / "target/debug/.cargo-lock"
    with stage.recording():
        holder = stage.start("flock", lock, "sleep", "1.2")
        command = until("the command", lambda: children(holder.pid))
        began = time.monotonic_ns()
        build = stage.start("cargo", "build", "--quiet")
        build.wait()
        ended = time.monotonic_ns()
    culprits = [Who(holder.pid), *command]
    return Truth(Who(build.pid, build.pid), began, ended, culprits)
