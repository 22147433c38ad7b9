"""Programs that the kernel asks: those that mount, filter, forward, look up or store for others; and a network
device, a quota and memory that is copied."""

import contextlib
import ctypes
import fcntl
import itertools
import os
import pathlib
import socket
import struct
import subprocess
import threading
import time

import actor
import web
from actor import told
from hang import Who, hang
from programs.kernel import SECONDS, answering, asking, ticking
from programs.native import Program, compiled, header
from programs.python import COMPUTES, validate_input
from programs.servers import SLEEPS, browse
from programs.shell import quota_group
from programs.storage import commits
from stage import HERE, connects, free_port, stop_for_a_while, until

SOURCES = HERE / "sources/assorted"


# From <linux/auto_fs.h>.
AUTOFS_READY, MISSING_INDIRECT = 0x9360, 3


def automounter(folder, home, flag):
    """Who mounts the homes of users when somebody needs them; these are links to one folder."""
    libc = ctypes.CDLL(None, use_errno=True)
    packets, kernels = os.pipe()
    options = f"fd={kernels},pgrp={os.getpgrp()},minproto=5,maxproto=5,indirect"
    if libc.mount(b"homes", folder.encode(), b"autofs", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "autofs")
    os.close(kernels)
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def mount_homes():
        while True:
            packet = os.read(packets, 1000)
            _, kind, token, _, _, _, _, _, _, length = struct.unpack_from("=iiIIQIIIII", packet)
            if kind != MISSING_INDIRECT:
                continue
            if told(flag):
                time.sleep(SECONDS)
            name = packet[44 : 44 + length].decode()
            os.symlink(home, f"{folder}/{name}")
            fcntl.ioctl(root, AUTOFS_READY, token)

    threading.Thread(target=mount_homes, daemon=True).start()
    return ticking()


def users(folder):
    """A program that needs the home of another user each time."""
    numbers = itertools.count()
    return lambda: os.stat(f"{folder}/user{next(numbers)}") and None


@hang("autofs", [rf"mount_homes|autofs|{SLEEPS}"])
def autofs_slow_mount(stage):
    """The automounter takes long to mount what somebody needs."""
    folder, home, flag = stage.subfolder("homes"), stage.subfolder("home"), stage.folder / "slow"
    daemon = stage.actor("deed", automounter, folder=folder, home=home, flag=flag)
    stage.closing.callback(subprocess.run, ["umount", "-l", folder])
    program = stage.rhythm(users, folder=folder)
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=[Who(daemon.who.pid)])


# From <linux/if_tun.h>.
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000


def vpn(flag):
    """A network in user space: it has a device, and answers for whoever is at the other end."""
    device, name = os.open("/dev/net/tun", os.O_RDWR), f"vpn{os.getpid()}"[:15]
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "address", "add", "10.77.53.1/24", "dev", name], check=True)
    subprocess.run(["ip", "link", "set", name, "up"], check=True)

    def forward_packets():
        while True:
            packet = bytearray(os.read(device, 2000))
            if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_UDP:
                continue
            if told(flag):
                time.sleep(SECONDS)
            # Who sends and who receives change places, and so all sums stay what they are.
            packet[12:16], packet[16:20] = packet[16:20], packet[12:16]
            packet[20:22], packet[22:24] = packet[22:24], packet[20:22]
            os.write(device, packet)

    threading.Thread(target=forward_packets, daemon=True).start()
    return ticking()


