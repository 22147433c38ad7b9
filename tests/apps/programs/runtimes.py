"""What languages and their libraries keep: locks of imports, of classes, of maps and of files of the C
library, pools that are full, pipes that are, a garbage collector's pause, a deadlock."""

import asyncio
import importlib
import multiprocessing.managers
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

import web
from actor import told
from hang import Missing, Truth, Who, hang
from programs.channels import user_at_terminal
from programs.kernel import SECONDS, ticking
from programs.native import (
    NAME_SERVER,
    RESOLVER,
    SOURCES,
    Program,
    collector,
    compiled,
    name_server,
    rust,
)
from programs.node import writes_late
from programs.python import COMPUTES, validate_input
from programs.servers import SLEEPS, browse
from programs.storage import mounted
from programs.tokio import send
from stage import connects, free_port, thread_of, until

# A module that asks for something when it is imported, as some do.
RATES = """
import pathlib, sys, time

def fetch_rates():
    pathlib.Path({begun!r}).touch()
    time.sleep(1.2)
    return 108

rate = fetch_rates()
"""


def importing_lately(folder, flag, begun):
    """A program whose functions import a module only when they need it."""
    sys.path.insert(0, folder)

    def convert_report():
        while True:
            if told(flag):
                importlib.import_module("exchange_rates")
            time.sleep(0.01)

    other = threading.Thread(target=convert_report, daemon=True, name="report")
    other.start()

    def convert_price():
        if os.path.exists(begun):
            import exchange_rates

            return exchange_rates.rate

    return convert_price, {"report": other.native_id}


IMPORT = rf"fetch_rates|convert_(report|price)|_ModuleLock|_lock_unlock_module|_find_and_load|import|{SLEEPS}"


@hang("Python", [IMPORT], lock=True)
def python_import_lock(stage):
    """A thread imports a module that asks a service meanwhile, and another thread imports it, too."""
    folder, begun, flag = stage.subfolder("modules"), stage.folder / "begun", stage.folder / "now"
    (folder / "exchange_rates.py").write_text(RATES.format(begun=str(begun)))
    program = stage.rhythm(importing_lately, folder=folder, flag=flag, begun=begun)
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=[Who(program.who.pid, program.facts["report"], "report")])


def warehouse(port):
    """A service far away, which answers late."""
    listener = socket.create_server(("127.0.0.1", port))

    def count_stock(connection):
        for _ in connection.makefile("rb"):
            time.sleep(SECONDS)
            connection.sendall(b"7\n")

    def accept_questions():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=count_stock, args=(connection,), daemon=True).start()

    threading.Thread(target=accept_questions, daemon=True).start()
    return ticking()


def ask_warehouse(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"how many\n")
        connection.recv(100)


def asyncio_shop(port, behind, page):
    """A server that never blocks: what could, it has threads do (asyncio.to_thread)."""

    def read_page():
        return pathlib.Path(page).read_bytes()

    async def serve(reader, writer):
        while line := await reader.readline():
            if line == b"stock\n":
                await asyncio.to_thread(ask_warehouse, behind)
            writer.write(await asyncio.to_thread(read_page))

    async def run():
        async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
            await server.serve_forever()

    threading.Thread(target=asyncio.run, args=(run(),), daemon=True, name="loop").start()
    return ticking()


def crowd(port, people):
    """Customers who all ask for the same at once."""

    def ask_for_stock():
        lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(people)]
        for line in lines:
            line.sendall(b"stock\n")
        for line in lines:
            line.recv(100)
            line.close()

    return ask_for_stock


@hang("Python", [rf"count_stock|ask_warehouse|sock_recv|{SLEEPS}"])
def python_executor_full(stage):
    """All threads of the default executor wait for a slow service, and a page cannot be read."""
    port, behind, page = free_port(), free_port(), stage.folder / "page"
    page.write_text("page\n")
    service = stage.actor("deed", warehouse, port=behind)
    server = stage.actor("deed", asyncio_shop, port=port, behind=behind, page=page)
    until("the server", lambda: connects(port))
    client = stage.rhythm(send, port=port, line="page")
    # As many threads as a default executor has.
    other = stage.deed(crowd, port=port, people=min(32, (os.cpu_count() or 1) + 4))
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(service.who.pid)], others=[Who(server.who.pid)])


