"""What commands and the kernel let wait: memory that is on a disk, a disk that is slow, a core dump, a
share of a CPU, the lock of all network settings, a terminal multiplexer, a tracer, a branch of a pipe."""

import mmap
import os
import pathlib
import resource
import subprocess
import threading
import time

from actor import told
from hang import DidNotHang, Missing, Truth, Who, hang
from programs.backends import ON_DISK, slowed_down
from programs.kernel import SECONDS, ticking
from programs.native import collector, compiled
from programs.servers import SLEEPS, script
from programs.shell import life
from programs.storage import MEBIBYTE, disk, mounted

# What the album needs of memory, and how much its control group may have.
ALBUM, LIMIT = 20 * MEBIBYTE, 48 * MEBIBYTE


def album(flag):
    """A program that has pictures in its memory, and shows one after a long time."""
    with open("/dev/urandom", "rb") as source:
        pictures = mmap.mmap(-1, ALBUM, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pictures.write(source.read(ALBUM))
    # One of these shows how many of them are in memory.
    pictures.madvise(mmap.MADV_NOHUGEPAGE)

    def show_pictures():
        return sum(pictures[:: mmap.PAGESIZE]) if told(flag) else 0

    return show_pictures


def hog(size):
    """A program that needs much memory for a moment."""

    def need_memory():
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            for _ in range(3):
                for at in range(0, size, mmap.PAGESIZE):
                    memory[at] = 1

    return need_memory


def swap_disk(stage):
    """A disk of its own to swap to; its device."""
    image = stage.folder / "swap"
    image.touch(0o600)
    os.posix_fallocate(os.open(image, os.O_RDWR), 0, 96 * MEBIBYTE)
    stage.run("mkswap", image)
    device = stage.run("losetup", "--find", "--show", image).strip()
    stage.closing.callback(subprocess.run, ["losetup", "--detach", device])
    stage.run("swapon", "--priority", "100", device)
    stage.closing.callback(subprocess.run, ["swapoff", device])
    return device


SWAP = rf"show_pictures|swap|do_anonymous|handle_mm_fault|page_fault|{ON_DISK}"


@hang("swap", [SWAP], needs=["mkswap", "swapon", "losetup"])
def swapped_out_memory(stage):
    """A program needs what it has not needed for long, and that is on a slow disk by now."""
    if len(pathlib.Path("/proc/swaps").read_text().splitlines()) > 1:
        raise Missing("this machine swaps already")
    device = swap_disk(stage)
    group = pathlib.Path(f"/sys/fs/cgroup/memory/unhitch-apps-{os.getpid()}")
    try:
        stage.group(group)
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
        (group / "memory.swappiness").write_text("100")
    except OSError as error:
        raise Missing(f"control groups: {error}") from error
    flag = stage.folder / "show"
    program = in_group(stage, group, flag)
    other = stage.deed(hog, size=LIMIT - 4 * MEBIBYTE)
    (group / "cgroup.procs").write_text(str(other.who.pid))
    other.go()
    other.result()
    stage.end(other.process)
    number = os.stat(device).st_rdev
    limit = pathlib.Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device")
    name = f"{os.major(number)}:{os.minor(number)}"
    try:
        limit.write_text(f"{name} {16 * MEBIBYTE}")
    except OSError as error:
        raise Missing(f"the disk cannot be slowed down: {error}") from error
    stage.closing.callback(limit.write_text, f"{name} 0")
    with stage.recording(after=3):
        flag.touch()
    # That its own pages are missing is the cause, too: an answer about memory names who needs them.
    truth = program.truth(culprits=[program.who], disk=True)
    stage.end(program.process)
    limit.write_text(f"{name} 0")
    return truth


def in_group(stage, group, flag):
    """The program. It is in the control group from its start: memory belongs to the group of whoever
    needed it first."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        return stage.rhythm(album, flag=flag)
    finally:
        pathlib.Path("/sys/fs/cgroup/memory/cgroup.procs").write_text(str(os.getpid()))


def dictionary(path, flag):
    """A program that has a file mapped, and mostly needs the same part of it."""
    with open(path, "rb") as file:
        words = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def look_up_words():
        return sum(words[:: mmap.PAGESIZE]) if told(flag) else words[0]

    return look_up_words


MAPPED = rf"look_up_words|filemap_|page_fault|handle_mm_fault|mpage|readahead|{ON_DISK}"


@hang("a mapped file", [MAPPED], needs=["mkfs.ext4"])
def mapped_file_slow_disk(stage):
    """A program reads its memory, which is a file on a slow disk: nobody calls anything."""
    folder, flag = disk(stage), stage.folder / "all"
    file = folder / "words"
    file.write_bytes(os.urandom(5 * MEBIBYTE))
    slowed_down(stage, folder, "read")
    handle = os.open(file, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)
    program = stage.rhythm(dictionary, path=file, flag=flag)
    with stage.recording(after=3):
        flag.touch()
    # See swapped_out_memory.
    return program.truth(culprits=[program.who], disk=True)


UMOUNT = rf"umount|sync_filesystem|shutdown_super|kill_(block_)?super|writeback|sync_inodes|{ON_DISK}"


@hang("umount", [UMOUNT], needs=["mkfs.ext4", "umount"])
def umount_slow_disk(stage):
    """umount writes to a slow disk what has been copied to it, as with a memory stick."""
    folder = disk(stage)
    slowed_down(stage, folder)
    with stage.recording():
        (folder / "photos").write_bytes(os.urandom(5 * MEBIBYTE))
        return life(stage.start("umount", folder), disk=True)


def service(program, folder, flag, mebibytes):
    """Who starts a service again and again, and waits for its end. Once it crashes."""

    def limits():
        # The harness says so on a machine that keeps no core dumps.
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def run_service():
        size = str(mebibytes) if told(flag) else "0"
        process = subprocess.Popen([program, size], cwd=folder, preexec_fn=limits)
        process.wait()
        return process.pid

    return run_service


CORE = r"load_catalogue|run_service|coredump|core_dump|dump_(user|emit)|abort|wait4|waitpid|do_exit"


@hang("a core dump", [CORE], needs=["cc"])
def core_dump(stage):
    """A service has crashed, and only when the kernel has written all its memory to a file it may be
    started again."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if "/" in pattern or "|" in pattern:
        raise Missing("core dumps go elsewhere")
    memory, flag = mounted(stage, "memory", "-t", "tmpfs", "-o", "size=3g", "tmpfs"), stage.folder / "crash"
    size = 350 * stage.attempt
    program = compiled(stage, "importer.c")
    manager = stage.rhythm(service, program=program, folder=memory, flag=flag, mebibytes=size)
    with stage.recording(after=4):
        flag.touch()
    longest = manager.longest()
    return Truth(manager.who, longest["from"], longest["to"], [Who(longest["result"])])


def on_one_cpu():
    """A program that computes a little for each operation, on one CPU."""
    os.sched_setaffinity(0, {0})

    def sort_list():
        end = time.thread_time() + 0.004
        while time.thread_time() < end:
            pass

    return sort_list


def film(seconds):
    """A program that computes for long, on the same CPU."""
    os.sched_setaffinity(0, {0})

    def render_film():
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    return render_film


def cpu_group(stage, folder, shares):
    """A control group for CPUs."""
    try:
        stage.group(folder)
        (folder / "cpu.shares").write_text(str(shares))
    except OSError as error:
        raise Missing(f"control groups: {error}") from error
    return folder


@hang("a control group", [])
def cpu_shares(stage):
    """Two control groups share a CPU, and one of them has far more of it than the other (cpu.shares)."""
    program, other = stage.rhythm(on_one_cpu), stage.deed(film, seconds=SECONDS)
    # What else the machine does shares its CPU with both of them together.
    both = cpu_group(stage, pathlib.Path("/sys/fs/cgroup/cpu") / f"unhitch-apps-{os.getpid()}", 8192)
    for name, each, shares in (("low", program, 2), ("high", other, 50_000)):
        (cpu_group(stage, both / name, shares) / "cgroup.procs").write_text(str(each.who.pid))
    with stage.recording(after=2):
        other.go()
        other.result()
    truth = program.truth(culprits=[other.who])
    for each in (program, other):
        stage.end(each.process)
    return truth


RTNL = r"rtnl_?|rtnetlink|inet_rtm|netlink|unregister_netdev|dellink|veth_|netdev_|devinet|mutex_lock"


@hang("the network", [RTNL], lock=True, needs=["ip"])
def network_lock(stage):
    """The devices of very many containers are deleted at once, and nobody else can change any setting of
    the network meanwhile: the kernel has one lock for all of them."""
    busy, quiet = (f"unhitch-{os.getpid()}-{name}" for name in ("busy", "quiet"))
    for name in (busy, quiet):
        stage.run("ip", "netns", "add", name)
        stage.closing.callback(subprocess.run, ["ip", "netns", "delete", name])
        stage.run("ip", "-n", name, "link", "set", "lo", "up")
    commands = stage.folder / "links"
    with open(commands, "w") as out:
        for n in range(5000 * stage.attempt):
            print(f"link add v{n} group 7 type veth peer name w{n} group 7", file=out)
    stage.run("ip", "-n", busy, "-batch", commands)
    argv = ["ip", "-n", quiet, "address", "replace", "192.0.2.1/32", "dev", "lo"]
    program = stage.rhythm(script, argv=argv)
    with stage.recording(after=2):
        command = stage.start("ip", "-n", busy, "link", "delete", "group", "7")
        command.wait()
    longest = program.longest()
    others = [Who(longest["result"])]
    return Truth(program.who, longest["from"], longest["to"], [Who(command.pid)], others)


def measurements(path):
    """A program that prints a hundred lines a second."""

    def print_lines():
        with open(path, "wb", buffering=0) as pipe:
            while True:
                pipe.write(b"x" * 4095 + b"\n")
                time.sleep(0.01)

    threading.Thread(target=print_lines, daemon=True).start()
    return ticking()


def dashboard(path):
    """A program that shows them as they come."""
    pipe = os.open(path, os.O_RDONLY)

    def show_lines():
        os.read(pipe, 65536)

    return show_lines


@hang("a pipeline", [rf"collect_lines|show_lines|tee|{SLEEPS}"], needs=["tee"])
def tee_slow_branch(stage):
    """tee copies to two programs; one of them does not read, and the other one gets nothing."""
    raw, live, archive = (stage.folder / name for name in ("raw", "live", "archive"))
    for pipe in (raw, live, archive):
        os.mkfifo(pipe)
    flag = stage.folder / "think"
    slow = stage.actor("deed", collector, path=archive, flag=flag, seconds=SECONDS + 0.2)
    tee = stage.start("sh", "-c", f"exec tee {archive} <{raw} >{live}")
    source = stage.actor("deed", measurements, path=raw)
    program = stage.rhythm(dashboard, path=live)
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(slow.who.pid)], others=[Who(tee.pid), Who(source.who.pid)])


