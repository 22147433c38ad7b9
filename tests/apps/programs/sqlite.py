"""SQLite: a database that somebody has locked, and a slow disk."""

import os
import pathlib
import sqlite3
import time

from actor import told
from hang import Missing, hang

LIBRARY = [r"\bsqlite3\w+|[pP]ager|unixSync|unixSleep|[bB]usy|Vdbe|pysqlite"]


def connect(path):
    connection = sqlite3.connect(path, timeout=20, isolation_level=None)
    connection.execute("create table if not exists notes (id integer primary key, text)")
    return connection


def write_note(path, flag):
    """A program that saves a note, and once a big one."""
    connection = connect(path)
    small, big = b"note", os.urandom(2 << 20)

    def write():
        text = big if told(flag) else small
        connection.execute("insert or replace into notes values (1, ?)", [text])

    return write


def long_transaction(path):
    """A program that keeps the database locked while it does something else."""
    connection = connect(path)

    def transact():
        connection.execute("begin immediate")
        time.sleep(1.2)
        connection.execute("commit")

    return transact


@hang("SQLite", LIBRARY, lock=True, quick=True)
def sqlite_busy(stage):
    """Another program has the database locked, so this one looks again and again."""
    path = stage.folder / "notes.db"
    writer = stage.rhythm(write_note, path=path, flag=stage.folder / "big")
    holder = stage.deed(long_transaction, path=path)
    with stage.recording():
        holder.go()
        holder.result()
    return writer.truth(culprits=[holder.who])


def slow_disk(stage):
    """A control group whose disk writes 4 MiB a second."""
    major, minor = divmod(os.stat(stage.folder).st_dev, 256)
    disk = f"{major}:{minor}"
    block = pathlib.Path(f"/sys/dev/block/{disk}").resolve()
    if (block / "partition").exists():
        disk = (block.parent / "dev").read_text().strip()
    old = pathlib.Path("/sys/fs/cgroup/blkio")
    folder = (old if old.is_dir() else old.parent) / f"unhitch-apps-{os.getpid()}"
    try:
        stage.group(folder)
        if old.is_dir():
            (folder / "blkio.throttle.write_bps_device").write_text(f"{disk} {4 << 20}")
        else:
            (folder / "io.max").write_text(f"{disk} wbps={4 << 20}")
    except OSError as error:
        raise Missing(f"the disk cannot be slowed down: {error}") from error
    return folder


@hang("SQLite", LIBRARY)
def sqlite_fsync(stage):
    """A commit waits for a slow disk."""
    flag = stage.folder / "big"
    writer = stage.rhythm(write_note, path=stage.folder / "notes.db", flag=flag)
    folder = slow_disk(stage)
    (folder / "cgroup.procs").write_text(str(writer.who.pid))
    with stage.recording(after=3):
        flag.touch()
    truth = writer.truth(disk=True)
    stage.end(writer.process)
    return truth