def converting(flag):
    """A program that waits for its converter's end, and reads what it printed afterwards. One document is
    longer than a pipe; after a while the program gives up, and ends the converter."""

    def convert_document():
        length = 200_000 if told(flag) else 2_000
        command = ["head", "-c", str(length), "/dev/zero"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        give_up = threading.Timer(SECONDS, process.kill)
        give_up.start()
        process.wait()
        give_up.cancel()
        process.stdout.read()
        process.stdout.close()
        return process.pid

    return convert_document


@hang("Python", [r"convert_document|subprocess|\bwait\b|waitpid|wait4|full_write|xwrite|fwrite|pipe_write"])
def python_pipe_deadlock(stage):
    """A program waits for the end of a command, which waits until somebody reads what it prints. Each
    is to blame for the other."""
    flag = stage.folder / "long"
    program = stage.rhythm(converting, flag=flag)
    with stage.recording(after=2.5):
        flag.touch()
    longest = program.longest()
    both = [Who(longest["result"]), program.who]
    return Truth(program.who, longest["from"], longest["to"], both)


class Catalogue:
    """What the processes of a program share."""

    def price(self):
        return 7

    def check_articles(self):
        validate_input()


class Sharing(multiprocessing.managers.BaseManager):
    """The manager of `multiprocessing`."""


Sharing.register("catalogue", Catalogue)


def manager(port):
    """The manager's process, which has a thread for each of the others."""
    server = Sharing(("127.0.0.1", port), b"secret").get_server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return ticking()


def sharing(port, method):
    """A process that calls a method of what is shared."""
    remote = Sharing(("127.0.0.1", port), b"secret")
    remote.connect()
    catalogue = remote.catalogue()

    def call_catalogue():
        catalogue._callmethod(method)

    return call_catalogue


@hang("Python multiprocessing", [COMPUTES, r"check_articles|take_gil|serve_client"], lock=True)
def python_manager(stage):
    """A manager computes for one process, and its thread for another one gets the interpreter lock only
    when that is done."""
    port = free_port()
    server = stage.actor("deed", manager, port=port)
    until("the manager", lambda: connects(port))
    client = stage.rhythm(sharing, port=port, method="price")
    other = stage.deed(sharing, port=port, method="check_articles")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.who.pid)])


def java(stage, name, *options):
    """A program of `sources/native` in Java that measures itself, and the flag that has it hang."""
    classes, flag = stage.subfolder("classes"), stage.folder / "now"
    stage.run("javac", "-d", classes, SOURCES / f"{name}.java")
    return Program(stage, "java", *options, "-cp", classes, name, flag), flag


JAVA = ["java", "javac"]
INITIALIZER = r"loadTariffs|Tariffs|<clinit>|quotePrice|Thread\.sleep|JVM_Sleep|InstanceKlass|initialize_impl"


@hang("Java", [INITIALIZER], needs=JAVA)
def java_class_initializer(stage):
    """A thread is in a class's static initializer, which takes long, and another one needs the class."""
    program, flag = java(stage, "Quotes")
    victim, first = (thread_of(program.pid, name) for name in ("heartbeat", "first-order"))
    with stage.recording():
        program.hang(flag)
    return program.truth([first], victim=victim)


BOTH_LOCKS = r"transferMoney|refundMoney|\bdeposit|ReentrantLock|AbstractQueued|LockSupport|\b[pP]ark"


@hang("Java", [BOTH_LOCKS], lock=True, needs=JAVA)
def java_deadlock(stage):
    """Two threads lock each other out until one of them gives up (tryLock); a third one needs one of
    their locks, and has no part in that."""
    program, flag = java(stage, "Transfers")
    names = "heartbeat", "transfer", "refund"
    victim, *both = (thread_of(program.pid, name) for name in names)
    with stage.recording():
        program.hang(flag)
    return program.truth(both, victim=victim)


DUMP = r"(?i)heap_?dump|DumpWriter|DumperSupport|DumpMerger|object_iterate|ObjectIterate|heap_inspection"


