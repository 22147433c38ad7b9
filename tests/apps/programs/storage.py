"""What the kernel keeps: files that somebody watches, freezes, copies or writes to, memory that comes late
or is used up; and locks of threads that spin, starve or have the wrong priority."""

import contextlib
import ctypes
import fcntl
import mmap
import os
import pathlib
import signal
import struct
import subprocess
import threading
import time

from actor import told
from hang import Missing, Truth, Who, hang
from programs.kernel import SECONDS, ticking
from programs.native import Program, between_threads, compiled
from programs.servers import SLEEPS
from stage import until


def mounted(stage, name, *options):
    """A file system of its own, until the end of the hang; its folder."""
    folder = stage.subfolder(name)
    mount = subprocess.run(["mount", *map(str, options), folder], capture_output=True, text=True)
    if mount.returncode:
        raise Missing(f"mount: {mount.stderr.strip()}")
    stage.closing.callback(subprocess.run, ["umount", "-l", folder])
    return folder


MEBIBYTE = 1 << 20
# From <linux/fanotify.h>: a group that may deny, an object to watch, what is asked about, an answer.
FAN_CLASS_CONTENT, FAN_MARK_ADD, FAN_ALLOW = 0x4, 0x1, 0x1
FAN_OPEN_PERM, FAN_OPEN_EXEC_PERM = 0x10000, 0x40000
AT_FDCWD = -100


def scanner(path, flag, mask):
    """A virus scanner, which the kernel asks about each opening of a file; one takes long."""
    libc = ctypes.CDLL(None, use_errno=True)
    group = libc.fanotify_init(FAN_CLASS_CONTENT, os.O_RDONLY)
    where = ctypes.c_ulonglong(mask), AT_FDCWD, path.encode()
    if group < 0 or libc.fanotify_mark(group, FAN_MARK_ADD, *where):
        raise OSError(ctypes.get_errno(), "fanotify")

    def scan_file():
        while True:
            event = os.read(group, 24)
            file = struct.unpack("=IBBHQii", event)[5]
            if told(flag):
                time.sleep(SECONDS)
            os.write(group, struct.pack("=iI", file, FAN_ALLOW))
            os.close(file)

    threading.Thread(target=scan_file, daemon=True).start()
    return ticking()


def opening(path):
    """An editor that opens a document."""

    def open_document():
        with open(path, "rb") as document:
            document.read()

    return open_document


@hang("fanotify", [rf"scan_file|open_document|fanotify|{SLEEPS}"])
def scanned_document(stage):
    """A virus scanner takes its time, and whoever opens a document waits for it."""
    path, flag = stage.folder / "document", stage.folder / "slow"
    path.write_text("Dear Sir")
    watch = stage.actor("deed", scanner, path=path, flag=flag, mask=FAN_OPEN_PERM)
    editor = stage.rhythm(opening, path=path)
    with stage.recording(after=2.5):
        flag.touch()
    return editor.truth(culprits=[Who(watch.who.pid)])


def building(compiler):
    """A build that runs a compiler for each file."""

    def compile_file():
        process = subprocess.Popen([compiler])
        process.wait()
        return process.pid

    return compile_file


@hang("fanotify", [rf"scan_file|compile_file|vfork|fork_exec|fanotify|{SLEEPS}"])
def scanned_command(stage):
    """A virus scanner looks at a command before it starts; its parent waits in vfork for that."""
    command, flag = stage.folder / "compiler", stage.folder / "slow"
    command.write_bytes(pathlib.Path("/bin/true").resolve().read_bytes())
    command.chmod(0o755)
    watch = stage.actor("deed", scanner, path=command, flag=flag, mask=FAN_OPEN_EXEC_PERM)
    build = stage.rhythm(building, compiler=command)
    with stage.recording(after=2.5):
        flag.touch()
    longest = build.longest()
    times = longest["from"], longest["to"]
    return Truth(build.who, *times, [Who(watch.who.pid)], [Who(longest["result"])])


def file_server(path):
    """A file server, which caches a file for its client as long as it has the lease."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})

    def flush_cache():
        with open(path, "rb+") as file:
            # The kernel refuses, while somebody has the file open.
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
                    break
                time.sleep(0.001)
            signal.sigwait({signal.SIGIO})
            time.sleep(SECONDS)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    return flush_cache


@hang("file leases", [rf"flush_cache|open_document|break_lease|{SLEEPS}"])
def file_lease(stage):
    """A file server has a lease of a file, and writes its cache back before somebody may open it."""
    path = stage.folder / "document"
    path.write_text("Dear Sir")
    server = stage.deed(file_server, path=path)
    editor = stage.rhythm(opening, path=path)
    with stage.recording():
        server.go()
        server.result()
    return editor.truth(culprits=[server.who])


# From <linux/fs.h>.
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878


def control(folder, request):
    """Asks a file system for something."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, request, 0)
    finally:
        os.close(handle)