def remote_desk():
    """A program that asks a machine at the other end."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("10.77.53.2", 5000))

    def ask_colleague():
        sock.send(b"?")
        sock.recv(100)

    return ask_colleague


@hang("a VPN", [rf"forward_packets|ask_colleague|tun_|{SLEEPS}"], needs=["ip"])
def tun_vpn(stage):
    """The program behind a network device (TUN) does not forward for a while."""
    flag = stage.folder / "slow"
    tunnel = stage.actor("deed", vpn, flag=flag)
    program = stage.rhythm(remote_desk)
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=[Who(tunnel.who.pid)])


@hang("seccomp", [r"ask_policy|supervise|make_folder|seccomp|notif|nanosleep"], needs=["cc"])
def seccomp_supervisor(stage):
    """A program in a container waits in mkdir for the supervisor that has to allow it."""
    folder, flag = stage.folder / "new", stage.folder / "now"
    program = Program(stage, compiled(stage, SOURCES / "container.c"), folder, flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(program.facts["supervisor"])])


CLONE_NEWNS, CLONE_NEWNET, MS_PRIVATE = 0x20000, 0x40000000, 0x44000


def with_directory(path):
    """A program that looks a user up, by way of the directory's daemon (nscd)."""
    libc = ctypes.CDLL(None, use_errno=True)
    failed = (
        libc.unshare(CLONE_NEWNS)
        or libc.mount(b"none", b"/", None, MS_PRIVATE, None)
        or libc.mount(b"run", b"/run", b"tmpfs", 0, None)
    )
    if failed:
        raise OSError(ctypes.get_errno(), "no /run of its own")
    os.mkdir("/run/nscd")
    os.symlink(path, "/run/nscd/socket")
    libc.getpwnam.restype = ctypes.c_void_p

    def look_up_user():
        return bool(libc.getpwnam(b"alice"))

    if not look_up_user():
        raise OSError("the directory does not know alice")
    return look_up_user


def directory(path, flag):
    """The daemon, which knows one user and is slow once."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(10)
    words = b"alice\0", b"x\0", b"Alice\0", b"/home/alice\0", b"/bin/sh\0"
    lengths = [len(word) for word in words]
    answer = struct.pack("=9i", 2, 1, *lengths[:2], 1000, 1000, *lengths[2:]) + b"".join(words)

    def answer_lookups():
        while True:
            connection, _ = listener.accept()
            with connection:
                _, kind, length = struct.unpack("=3i", connection.recv(12, socket.MSG_WAITALL))
                connection.recv(length, socket.MSG_WAITALL)
                # GETPWBYNAME; nothing else is offered.
                if kind == 0:
                    if told(flag):
                        time.sleep(SECONDS)
                    connection.sendall(answer)

    threading.Thread(target=answer_lookups, daemon=True).start()
    return ticking()


@hang("the name service", [rf"answer_lookups|look_up_user|nscd|getpwnam|wait_on_socket|{SLEEPS}"])
def nss_directory(stage):
    """The daemon that knows all users answers late, and getpwnam waits for it."""
    path, flag = stage.folder / "directory", stage.folder / "slow"
    daemon = stage.actor("deed", directory, path=path, flag=flag)
    program = stage.rhythm(with_directory, path=path)
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=[Who(daemon.who.pid)])


def join(namespace):
    """Goes into another network."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(handle, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(handle)


def answering_there(namespace, port, flag):
    join(namespace)
    return answering(port, flag)


def asking_there(namespace, port):
    join(namespace)
    return asking(port)


def backup_there(namespace):
    """A program that sends a backup as fast as the line takes it, with a large buffer."""
    join(namespace)
    target = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    target.bind(("127.0.0.1", 0))
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # SO_SNDBUFFORCE
    sock.setsockopt(socket.SOL_SOCKET, 32, 1_000_000)
    sock.connect(target.getsockname())

    def send_backup():
        for _ in range(2000):
            sock.send(bytes(1200))
        # It has to be open as long.
        return target.fileno()

    return send_backup


QUEUED = r"send_backup|sock_(alloc|wait)|udp_sendmsg|ip_(append|send|output)|tbf_|dev_queue_xmit|recv"


@hang("the network", [QUEUED], needs=["ip", "tc"])
def network_queue(stage):
    """A backup fills the long queue of a slow line (bufferbloat), and a short question waits in it."""
    name = f"unhitch-{os.getpid()}-line"
    stage.run("ip", "netns", "add", name)
    stage.closing.callback(subprocess.run, ["ip", "netns", "delete", name])
    stage.run("ip", "-n", name, "link", "set", "lo", "up")
    rate = ["tbf", "rate", "8mbit", "burst", "20kb", "limit", "20mb"]
    stage.run("tc", "-n", name, "qdisc", "add", "dev", "lo", "root", *rate)
    port = free_port()
    server = stage.actor("deed", answering_there, namespace=name, port=port, flag=stage.folder / "never")
    client = stage.rhythm(asking_there, namespace=name, port=port)
    other = stage.deed(backup_there, namespace=name)
    with stage.recording(after=2):
        other.go()
        other.result()
    return client.truth(culprits=[other.who], others=[Who(server.who.pid)])


