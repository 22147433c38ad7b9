"""Programs in C, C++, Rust, Go, Java, JavaScript, Tcl and Python that hang within a library: a lock of
the loader, of the memory map or of a database, a full queue, a busy pool, a slow name server.

Most of them measure themselves: see `Program`, and `sources/native/beat.h`.
"""

import contextlib
import ctypes
import json
import logging
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time

import web
from actor import told
from hang import DidNotHang, Missing, Truth, Who, hang
from programs.desktop import screen
from programs.kernel import SECONDS, ticking
from programs.queues import behind_slow_page
from programs.shell import LZMA, numbers
from stage import HERE, children, connects, free_port, thread_of, threads, until

SOURCES = HERE / "sources/native"
# A shorter operation is not the hang that was to be.
LONG_NS = 400_000_000


class Program:
    """A program that measures itself. The first line that it prints is a JSON object: the threads or
    processes that have a part in its hang. Each further one is an operation of 100 ms or more."""

    def __init__(self, stage, *argv, time_of_day=False, **options):
        self.stage = stage
        self.time_of_day = time_of_day
        self.process = stage.start(*argv, stdout=subprocess.PIPE, text=True, **options)
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        if not line:
            raise DidNotHang(f"{argv[0]} ended")
        self.facts = json.loads(line)
        self.slow = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Collects the slow operations, until the program ends."""
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                ahead = time.time_ns() - time.monotonic_ns() if self.time_of_day else 0
                span = json.loads(line)
                self.slow.append((span["from"] - ahead, span["to"] - ahead))

    def thread(self, name):
        return Who(self.pid, self.facts[name], name)

    def longest(self):
        """The longest operation in the recording, if it was a hang."""
        began = self.stage.recording_from_ns
        long = [span for span in self.slow if span[0] >= began and span[1] - span[0] >= LONG_NS]
        return max(long, key=lambda span: span[1] - span[0], default=None)

    def hang(self, flag):
        """Has it hang, and waits for the end of that."""
        flag.touch()
        until("the hang", self.longest)

    def truth(self, culprits, others=(), victim=None):
        began, ended = self.longest()
        return Truth(victim or self.thread("victim"), began, ended, culprits, list(others))


def compiled(stage, name, *options):
    """A program of `sources/native` in C or C++, compiled as distributions do."""
    source, program = SOURCES / name, stage.folder / pathlib.Path(name).stem
    compiler = "cc" if source.suffix == ".c" else "c++"
    stage.run(compiler, "-O2", "-g", "-pthread", "-o", program, source, *options)
    return program


def header(name, package):
    """Raises if a library cannot be compiled with."""
    if not pathlib.Path("/usr/include", name).exists():
        raise Missing(f"{package} is not installed")


def between_threads(stage, source, culprit, *options, others=()):
    """A hang of a program in C or C++, whose thread `culprit` keeps its main thread waiting."""
    flag = stage.folder / "now"
    program = Program(stage, compiled(stage, source, *options), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread(culprit)], [program.thread(name) for name in others])


@hang("LMDB", [r"\bmdb_|import_catalogue|ask_supplier|record_sale"], lock=True, needs=["cc"])
def lmdb_writer(stage):
    """A process asks a supplier in the midst of a transaction, and another one cannot write: the mutex
    is in shared memory."""
    header("lmdb.h", "liblmdb-dev")
    flag = stage.folder / "now"
    shop = compiled(stage, "shop.c", "-llmdb")
    program = Program(stage, shop, stage.subfolder("articles"), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(program.facts["importer"])])


@hang("C", [r"export_routes|look_up_route|update_route"], lock=True, needs=["cc"])
def c_reader_behind_writer(stage):
    """A reader computes, a writer waits for it, and all other readers wait behind the writer."""
    return between_threads(stage, "routes.c", "exporter", others=["updater"])


@hang("C", [r"decode_frame|decode_film|show_frame"], needs=["cc"])
def c_shared_semaphore(stage):
    """A player waits at a semaphore in shared memory for a process that decodes a big frame."""
    flag = stage.folder / "now"
    program = Program(stage, compiled(stage, "player.c"), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(program.facts["decoder"])])


@hang("OpenMP", [r"shade_row|\brender\b|\bGOMP_|\bgomp_"], needs=["cc"])
def openmp_imbalance(stage):
    """One thread of a parallel loop has the one expensive row; the other one waits at the end."""
    return between_threads(stage, "render.c", "helper", "-fopenmp")


LOADER = r"build_tables|load_plugin|call_handler|\b_*dl(open|sym)\b|\b_dl_"


@hang("the dynamic loader", [LOADER], lock=True, needs=["cc"])
def loader_lock(stage):
    """A plugin computes in its constructor, so that no other thread can look a name up (dlsym)."""
    plugin, flag = stage.folder / "plugin.so", stage.folder / "now"
    stage.run("cc", "-O2", "-g", "-shared", "-fPIC", "-o", plugin, SOURCES / "plugin.c")
    program = Program(stage, compiled(stage, "plugins.c", "-rdynamic", "-ldl"), plugin, flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread("loader")])


@hang("the memory map", [r"load_cache|use_buffer|mmap|munmap|populate"], lock=True, needs=["cc"])
def memory_map_lock(stage):
    """The kernel fills a big cache (MAP_POPULATE), and no other thread can map anything meanwhile."""
    return between_threads(stage, "cache.c", "loader")


@hang("C++", [r"load_words|Dictionary|dictionary|check_spelling|__cxa_guard"], needs=["c++"])
def cpp_static_variable(stage):
    """A thread computes the first value of a static variable, and another one needs it."""
    return between_threads(stage, "spelling.cpp", "loader")


def collector(path, flag, seconds=SECONDS):
    """Who collects the lines of a log from a named pipe, and stops to think."""

    def collect_lines():
        with open(path, "rb", buffering=0) as pipe:
            while pipe.read(65536):
                if told(flag):
                    time.sleep(seconds)

    threading.Thread(target=collect_lines, daemon=True).start()
    return ticking()


@hang("spdlog", [r"spdlog::|record_payment|collect_lines"], needs=["c++", "pkg-config"])
def spdlog_full_queue(stage):
    """Nobody reads the log, so the logger's thread waits, its queue is full, and who logs waits."""
    header("spdlog/spdlog.h", "libspdlog-dev")
    flags = stage.run("pkg-config", "--cflags", "--libs", "spdlog").split()
    payments = compiled(stage, "payments.cpp", *flags)
    log, flag = stage.folder / "audit.log", stage.folder / "think"
    os.mkfifo(log)
    # The pipe and the queue fill for the first quarter of a second.
    reader = stage.actor("deed", collector, path=log, flag=flag, seconds=SECONDS + 0.4)
    program = Program(stage, payments, log)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(reader.who.pid)], threads(program.pid))