@hang("Java", [DUMP], needs=[*JAVA, "jcmd"])
def java_heap_dump(stage):
    """Somebody has a heap dump written, and all threads are stopped meanwhile (a safepoint)."""
    memory = mounted(stage, "memory", "-t", "tmpfs", "-o", "size=3g", "tmpfs")
    program, _ = java(stage, "Sessions", "-Xmx2g", "-XX:+UseSerialGC")
    victim, dumping = (thread_of(program.pid, name) for name in ("heartbeat", "VM Thread"))
    with stage.recording():
        somebody = stage.start("jcmd", program.pid, "GC.heap_dump", "-all", memory / "heap")
        somebody.wait()
        until("the hang", program.longest)
    return program.truth([dumping, Who(somebody.pid)], [thread_of(program.pid, "Attach Listener")], victim)


GO_LOG = rf"collect_lines|\blog\.|main\.\w+|syscall\.write|internal/poll|os\.\(\*File\)\.Write|{SLEEPS}"


@hang("Go", [GO_LOG], needs=["go"])
def go_log_pipe(stage):
    """Nobody reads a server's log, so a goroutine waits with the logger's lock."""
    source, binary = SOURCES / "access.go", stage.tools / "go-access"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        stage.run("go", "build", "-o", binary, source, env=os.environ | {"GO111MODULE": "off"})
    port, log, flag = free_port(), stage.folder / "access.log", stage.folder / "think"
    os.mkfifo(log)
    reader = stage.actor("deed", collector, path=log, flag=flag, seconds=SECONDS + 0.3)
    server = stage.start("sh", "-c", f"exec {binary} {port} 2>{log}")
    until("the server", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/price")
    with stage.recording(after=3):
        flag.touch()
    return client.truth(culprits=[Who(reader.who.pid)], others=[Who(server.pid)])


NODE_NAMES = ["--perf-basic-prof", "--interpreted-frames-native-stack"]


def node(stage, name, before="", after=""):
    """A server of `sources/native` in JavaScript, which a shell starts; its process and its port."""
    port = free_port()
    command = f"{before} exec node {' '.join(NODE_NAMES)} {SOURCES / name} {port} {after}"
    server = stage.start("unshare", "--mount", "sh", "-c", command)
    until("Node.js", lambda: connects(port))
    return server, port


@hang("Node.js", [RESOLVER, r"uv__getaddrinfo|GetAddrInfo|uv__work|checkPartners"], needs=["node", "unshare"])
def node_dns_pool(stage):
    """As many threads of libuv's pool as may look names up ask a slow name server, and a name that needs
    none waits in their queue."""
    configuration, flag = stage.folder / "resolv.conf", stage.folder / "think"
    configuration.write_text(f"nameserver {NAME_SERVER}\noptions timeout:10 attempts:1\n")
    names = stage.actor("deed", name_server, flag=flag)
    at = os.path.realpath("/etc/resolv.conf")
    server, port = node(stage, "partners.js", f"mount --bind {configuration} {at};")
    client = stage.rhythm(web.get, port=port, path="/page")
    other = stage.deed(browse, port=port, path="/check")
    with stage.recording():
        flag.touch()
        other.go()
        other.result()
    return client.truth(culprits=[Who(names.who.pid)], others=[Who(server.pid)])


CONSOLE = rf"press_ctrl_s|logVisit|console|[wW]rite(v|String|Buffer|Utf8String)?\b|uv__|n_tty_write|{SLEEPS}"


@hang("Node.js", [CONSOLE], needs=["node", "unshare"])
def node_console(stage):
    """Somebody has stopped the output of the terminal that a server logs to (Ctrl-S), and to write there
    blocks the event loop."""
    emulator = stage.deed(user_at_terminal)
    server, port = node(stage, "visits.js", after=f">{emulator.facts['path']}")
    client = stage.rhythm(web.get, port=port, path="/page")
    with stage.recording():
        emulator.go()
        emulator.result()
    return client.truth(culprits=[Who(emulator.who.pid)], others=[Who(server.pid, server.pid)])


@hang("DashMap", [r"print_invoice|change_price|dashmap|RawRwLock|lock_exclusive|parking_lot"], lock=True, needs=["cargo"])
def rust_dashmap(stage):
    """A thread computes while it has a reference into a concurrent map, and another one cannot change
    an entry of that part (shard)."""
    flag = stage.folder / "now"
    program = Program(stage, rust(stage, "prices"), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread("printer")])


