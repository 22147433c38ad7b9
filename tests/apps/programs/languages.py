"""Programs in C, C++, Rust, Java, .NET, Go, Node.js, PHP, Perl, Ruby and Qt, which wait as their language lets
them."""

import os
import pathlib
import socket
import subprocess
import threading
import time

import web
from hang import DidNotHang, Missing, Truth, Who, hang
from programs.kernel import SECONDS, ticking
from programs.libraries import browse_bytes
from programs.native import Program, between_threads, compiled
from programs.python import COMPUTES
from programs.queues import behind_slow_page, pages
from programs.runtimes import NODE_NAMES
from programs.servers import SLEEPS, browse, customer
from stage import HERE, connects, free_port, thread_of, threads, until

SOURCES = HERE / "sources/assorted"


@hang("C", [r"mix_samples|play_block|\bmix\b|eventfd|\bpoll\b"], needs=["cc"])
def c_eventfd(stage):
    """A thread waits at an eventfd for another one, which computes."""
    return between_threads(stage, SOURCES / "mixer.c", "mixer")


@hang("C", [r"simulate_(storm|hour)|barrier"], needs=["cc"])
def c_barrier(stage):
    """A thread is the last one to come to a barrier, because it has far more to compute."""
    return between_threads(stage, SOURCES / "weather.c", "storm")


@hang("C", [r"read_pressure|move_valve|pthread_mutex|futex_lock_pi|nanosleep"], lock=True, needs=["cc"])
def c_inheriting_mutex(stage):
    """A thread asks a slow sensor with a mutex that inherits priorities, which the kernel has."""
    return between_threads(stage, SOURCES / "valve.c", "sensor")


@hang("the heap", [r"measure_memory|mallinfo|parse_request|\bmalloc\b|_int_(malloc|free)|lll_lock"], lock=True, needs=["cc"])
def heap_measured(stage):
    """A thread counts all free pieces of the heap (mallinfo2), and nobody can allocate meanwhile."""
    flag = stage.folder / "now"
    program = Program(stage, compiled(stage, SOURCES / "heap.c"), 14 + 7 * (stage.attempt - 1), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread("monitor")])


@hang("C++", [r"resize_picture|show_picture|Executor|future|_State_base|packaged_task"], needs=["c++"])
def cpp_future(stage):
    """The only thread of an executor has a big task, and main waits for the result of its own."""
    return between_threads(stage, SOURCES / "pictures.cpp", "executor", others=["importer"])


def rusty(stage, name):
    """A program of one file, which needs nothing but the standard library."""
    program = stage.folder / name
    options = ["-C", "opt-level=2", "-g", "--edition", "2021", "-o", program]
    stage.run("rustc", *options, SOURCES / f"{name}.rs", env=os.environ)
    return program


def rust_threads(stage, name, culprit):
    """A hang of its main thread, because of another one."""
    flag = stage.folder / "now"
    program = Program(stage, rusty(stage, name), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread(culprit)])


@hang("Rust", [r"reload_tariffs|quote_price|tariffs::|rwlock|RwLock"], lock=True, needs=["rustc"])
def rust_read_write_lock(stage):
    """A thread computes with a lock of the standard library for writing, and a reader waits."""
    return rust_threads(stage, "tariffs", "reloader")


@hang("Rust", [r"build_words|look_up_word|words::|OnceLock|once::|Once\b"], needs=["rustc"])
def rust_once_lock(stage):
    """A thread makes what both need once (OnceLock), and the other one waits for that."""
    return rust_threads(stage, "words", "first")


@hang("Rust", [r"encode_frame|frames::|mpsc|mpmc|SyncSender|Receiver"], needs=["rustc"])
def rust_sync_channel(stage):
    """Who receives computes, so a channel (sync_channel) is full, and who sends waits."""
    return rust_threads(stage, "frames", "encoder")


def java_classes(stage, name):
    """Compiles a program in Java; its folder."""
    classes = stage.subfolder("classes")
    stage.run("javac", "-d", classes, SOURCES / "Beat.java", SOURCES / f"{name}.java")
    return classes


def java(stage, name, *arguments, options=()):
    """A program in Java that measures itself."""
    return Program(stage, "java", *options, "-cp", java_classes(stage, name), name, *arguments)