def rust(stage, name):
    """A program of `sources/native/rust`. Cargo builds them once, from a copy: it may write there."""
    source = shutil.copytree(SOURCES / "rust", stage.tools / "native-rust", dirs_exist_ok=True)
    manifest, target = source / "Cargo.toml", source / "target"
    options = ["--quiet", "--release", "--manifest-path", manifest, "--target-dir", target]
    stage.run("cargo", "build", *options, env=os.environ)
    return target / "release" / name


@hang("parking_lot", [r"merge_segments|segments::|parking_lot"], lock=True, needs=["cargo"])
def parking_lot_mutex(stage):
    """A thread computes with a mutex of parking_lot, whose futex is not the mutex."""
    flag = stage.folder / "now"
    program = Program(stage, rust(stage, "segments"), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread("compactor")])


@hang("rayon", [r"retry_upload|make_thumbnail|thumbnails::|rayon"], needs=["cargo"])
def rayon_blocked_pool(stage):
    """Jobs that sleep have all threads of a pool, which is for those that compute."""
    flag = stage.folder / "now"
    program = Program(stage, rust(stage, "thumbnails"), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(program.pid, tid) for tid in program.facts["workers"]])


@hang("Tk", LZMA, needs=["wish", "Xvfb", "xz"])
def tk_runs_command(stage):
    """A button's callback runs a command and waits for it, so the window is dead."""
    picture, flag = numbers(stage, 170_000), stage.folder / "now"
    program = Program(
        *(stage, "wish", SOURCES / "picture.tcl", flag, picture),
        time_of_day=True,
        env=os.environ | {"DISPLAY": screen(stage)[1]},
    )
    with stage.recording():
        flag.touch()
        culprits = until("the command", lambda: children(program.pid))
        until("the hang", program.longest)
    return program.truth(culprits, victim=Who(program.pid, program.pid, "wish"))


NAME_SERVER = "127.77.0.53"
# From <sched.h> and <sys/mount.h>.
CLONE_NEWNS, MS_BIND, MS_PRIVATE = 0x20000, 0x1000, 0x4000 | 0x40000


def looking_up(configuration):
    """A program that looks its database's address up for each connection. It sees a resolv.conf of
    its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    at = os.path.realpath("/etc/resolv.conf").encode()
    failed = (
        libc.unshare(CLONE_NEWNS)
        or libc.mount(b"none", b"/", None, MS_PRIVATE, None)
        or libc.mount(configuration.encode(), at, None, MS_BIND, None)
    )
    if failed:
        raise OSError(ctypes.get_errno(), "no resolv.conf of its own")

    def look_up_host():
        socket.getaddrinfo("database.example", 5432, socket.AF_INET, socket.SOCK_STREAM)

    return look_up_host


def name_server(flag):
    """A server for DNS that knows one address, and is slow once."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((NAME_SERVER, 53))
    address = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\0\0\x01"

    def answer_queries():
        while True:
            query, client = sock.recvfrom(512)
            if told(flag):
                time.sleep(SECONDS)
            question = query[12 : query.index(b"\0", 12) + 5]
            counts = b"\x81\x80\0\x01\0\x01\0\0\0\0"
            sock.sendto(query[:2] + counts + question + address, client)

    threading.Thread(target=answer_queries, daemon=True).start()
    return ticking()