def backup(folder):
    """A backup tool, which freezes a file system while it takes a snapshot of the disk."""

    def take_snapshot():
        control(folder, FIFREEZE)
        time.sleep(SECONDS)
        control(folder, FITHAW)

    return take_snapshot


def thaw(folder):
    """Has a file system be as it was, if the backup tool has been ended."""
    with contextlib.suppress(OSError):
        control(folder, FITHAW)


def log_file(path):
    """A program that writes a line to the end of a file that others may write to, too."""
    file = open(path, "ab", buffering=0)
    return lambda: append_line(file)


def append_line(file):
    file.write(b"x" * 100 + b"\n")


def disk(stage, mebibytes=64):
    """A file system of ext4 on a disk of its own, which is a file; its folder."""
    image = stage.folder / "image"
    image.touch()
    os.truncate(image, mebibytes << 20)
    stage.run("mkfs.ext4", "-q", image)
    return mounted(stage, "disk", "-o", "loop", image)


SNAPSHOT = rf"take_snapshot|append_line|sb_start_write|percpu_\w*down_read|{SLEEPS}"


@hang("ext4", [SNAPSHOT], needs=["mkfs.ext4"])
def frozen_file_system(stage):
    """A backup tool has a file system frozen (fsfreeze), and nobody can write."""
    folder = disk(stage)
    program = stage.rhythm(log_file, path=folder / "log")
    tool = stage.deed(backup, folder=folder)
    stage.closing.callback(thaw, folder)
    with stage.recording():
        tool.go()
        tool.result()
    return program.truth(culprits=[tool.who])


def commits(path):
    """A program that makes sure that each of its entries is on the disk."""
    file = open(path, "ab", buffering=0)

    def commit_entry():
        file.write(b"entry")
        os.fsync(file.fileno())

    return commit_entry


def copier(path):
    """A program that copies a bigger file to the disk."""

    def copy_file():
        with open(path, "wb", buffering=0) as file:
            file.write(bytes(5 * MEBIBYTE))
            os.fsync(file.fileno())

    return copy_file


@hang("ext4", [r"copy_file|commit_entry|fsync|jbd2_|folio_wait|submit_bio"], needs=["mkfs.ext4"])
def fsync_behind_copy(stage):
    """A disk that writes 4 MiB a second has much to write for one program, so that another one's small
    entry is not on it for long. Both are to blame, the disk and who writes so much."""
    folder = disk(stage)
    major, minor = divmod(os.stat(folder).st_dev, 256)
    limit = pathlib.Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
    program = stage.rhythm(commits, path=folder / "entries")
    other = stage.deed(copier, path=folder / "copy")
    try:
        limit.write_text(f"{major}:{minor} {4 * MEBIBYTE}")
    except OSError as error:
        raise Missing(f"the disk cannot be slowed down: {error}") from error
    stage.closing.callback(limit.write_text, f"{major}:{minor} 0")
    with stage.recording():
        other.go()
        other.result()
    return program.truth(culprits=[other.who], disk=True)


# The kernel writes no more at once.
MAX_WRITE = 2047 * MEBIBYTE