JAVA = ["java", "javac"]
WAITS = r"LockSupport|\b[pP]ark\b|CompletableFuture|CountDownLatch|AbstractQueued|ForkJoinPool|Unsafe_Park"


@hang("Java", [rf"fetchReview|showPrice|Thread\.sleep|JVM_Sleep|{WAITS}"], needs=JAVA)
def java_common_pool(stage):
    """Calls that block have all threads of the common pool (CompletableFuture.supplyAsync)."""
    flag = stage.folder / "now"
    two = ["-Djava.util.concurrent.ForkJoinPool.common.parallelism=2"]
    program = java(stage, "Reviews", flag, options=two)
    names = {}
    for task in pathlib.Path(f"/proc/{program.pid}/task").iterdir():
        names[int(task.name)] = (task / "comm").read_text().strip()
    pool = [Who(program.pid, tid, name) for tid, name in names.items() if name.startswith("ForkJoin")]
    if len(pool) != 2:
        raise DidNotHang(f"the pool has {len(pool)} threads")
    victim = thread_of(program.pid, "heartbeat")
    with stage.recording():
        program.hang(flag)
    return program.truth(pool, victim=victim)


@hang("Java", [r"fetchPlugin|PluginLoader|updatePlugins|runCommand|loadClass|findClass|Thread\.sleep|JVM_Sleep|ObjectMonitor"], lock=True, needs=JAVA)
def java_class_loader(stage):
    """A class loader fetches a class with its lock, and nobody else can load any."""
    flag = stage.folder / "now"
    program = java(stage, "Plugins", flag)
    victim, updater = (thread_of(program.pid, name) for name in ("heartbeat", "updater"))
    with stage.recording():
        program.hang(flag)
    return program.truth([updater], victim=victim)


@hang("Java", [r"renderReport|Reports|\banswer\b|doFilter|Math\.sqrt"], needs=JAVA)
def java_http_server(stage):
    """The web server of the JDK makes a long page in the thread that dispatches."""
    port = free_port()
    server = stage.start("java", "-cp", java_classes(stage, "Reports"), "Reports", port)
    until("the server", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/page")
    other = stage.deed(web.get, port=port, path="/report")
    dispatcher = thread_of(server.pid, "HTTP-Dispatcher")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[dispatcher])


def restaurant(port):
    """A service that takes long for one of its questions."""
    listener = socket.create_server(("127.0.0.1", port))

    def count_guests():
        time.sleep(SECONDS)

    def answer_questions():
        connection, _ = listener.accept()
        for line in connection.makefile("rb"):
            if line == b"report\n":
                count_guests()
            connection.sendall(b"7\n")

    threading.Thread(target=answer_questions, daemon=True).start()
    return ticking()


@hang("Java", [rf"count_guests|makeNightReport|Connection|bookTable|BlockingQueue|{WAITS}|{SLEEPS}"], needs=JAVA)
def java_connection_pool(stage):
    """A thread asks a slow service over the only connection of a pool, and another one waits for that."""
    port, flag = free_port(), stage.folder / "now"
    service = stage.actor("deed", restaurant, port=port)
    program = java(stage, "Bookings", port, flag)
    victim, report = (thread_of(program.pid, name) for name in ("heartbeat", "night-report"))
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(service.who.pid)], [report], victim)


@hang("Mono", [r"SendMail|ShowPrice|ThreadPool|Sleep|Task"], needs=["mono", "mcs"])
def mono_thread_pool(stage):
    """Calls that block have all threads of .NET's pool, and a task waits in its queue."""
    program, flag, tids = stage.folder / "mails.exe", stage.folder / "now", stage.folder / "tids"
    stage.run("mcs", f"-out:{program}", SOURCES / "Mails.cs")
    mails = Program(stage, "mono", "--jitmap", program, flag, tids)
    stage.closing.callback(pathlib.Path(f"/tmp/perf-{mails.pid}.map").unlink, missing_ok=True)
    victim = thread_of(mails.pid, "heartbeat")
    with stage.recording():
        mails.hang(flag)
    return mails.truth([Who(mails.pid, int(tid)) for tid in tids.read_text().split()], victim=victim)