def storage_server(stage):
    """A program with much memory that is pinned; and the flag that has it fork."""
    header("liburing.h", "liburing-dev")
    flag, parts = stage.folder / "now", 2 + stage.attempt
    return Program(stage, compiled(stage, SOURCES / "storage.c", "-luring"), parts, flag), flag


FORKS = r"start_helper|fork|clone|copy_(process|page|mm|pte|present)|dup_mm|folio_|copy_mc|copy_user|clear_page"


@hang("the memory map", [FORKS, r"use_buffer|mmap|munmap|down_(read|write)"], lock=True, needs=["cc"])
def fork_copies_pinned_memory(stage):
    """A thread forks, the kernel copies all pinned memory, and no other thread can map anything."""
    program, flag = storage_server(stage)
    with stage.recording(after=2):
        program.hang(flag)
    return program.truth([program.thread("starter")])


def process_list(pid):
    """What shows the command lines of processes, as ps does."""
    path = f"/proc/{pid}/cmdline"

    def list_processes():
        pathlib.Path(path).read_bytes()

    return list_processes


READS = r"list_processes|access_remote_vm|get_mm_cmdline|proc_pid_cmdline|down_read|mmap_read"


@hang("/proc", [FORKS, READS], lock=True, needs=["cc"])
def ps_behind_fork(stage):
    """Whoever looks at the command line of a process (ps) waits, because that one forks."""
    program, flag = storage_server(stage)
    monitor = stage.rhythm(process_list, pid=program.pid)
    with stage.recording(after=2):
        program.hang(flag)
    return monitor.truth(culprits=[program.thread("starter")])


@hang("loop devices", [], needs=["bindfs", "fusermount3", "mkfs.ext4"])
def loop_over_fuse(stage):
    """A disk is a file of a file system (FUSE) that somebody has stopped."""
    real, remote, folder = (stage.subfolder(name) for name in ("real", "remote", "disk"))
    (real / "image").touch()
    os.truncate(real / "image", 64 << 20)
    stage.run("mkfs.ext4", "-q", real / "image")
    server = stage.start("bindfs", "-f", real, remote)
    stage.closing.callback(lambda: os.path.ismount(remote) and os.system(f"umount -l {remote}"))
    until("bindfs", lambda: os.path.ismount(remote))
    stage.run("mount", "-o", "loop", remote / "image", folder)
    stage.closing.callback(subprocess.run, ["umount", folder])
    program = stage.rhythm(commits, path=folder / "entries")
    stage.closing.callback(stage.end, program.process)
    with stage.recording():
        somebody = stop_for_a_while(server.pid)
    return program.truth(culprits=[Who(server.pid), somebody])


# From <linux/fuse.h>.
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, INIT, INTERRUPT, DESTROY, BATCH_FORGET = (
    *(1, 2, 3, 14, 15, 18, 26, 36, 38, 42),
)
FOLDER_MODE, FILE_MODE, DIRECT = 0o40755, 0o100644, 1
FILES = {b"note": 2, b"film": 3, b"archive": 4}