BLOCKING = rf"read_archive|spawn_blocking|blocking::(pool|task)|std::fs::|archives::|\bwrite\b|{SLEEPS}"


@hang("tokio", [BLOCKING], needs=["cargo"])
def tokio_blocking_pool(stage):
    """All threads for what blocks wait for an archive that comes late, and a task that only reads a file
    waits in their queue."""
    port, archive = free_port(), stage.folder / "archive"
    (stage.folder / "page").write_text("page\n")
    os.mkfifo(archive)
    server = stage.start(rust(stage, "archives"), port)
    until("the server", lambda: connects(port))
    client = stage.rhythm(send, port=port, line="page")
    others = [stage.deed(send, port=port, line="archive") for _ in range(2)]
    tape = stage.deed(writes_late, path=archive)
    with stage.recording():
        for each in (tape, *others):
            each.go()
        for each in (tape, *others):
            each.result()
    return client.truth(culprits=[tape.who], others=[Who(server.pid)])


def pilot(path, flag):
    """Who sends commands into a named pipe, a hundred a second, and none for a while."""

    def send_commands():
        with open(path, "wb", buffering=0) as pipe:
            while True:
                if told(flag):
                    time.sleep(SECONDS)
                pipe.write(b"left\n")
                time.sleep(0.01)

    threading.Thread(target=send_commands, daemon=True).start()
    return ticking()


STDIO = rf"send_commands|read_commands|save_state|getline|getdelim|\b_*IO_|fflush|flush_all|{SLEEPS}"


@hang("C", [STDIO], lock=True, needs=["cc"])
def c_flush_all(stage):
    """A thread waits for input in getline, and so has the lock of that file; another one flushes all
    files (fflush(NULL)), and waits for it."""
    pipe, flag = stage.folder / "commands", stage.folder / "think"
    os.mkfifo(pipe)
    source = stage.actor("deed", pilot, path=pipe, flag=flag)
    program = Program(stage, compiled(stage, "rover.c"), pipe)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(source.who.pid)], [program.thread("commands")])


QT = """
import pathlib, sys, threading, time
from PyQt5.QtCore import QObject, Qt, QThread, pyqtSignal
from PyQt5.QtWidgets import QApplication, QLabel
flag, end = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
slow = []

class Importer(QThread):
    progress = pyqtSignal(int)

    def run(self):
        print(threading.get_native_id(), flush=True)
        count = 0
        while not end.exists():
            began = time.monotonic_ns()
            self.report_progress(count)
            slow.append((time.monotonic_ns() - began, began, time.monotonic_ns()))
            count += 1
            time.sleep(0.02)
        print(*max(slow)[1:], flush=True)

    def report_progress(self, count):
        self.progress.emit(count)

class Window(QLabel):
    def show_progress(self, count):
        self.setText(str(count))
        if flag.exists():
            flag.unlink()
            self.load_preview()

    def load_preview(self):
        time.sleep(1.2)

application = QApplication(sys.argv)
window, importer = Window("0"), Importer()
window.show()
importer.progress.connect(window.show_progress, Qt.BlockingQueuedConnection)
importer.finished.connect(application.quit)
importer.start()
application.exec()
"""
QUEUED = rf"load_preview|show_progress|report_progress|QSemaphore|doActivate|QMetaObject|{SLEEPS}"


@hang("Qt", [QUEUED])
def qt_blocking_connection(stage):
    """A thread tells the window how far it is (BlockingQueuedConnection), and that does something else."""
    qt = ["/usr/bin/python3", "-c", "import PyQt5.QtWidgets"]
    if subprocess.run(qt, stderr=subprocess.DEVNULL, check=False).returncode:
        raise Missing("python3-pyqt5 is not installed")
    file, flag, end = (stage.folder / name for name in ("import.py", "slow", "end"))
    file.write_text(QT)
    environment = dict(os.environ, QT_QPA_PLATFORM="offscreen")
    process = stage.start(
        "/usr/bin/python3", file, flag, end, env=environment, stdout=subprocess.PIPE, text=True
    )
    worker = int(until("its thread", process.stdout.readline))
    with stage.recording(after=2.5):
        flag.touch()
    end.touch()
    began, ended = (int(each) for each in process.stdout.readline().split())
    return Truth(Who(process.pid, worker), began, ended, [Who(process.pid, process.pid)])