def go_server(stage, name, *arguments, folder=SOURCES, **settings):
    """Builds a server in Go, and starts it; its process and its port."""
    binary, port = stage.folder / name, free_port()
    environment = os.environ | {"GO111MODULE": "off"}
    stage.run("go", "build", "-o", binary, folder / f"{name}.go", env=environment)
    server = stage.start(binary, port, *arguments, env=os.environ | settings)
    until("the server", lambda: connects(port))
    return server, port


@hang("Go", [r"main\.(exportPrices|updatePrice|showPrice)|sha256|RWMutex"], needs=["go"])
def go_read_write_mutex(stage):
    """A goroutine computes as a reader (sync.RWMutex), a writer waits, and all other readers behind it."""
    server, port = go_server(stage, "prices")
    client = stage.rhythm(web.get, port=port, path="/price")
    export, update = (stage.deed(web.get, port=port, path=path) for path in ("/export", "/update"))
    with stage.recording():
        export.go()
        time.sleep(0.1)
        update.go()
        export.result()
        update.result()
    return client.truth(culprits=[Who(server.pid)])


@hang("Go", [r"main\.countPrimes"], needs=["go"])
def go_one_processor(stage):
    """A loop that the runtime does not interrupt has the only processor (GOMAXPROCS=1)."""
    server, port = go_server(stage, "primes", GODEBUG="asyncpreemptoff=1", GOMAXPROCS="1")
    client = stage.rhythm(web.get, port=port, path="/page")
    other = stage.deed(web.get, port=port, path="/count")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid)])


@hang("Go", [r"main\.countPrimes|stopTheWorld|gcStart|runtime\.GC|gcWaitOnMark|\bsuspendG\b"], needs=["go"])
def go_stop_the_world(stage):
    """The garbage collector stops the world, and waits for a loop that it cannot interrupt."""
    server, port = go_server(stage, "primes", GODEBUG="asyncpreemptoff=1", GOMAXPROCS="2")
    client = stage.rhythm(web.get, port=port, path="/page")
    other, collect = (stage.deed(web.get, port=port, path=path) for path in ("/count", "/collect"))
    with stage.recording():
        other.go()
        time.sleep(0.1)
        collect.go()
        other.result()
        collect.result()
    return client.truth(culprits=[Who(server.pid)])


@hang("Go", [r"sign_document|main\.stamp|cgocall"], needs=["go", "cc"])
def go_calls_c(stage):
    """A goroutine computes in a library in C, with a mutex that others need."""
    server, port = go_server(stage, "stamps")
    client = stage.rhythm(web.get, port=port, path="/letter")
    other = stage.deed(web.get, port=port, path="/book")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid)])


@hang("Go", [COMPUTES, r"\banswer\b"], needs=["go"])
def go_gateway(stage):
    """A gateway has one connection to the service behind it, which makes a slow page for somebody."""
    upstream = free_port()
    behind = stage.deed(pages, port=upstream)
    server, port = go_server(stage, "gateway", upstream)
    client = behind_slow_page(stage, port)
    return client.truth(culprits=[Who(behind.who.pid)], others=[Who(server.pid)])


def node(stage, name, *arguments):
    """A server in JavaScript, with names of functions; its process and its port."""
    port = free_port()
    server = stage.start("node", *NODE_NAMES, SOURCES / name, port, *arguments)
    until("Node.js", lambda: connects(port))
    return server, port


def node_page(stage, path):
    """A hang of the event loop, because of somebody else's page."""
    server, port = node(stage, "shop.js")
    client = stage.rhythm(web.get, port=port, path="/page")
    other = stage.deed(browse_bytes, port=port, path=path)
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid, server.pid)])


@hang("Node.js", [r"exportOrders|(?i:deflate|gzip|zlib|longest_match|compress|fill_window|crc32|slide_hash)"], needs=["node"])
def node_gzip(stage):
    """The event loop compresses a large page (gzipSync)."""
    return node_page(stage, "/export")


@hang("Node.js", [r"sumOrders|addOrder|Microtask|Promise|Await|AsyncFunction"], needs=["node"])
def node_microtasks(stage):
    """A function awaits, again and again, what is there already: nothing else gets its turn."""
    return node_page(stage, "/sum")