RESOLVER = r"answer_queries|look_up_host|getaddrinfo|gethostbyname|res_\w*(search|query|send)|send_dg"


@hang("DNS", [RESOLVER])
def slow_name_server(stage):
    """A name server answers late, and getaddrinfo waits for it."""
    configuration, flag = stage.folder / "resolv.conf", stage.folder / "think"
    configuration.write_text(f"nameserver {NAME_SERVER}\noptions timeout:10 attempts:1\n")
    server = stage.actor("deed", name_server, flag=flag)
    program = stage.rhythm(looking_up, configuration=configuration)
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=[Who(server.who.pid)])


def rates_service(port, flag):
    """A service that tells exchange rates, and is slow once."""
    listener = socket.create_server(("127.0.0.1", port))

    def send_rates():
        connection, _ = listener.accept()
        for _ in connection.makefile("rb"):
            if told(flag):
                time.sleep(SECONDS)
            connection.sendall(b"1.08\n")

    threading.Thread(target=send_rates, daemon=True).start()
    return ticking()


CACHE = r"send_rates|loadRates|convert|beginDay|computeIfAbsent|ConcurrentHashMap|ObjectMonitor"


@hang("Java", [CACHE], lock=True, needs=["java", "javac", "jcmd"])
def java_compute_if_absent(stage):
    """A thread asks a slow service for an entry of a ConcurrentHashMap, and another one needs it."""
    port, flag, slow = free_port(), stage.folder / "tuesday", stage.folder / "think"
    service = stage.actor("deed", rates_service, port=port, flag=slow)
    classes = stage.subfolder("classes")
    stage.run("javac", "-d", classes, SOURCES / "Rates.java")
    options = ["-XX:+PreserveFramePointer", "-cp", classes]
    program = Program(stage, "java", *options, "Rates", port, flag)
    stage.run("jcmd", program.pid, "Compiler.perfmap")
    victim, first = (thread_of(program.pid, name) for name in ("heartbeat", "new-day"))
    slow.touch()
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(service.who.pid)], [first], victim)


def downloading(port):
    """A browser on a bad line, which does not read what it asked for."""

    def download():
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            connection.connect(("127.0.0.1", port))
            connection.sendall(b"GET /export HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")
            connection.recv(65536)
            time.sleep(SECONDS)
            while connection.recv(1 << 20):
                pass

    return download


POOL = r"\bdownload\b|main\.(exportOrders|showOrder)|database/sql|sock_recv|time_sleep|pysleep"


@hang("Go", [POOL], needs=["go"])
def go_database_pool(stage):
    """The only connection to a database is in use until a slow client has read a page."""
    source, binary = SOURCES / "orders.go", stage.tools / "go-orders"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        stage.run("go", "build", "-o", binary, source, env=os.environ | {"GO111MODULE": "off"})
    port = free_port()
    server = stage.start(binary, port)
    until("the server", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/order")
    slow = stage.deed(downloading, port=port)
    with stage.recording():
        slow.go()
        slow.result()
    return client.truth(culprits=[slow.who], others=[Who(server.pid)])


FORMAT = r"format(Source|Sync)|Atomics|FutexEmulation"


@hang("Node.js workers", [FORMAT], needs=["node"])
def node_atomics_wait(stage):
    """The event loop waits for a worker thread (Atomics.wait), which computes."""
    names, port = ["--perf-basic-prof", "--interpreted-frames-native-stack"], free_port()
    server = Program(stage, "node", *names, SOURCES / "format.js", port)
    client = behind_slow_page(stage, port)
    loop = Who(server.pid, server.pid)
    return client.truth(culprits=[server.thread("worker")], others=[loop])


def logging_to_pipe(path, flag):
    """A program that logs to a pipe, as in a container. Another thread logs a big request once, more
    than the pipe can take."""
    logger = logging.getLogger("shop")
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.StreamHandler(open(path, "w")))

    def log_request():
        while True:
            if told(flag):
                logger.info("x" * (1 << 20))
            time.sleep(0.01)

    other = threading.Thread(target=log_request, daemon=True)
    other.start()

    def log_sale():
        logger.info("sold")

    return log_sale, {"other": other.native_id}


@hang("Python", [r"collect_lines|log_request|log_sale|logging|rlock_acquire"], lock=True)
def python_logging_pipe(stage):
    """Nobody reads the log, so a thread waits in a handler with its lock, and all others that log."""
    log, think, big = (stage.folder / name for name in ("log", "think", "big"))
    os.mkfifo(log)
    reader = stage.actor("deed", collector, path=log, flag=think)
    program = stage.rhythm(logging_to_pipe, path=log, flag=big)
    with stage.recording(after=2.5):
        think.touch()
        time.sleep(0.1)
        big.touch()
    other = Who(program.who.pid, program.facts["other"])
    return program.truth(culprits=[Who(reader.who.pid)], others=[other])