def cloud_drive(folder):
    """A file system in one thread. It serves a note at once, gets a film from far away, and decrypts an
    archive."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"drive", folder.encode(), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "fuse")

    def attributes(node):
        mode = FOLDER_MODE if node == 1 else FILE_MODE
        return struct.pack("=6Q10I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def fetch_block():
        time.sleep(SECONDS)

    def decrypt_block():
        validate_input()

    def answer(operation, node, body):
        if operation == INIT:
            return struct.pack("=4I2HI2x", 7, 31, 0, 0, 12, 10, 65536).ljust(64, b"\0")
        if operation == LOOKUP:
            node = FILES.get(body.rstrip(b"\0"))
            return struct.pack("=4Q2I", node, 0, 0, 0, 0, 0) + attributes(node) if node else 2
        if operation == GETATTR:
            return struct.pack("=Q2I", 0, 0, 0) + attributes(node)
        if operation == OPEN:
            return struct.pack("=Q2I", node, DIRECT, 0)
        if operation == READ:
            if node == FILES[b"film"]:
                fetch_block()
            if node == FILES[b"archive"]:
                decrypt_block()
            return b"x" * 100
        return b"" if operation == RELEASE else 38

    def serve_drive():
        while True:
            request = os.read(device, 200_000)
            _, operation, unique, node = struct.unpack_from("=IIQQ", request)
            if operation in (FORGET, BATCH_FORGET, INTERRUPT, DESTROY):
                continue
            result = answer(operation, node, request[40:])
            error, body = (-result, b"") if isinstance(result, int) else (0, result)
            # Who asked may have gone.
            with contextlib.suppress(OSError):
                os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)

    threading.Thread(target=serve_drive, daemon=True).start()
    return ticking()


def drive(stage):
    """Such a file system; its process and its folder."""
    folder = stage.subfolder("drive")
    server = stage.actor("deed", cloud_drive, folder=folder)
    stage.closing.callback(subprocess.run, ["umount", "-l", folder])
    until("the drive", lambda: os.stat(folder / "note").st_size == 4096)
    return server, folder


def reads(path):
    """A program that opens a file and reads it."""

    def read_file():
        handle = os.open(path, os.O_RDONLY)
        os.read(handle, 4096)
        os.close(handle)

    return read_file


@hang("FUSE", [COMPUTES, r"decrypt_block|serve_drive|read_file|fuse_|request_wait_answer"])
def fuse_one_thread(stage):
    """A file system in one thread decrypts a file for somebody, and answers nobody else."""
    server, folder = drive(stage)
    client = stage.rhythm(reads, path=folder / "note")
    other = stage.deed(reads, path=folder / "archive")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.who.pid)])


def two_with_one_file(path, flag):
    """A program and its child, which have a file open together, and so one position in it."""
    film = os.open(path, os.O_RDONLY)
    child = os.fork()
    if not child:
        actor.name_process("decoder")
        while os.getppid() != 1:
            if told(flag):
                os.read(film, 4096)
            time.sleep(0.01)
        os._exit(0)

    def show_position():
        os.lseek(film, 0, os.SEEK_CUR)

    return show_position, {"decoder": child}


@hang("a file's position", [rf"fetch_block|serve_drive|show_position|lseek|fdget_pos|fuse_|request_wait|{SLEEPS}"], lock=True)
def shared_file_position(stage):
    """A process reads from a slow file system, and has the lock of the file's position meanwhile; another
    one that shares the file only wants to know that."""
    server, folder = drive(stage)
    flag = stage.folder / "read"
    program = stage.rhythm(two_with_one_file, path=folder / "film", flag=flag)
    with stage.recording(after=2.5):
        flag.touch()
    decoder = Who(program.facts["decoder"])
    return program.truth(culprits=[Who(server.who.pid)], others=[decoder])


def leaving(port, path):
    """A browser that closes its connection, so that others have their turn."""
    visit = browse(port, path)
    return lambda: visit() and None


def small_server(port):
    """A web server that makes one page after the other, and computes a little for one of them."""

    def make_report():
        end = time.thread_time() + 0.13
        while time.thread_time() < end:
            pass

    def answer(path):
        if path == "/report":
            make_report()
        return b"page"

    web.serve(port, answer)
    return ticking()


@hang("a control group", [])
def quota_of_server(stage):
    """A server has used up the quota of its control group, and its clients wait."""
    folder, path = quota_group(stage)
    port = free_port()
    server = stage.actor("deed", small_server, port=port)
    until("the server", lambda: connects(port))
    client = stage.rhythm(browse, port=port, path="/page")
    other = stage.deed(leaving, port=port, path="/report")
    (folder / "cgroup.procs").write_text(str(server.who.pid))
    with stage.recording(after=2):
        other.go()
        other.result()
    truth = client.truth(quota=path, others=[Who(server.who.pid)])
    stage.end(server.process)
    return truth