@hang("Node.js", [COMPUTES, r"\banswer\b"], needs=["node"])
def node_agent_sockets(stage):
    """A gateway has one connection to the service behind it (maxSockets), which makes a slow page."""
    upstream = free_port()
    behind = stage.deed(pages, port=upstream)
    server, port = node(stage, "gateway.js", upstream)
    client = behind_slow_page(stage, port)
    return client.truth(culprits=[Who(behind.who.pid)], others=[Who(server.pid, server.pid)])


@hang("PHP", [], needs=["php"])
def php_builtin_server(stage):
    """PHP's own web server, which has one process, makes a long page."""
    port = free_port()
    server = stage.start("php", "-S", f"127.0.0.1:{port}", SOURCES / "page.php")
    until("PHP", lambda: connects(port))
    client = stage.rhythm(browse, port=port, path="/page")
    other = stage.deed(browse, port=port, path="/report")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid)])


@hang("Perl", [r"Perl_|sortsv|mergesort|sortcv|sv_cmp|sort_orders"], needs=["perl"])
def perl_sort(stage):
    """A server in one process sorts for somebody."""
    port = free_port()
    server = stage.start("perl", SOURCES / "till.pl", port)
    until("Perl", lambda: connects(port))
    client = stage.rhythm(customer, port=port, question="price")
    other = stage.deed(customer, port=port, question="report")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid)])


@hang("Ruby", [r"print_label|order_label|rb_f_sleep|sleep_hrtime|szqueue|rb_szqueue|queue_"], needs=["ruby"])
def ruby_sized_queue(stage):
    """A thread sleeps, so a queue (SizedQueue) is full, and a thread that pushes waits."""
    port = free_port()
    server = stage.start("ruby", SOURCES / "labels.rb", port)
    until("Ruby", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/label")
    other = stage.deed(browse, port=port, path="/big")
    with stage.recording(after=2.5):
        other.go()
        printer = Who(server.pid, int(other.result()["result"]))
    others = [who for who in threads(server.pid) if who != printer]
    return client.truth(culprits=[printer], others=[Who(server.pid, server.pid), *others])


QT = """
import pathlib, sys, threading, time
from PyQt5.QtCore import QThread, QTimer
from PyQt5.QtWidgets import QApplication, QLabel
flag, end = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
slow = []

class Scanner(QThread):
    def run(self):
        print(threading.get_native_id(), flush=True)
        while not self.isInterruptionRequested():
            self.scan_folder()

    def scan_folder(self):
        time.sleep(1.5)

class Window(QLabel):
    def show_progress(self):
        began = time.monotonic_ns()
        if flag.exists():
            flag.unlink()
            self.stop_scan()
        self.setText(str(began))
        slow.append((time.monotonic_ns() - began, began, time.monotonic_ns()))
        if end.exists():
            print(*max(slow)[1:], flush=True)
            application.quit()

    def stop_scan(self):
        scanner.requestInterruption()
        scanner.wait()

application = QApplication(sys.argv)
window, scanner, timer = Window("0"), Scanner(), QTimer()
window.show()
scanner.start()
timer.timeout.connect(window.show_progress)
timer.start(20)
application.exec()
"""


@hang("Qt", [rf"scan_folder|stop_scan|show_progress|QThread|QWaitCondition|{SLEEPS}"])
def qt_waits_for_thread(stage):
    """A window waits for the end of a thread (QThread.wait), which looks late whether it is to end."""
    qt = ["/usr/bin/python3", "-c", "import PyQt5.QtWidgets"]
    if subprocess.run(qt, stderr=subprocess.DEVNULL, check=False).returncode:
        raise Missing("python3-pyqt5 is not installed")
    file, flag, end = (stage.folder / name for name in ("scan.py", "slow", "end"))
    file.write_text(QT)
    environment = dict(os.environ, QT_QPA_PLATFORM="offscreen")
    process = stage.start(
        "/usr/bin/python3", file, flag, end, env=environment, stdout=subprocess.PIPE, text=True
    )
    scanner = Who(process.pid, int(until("its thread", process.stdout.readline)))
    began = time.monotonic()
    with stage.recording(after=2.5):
        # Just after a scan has begun.
        time.sleep(1.7 - (time.monotonic() - began) % 1.5)
        flag.touch()
    end.touch()
    began, ended = (int(each) for each in process.stdout.readline().split())
    return Truth(Who(process.pid, process.pid), began, ended, [scanner])