def backup_of_repository(path):
    """A program that locks a file as git does: another file exists as long as that."""

    def copy_repository():
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        time.sleep(SECONDS)
        os.close(handle)
        os.unlink(path)

    return copy_repository


GIT_LOCK = rf"copy_repository|lock_file|packed_refs|pack_refs|sleep_millisec|{SLEEPS}"


@hang("git", [GIT_LOCK], lock=True, needs=["git"])
def git_lock_file(stage):
    """Another program has packed-refs.lock, so git looks again and again."""
    stage.run("git", "init", "--quiet")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    stage.run("git", *identity, "commit", "--quiet", "--allow-empty", "-m", "a")
    argv = ["git", "-C", str(stage.folder), "-c", "core.packedRefsTimeout=10000", "pack-refs", "--all"]
    client = stage.rhythm(script, argv=argv)
    holder = stage.deed(backup_of_repository, path=stage.folder / ".git/packed-refs.lock")
    with stage.recording():
        holder.go()
        if "error" in holder.result():
            raise DidNotHang("git had the lock")
    longest = client.longest()
    waiter = Who(longest["result"], longest["result"], "git")
    return Truth(waiter, longest["from"], longest["to"], [holder.who], others=[client.who])


def looking(folder):
    """A program that looks whether files have changed."""

    def check_files():
        for _ in range(100):
            os.stat(folder)

    return check_files


