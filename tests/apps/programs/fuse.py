"""A file system that a program serves (FUSE)."""

import os

from hang import Who, hang
from stage import stop_for_a_while, until


def lister(folder):
    """A program that looks at a file, as each does that opens a document."""

    def look():
        for name in os.listdir(folder):
            with open(os.path.join(folder, name)) as file:
                file.read()

    return look


@hang("FUSE", [], needs=["bindfs", "fusermount3"])
def fuse_stopped(stage):
    """The program that serves a file system has been stopped, as an SSH mount without a network."""
    real, mounted = stage.subfolder("real"), stage.subfolder("mounted")
    (real / "letter").write_text("Dear Sir")
    options = ["-f", "-o", "attr_timeout=0,entry_timeout=0,negative_timeout=0"]
    server = stage.start("bindfs", *options, real, mounted)
    stage.closing.callback(lambda: os.path.ismount(mounted) and os.system(f"umount -l {mounted}"))
    until("bindfs", lambda: os.path.ismount(mounted))
    client = stage.rhythm(lister, folder=mounted)
    with stage.recording():
        somebody = stop_for_a_while(server.pid)
    return client.truth(culprits=[Who(server.pid), somebody])