def exporter(path):
    """A program that writes as much to a file, with one call, as takes about a second."""
    chunk = bytes(2 * MEBIBYTE)
    with open(f"{path}.sample", "wb", buffering=0) as sample:
        began = time.monotonic()
        os.writev(sample.fileno(), [chunk] * 64)
        speed = 64 / (time.monotonic() - began)
    os.unlink(f"{path}.sample")
    chunks = [chunk] * min(int(1.3 * speed), MAX_WRITE // len(chunk), 1023)
    file = open(path, "ab", buffering=0)
    return lambda: export_table(file, chunks)


def export_table(file, chunks):
    os.writev(file.fileno(), chunks)


INODE = r"export_table|append_line|writev|rwsem_down|inode_lock|generic_(perform|file)_write|shmem_"


@hang("an inode", [INODE], lock=True)
def big_write(stage):
    """A process writes much to a file with one call, and another one cannot append a line: the kernel
    has locked the file's inode."""
    folder = mounted(stage, "memory", "-t", "tmpfs", "-o", "size=3g", "tmpfs")
    export = stage.deed(exporter, path=folder / "log")
    program = stage.rhythm(log_file, path=folder / "log")
    with stage.recording():
        export.go()
        export.result()
    return program.truth(culprits=[export.who])


def opening_for_writing(path, flag):
    """A program that reads its settings, and changes them once."""

    def save_settings():
        with open(path, "r+b" if told(flag) else "rb", buffering=0) as file:
            file.read(100)

    return save_settings


def migration(path):
    """A program that changes a big file of the image that its container is made from."""

    def open_database():
        with open(path, "r+b", buffering=0) as file:
            file.write(b"2")

    return open_database


def container(stage, memory, name):
    """An overlay over the folder `lower`; its folder."""
    upper, work = memory / f"{name}-upper", memory / f"{name}-work"
    upper.mkdir()
    work.mkdir()
    layers = f"lowerdir={memory}/lower,upperdir={upper},workdir={work}"
    return mounted(stage, name, "-t", "overlay", "-o", layers, "overlay")


def write_file(path, mebibytes):
    chunk = bytes(MEBIBYTE)
    with open(path, "wb", buffering=0) as file:
        for _ in range(mebibytes):
            file.write(chunk)


COPY_UP = r"open_database|save_settings|ovl_|copy_up|splice|mutex_lock"


@hang("overlayfs", [COPY_UP], lock=True)
def overlay_copy_up(stage):
    """A container's process opens a big file for writing, so the kernel copies it first; another one
    that opens it waits."""
    memory = mounted(stage, "memory", "-t", "tmpfs", "-o", "size=6g", "tmpfs")
    (memory / "lower").mkdir()
    write_file(memory / "lower/sample", 128)
    sample = migration(container(stage, memory, "trial") / "sample")
    began = time.monotonic()
    sample()
    speed = 128 / (time.monotonic() - began)
    write_file(memory / "lower/database", min(int(1.4 * stage.attempt * speed), 2500))
    database, flag = container(stage, memory, "container") / "database", stage.folder / "save"
    other = stage.deed(migration, path=database)
    program = stage.rhythm(opening_for_writing, path=database, flag=flag)
    free = os.statvfs(memory).f_bfree
    with stage.recording():
        other.go()
        until("the copy", lambda: os.statvfs(memory).f_bfree < free - 1000)
        flag.touch()
        other.result()
    return program.truth(culprits=[other.who])


def resizing():
    """A program that needs 4 MiB for each picture, and returns them."""
    picture = bytes(4 * MEBIBYTE)

    def resize_picture():
        with mmap.mmap(-1, len(picture), flags=mmap.MAP_PRIVATE) as memory:
            memory.write(picture)

    return resize_picture


def reporting(size):
    """A program that needs nearly all memory of its control group for a while."""
    zeros = bytes(size)

    def build_report():
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE) as memory:
            memory.write(zeros)
            time.sleep(SECONDS)

    return build_report


MEMORY = rf"build_report|resize_picture|mem_cgroup|memcg|{SLEEPS}"


@hang("a control group", [MEMORY])
def memory_limit(stage):
    """A process has all memory of its control group, and another one waits until some is free: whoever
    runs this service prefers that to a process that is killed."""
    folder = pathlib.Path(f"/sys/fs/cgroup/memory/unhitch-apps-{os.getpid()}")
    try:
        stage.group(folder)
        (folder / "memory.limit_in_bytes").write_text(str(64 * MEBIBYTE))
        (folder / "memory.oom_control").write_text("1")
    except OSError as error:
        raise Missing(f"control groups: {error}") from error
    other = stage.deed(reporting, size=62 * MEBIBYTE)
    program = stage.rhythm(resizing)
    for each in (other, program):
        (folder / "cgroup.procs").write_text(str(each.who.pid))
    with stage.recording():
        other.go()
        other.result()
    truth = program.truth(culprits=[other.who])
    for each in (other, program):
        stage.end(each.process)
    return truth


@hang("userfaultfd", [r"fetch_page|serve_faults|run_guest|userfault|nanosleep"], needs=["cc"])
def served_page(stage):
    """A virtual machine needs a page of its memory, which is still on another host."""
    return between_threads(stage, "guest.c", "pager")


@hang("C", [r"save_statistics|count_order|pthread_spin_lock|nanosleep"], lock=True, needs=["cc"])
def c_spin_lock(stage):
    """A thread sleeps with a spin lock, and another one spins."""
    return between_threads(stage, "counter.c", "saver")


@hang("C", [r"plan_path|log_position|move_arm"], lock=True, needs=["cc"])
def c_priority_inversion(stage):
    """A real-time thread computes, and so keeps a thread without priority from releasing a mutex that
    one of higher priority needs."""
    return between_threads(stage, "robot.c", "planner", others=["logger"])


@hang("C", [r"answer_query|set_price|pthread_rwlock|nanosleep"], lock=True, needs=["cc"])
def c_writer_starved(stage):
    """Two readers take turns, so that a read-write lock is never free for its writer."""
    flag = stage.folder / "now"
    program = Program(stage, compiled(stage, "prices.c"), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread("reader-1"), program.thread("reader-2")])