def pager(path, flag):
    """Somebody reads what a tracer prints, page by page."""

    def turn_pages():
        with open(path, "rb", buffering=0) as pipe:
            while pipe.read(65536):
                if told(flag):
                    time.sleep(SECONDS + 0.4)

    threading.Thread(target=turn_pages, daemon=True).start()
    return ticking()


@hang("strace", [rf"turn_pages|{SLEEPS}|pipe_write|ptrace_stop"], needs=["strace"])
def strace_into_pager(stage):
    """Somebody looks at a program with strace and a pager; while nobody turns the page, the tracer
    waits, and so does the program."""
    pipe, flag = stage.folder / "trace", stage.folder / "think"
    os.mkfifo(pipe)
    reader = stage.actor("deed", pager, path=pipe, flag=flag)
    program = stage.rhythm(looking, folder=stage.folder)
    strace = stage.start("sh", "-c", f"exec strace -qq -v -p {program.who.pid} 2>{pipe}")
    time.sleep(1)
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(reader.who.pid)], others=[Who(strace.pid)])


# Backtracks at each of the lines.
SEARCH = r"(x*)*\1y"
SEARCHES = r"window_copy|re_search|regexec|re_string|sift_states|check_arrival|get_subexp|transit_state|tmux"


@hang("tmux", [SEARCHES], needs=["tmux"])
def tmux_search(stage):
    """Somebody searches all that a terminal has shown, and the terminals of all others hang meanwhile:
    tmux has one thread."""
    tmux = ["tmux", "-f", "/dev/null", "-S", str(stage.folder / "tmux")]
    lines = 60 * stage.attempt
    show = f"seq -f '{'x' * 40}%g' {lines}; exec sleep 100"
    environment = os.environ | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
    stage.closing.callback(subprocess.run, [*tmux, "kill-server"])
    stage.run(*tmux, "new-session", "-d", "-x", "80", "-y", "24", "sleep 100", env=environment)
    stage.run(*tmux, "set-option", "-g", "history-limit", "100000")
    stage.run(*tmux, "new-window", "-d", "-n", "log", show)
    server = int(stage.run(*tmux, "display-message", "-p", "#{pid}"))
    time.sleep(1)
    stage.run(*tmux, "copy-mode", "-t", "log")
    client = stage.rhythm(script, argv=[*tmux, "display-message", "-p", "here"])
    with stage.recording(after=2):
        stage.run(*tmux, "send-keys", "-t", "log", "-X", "search-backward", SEARCH)
    longest = client.longest()
    return Truth(client.who, longest["from"], longest["to"], [Who(server)], [Who(longest["result"])])
