"""Languages and libraries that no other module has: their mutexes, transactions, rendezvous, caches, pools of
one, and what one thread of theirs computes meanwhile."""

import os
import pathlib
import shutil
import threading
import time

import web
from actor import told
from hang import Missing, Who, hang
from programs.kernel import SECONDS
from programs.languages import JAVA, WAITS
from programs.languages import SOURCES as ASSORTED
from programs.libraries import package
from programs.native import Program, between_threads, compiled
from programs.node import writes_late
from programs.servers import SLEEPS, browse
from stage import HERE, connects, free_port, thread_of, threads, until

SOURCES = HERE / "sources/fresh"
# Where Debian has the libraries of Java.
JARS = pathlib.Path("/usr/share/java")


def jars(pattern, debian):
    """The path of all libraries of Java; raises if none of them is so called."""
    if not any(JARS.glob(pattern)):
        raise Missing(f"{debian} is not installed")
    return f"{JARS}/*"


def by_thread(stage, culprit, *argv, **options):
    """A hang of a program that measures itself, because of another thread of it."""
    flag = stage.folder / "now"
    program = Program(stage, *argv, flag, **options)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread(culprit)])


SHELVES = r"count_shelves|take_stock|\bsell\b|camlShelves|caml_\w*mutex|pthread_mutex"


@hang("OCaml", [SHELVES], lock=True, needs=["ocamlopt"])
def ocaml_mutex(stage):
    """A thread computes with a mutex, and main needs that for everything it sells."""
    source = shutil.copy(SOURCES / "shelves.ml", stage.folder)
    libraries = ["-I", "+unix", "-I", "+threads", "unix.cmxa", "threads.cmxa"]
    stage.run("ocamlopt", "-g", *libraries, source, "-o", stage.folder / "shelves")
    return by_thread(stage, "stocktaker", stage.folder / "shelves", time_of_day=True)


@hang("SBCL", [], lock=True, needs=["sbcl"])
def sbcl_mutex(stage):
    """A thread of Lisp computes with a mutex (with-mutex), which main needs, too."""
    program = ["sbcl", "--script", SOURCES / "ledger.lisp"]
    return by_thread(stage, "teller", *program, time_of_day=True)


@hang("Ada", [r"check_books|clerk|office__|system__tasking"], needs=["gnatmake"])
def ada_rendezvous(stage):
    """A task computes in a rendezvous with another one, and main is in the queue of its entry."""
    stage.run("gnatmake", "-q", "-g", "-O2", shutil.copy(SOURCES / "office.adb", stage.folder))
    return by_thread(stage, "clerk", stage.folder / "office")


PROLOG = r"\bPL_|\bpl_|\bar_|valueExpression|get_time|with_mutex|pthread_mutex"


@hang("SWI-Prolog", [PROLOG], lock=True, needs=["swipl"])
def prolog_mutex(stage):
    """A thread proves something that takes long with a mutex (with_mutex), which main needs, too."""
    program = ["swipl", "-q", "-g", "run", SOURCES / "stock.pl", "--"]
    return by_thread(stage, "stocktaker", *program, time_of_day=True)


@hang("Clojure", [rf"count_shelves|take_stock|\bsell\b|LockingTransaction|{WAITS}"], needs=["java"])
def clojure_transaction(stage):
    """A thread computes in a transaction that has changed a reference, and that of another thread waits and
    is tried again until then."""
    program = ["java", "-cp", jars("clojure*.jar", "clojure"), "clojure.main", SOURCES / "stock.clj"]
    return by_thread(stage, "stocktaker", *program)


YEARS = r"sum_(rain|year)|mclapply|mc_(select|children)|\bR_|\bRf_|bcEval|\bdo_\w+|\brsum\b|math1|\bsqrt\b"


@hang("R", [YEARS], needs=["Rscript"])
def r_mclapply(stage):
    """A program has two processes compute (mclapply), and waits for the one that has more to do."""
    flag, helper = stage.folder / "now", stage.folder / "helper"
    program = Program(stage, "Rscript", SOURCES / "rain.R", flag, helper, time_of_day=True)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(int(helper.read_text()))])


@hang("Java", [rf"saveText|(close|open)Draft|Cleaner|Semaphore|{WAITS}"], needs=JAVA)
def java_cleaner(stage):
    """The thread that cleans up behind the collector (Cleaner) takes long to close something, of which there
    may be one at a time."""
    classes, flag = stage.subfolder("classes"), stage.folder / "now"
    stage.run("javac", "-d", classes, ASSORTED / "Beat.java", SOURCES / "Drafts.java")
    program = Program(stage, "java", "-XX:+UseSerialGC", "-Xmx16m", "-cp", classes, "Drafts", flag)
    victim, cleaner = (thread_of(program.pid, name) for name in ("heartbeat", "Cleaner-0"))
    with stage.recording():
        program.hang(flag)
    return program.truth([cleaner], victim=victim)


@hang("Jetty", [r"printReport|\bsell\b|Till\.handle|ObjectMonitor"], lock=True, needs=JAVA)
def jetty_synchronized(stage):
    """A thread of a web server makes a report in a synchronized block, which all other pages need."""
    path, port = jars("jetty*server*.jar", "libjetty9-java"), free_port()
    classes = stage.subfolder("classes")
    stage.run("javac", "-d", classes, "-cp", path, SOURCES / "Till.java")
    server = stage.start("java", "-cp", f"{classes}:{path}", "Till", port)
    until("Jetty", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/price")
    other = stage.deed(browse, port=port, path="/report")
    with stage.recording():
        other.go()
        reporter = Who(server.pid, int(other.result()["result"]))
    others = [who for who in threads(server.pid) if who != reporter]
    return client.truth(culprits=[reporter], others=others)


def rust(stage, name, sources=SOURCES):
    """A program of `rust` in `sources`. Cargo builds them once, from a copy: it may write there."""
    copy = stage.tools / f"{sources.name}-rust"
    source = shutil.copytree(sources / "rust", copy, dirs_exist_ok=True)
    shutil.copy2(ASSORTED / "beat.rs", source / "src")
    manifest, target = source / "Cargo.toml", source / "target"
    options = ["--quiet", "--release", "--manifest-path", manifest, "--target-dir", target]
    stage.run("cargo", "build", *options, env=os.environ)
    return target / "release" / name


@hang("redb", [r"sum_invoices|close_year|book_invoice|invoices::|redb::|begin_write"], needs=["cargo"])
def redb_writer(stage):
    """A thread computes in its transaction, and another one waits to begin one: only one may write."""
    return by_thread(stage, "year-end", rust(stage, "invoices"))


@hang("moka", [r"(load|change|show)_tariff|tariffs::|moka::|parking_lot|RwLock"], lock=True, needs=["cargo"])
def moka_get_with(stage):
    """A thread computes an entry of a cache (get_with), and another one needs the same entry."""
    return by_thread(stage, "changer", rust(stage, "tariffs"))


@hang("C", [r"dump_state|check_orders|count_order|\braise\b|pthread_mutex"], lock=True, needs=["cc"])
def c_signal_handler(stage):
    """A thread has a mutex while a signal's handler computes in it, and main needs the mutex."""
    return between_threads(stage, SOURCES / "orders.c", "worker")


ZONES = rf"\bwrite\b|change_zone|print_time|tzset|tzfile|tz_convert|localtime|{SLEEPS}"


@hang("the C library", [ZONES], lock=True, needs=["cc"])
def c_time_zone(stage):
    """A thread changes the time zone to a file that comes late, and nobody else can convert a time meanwhile
    (localtime): the C library has one lock for that."""
    zone, flag = stage.folder / "zone", stage.folder / "now"
    os.mkfifo(zone)
    writer = stage.deed(writes_late, path=zone)
    program = Program(stage, compiled(stage, SOURCES / "zones.c"), f":{zone}", flag)
    with stage.recording():
        writer.go()
        program.hang(flag)
    return program.truth([writer.who], [program.thread("settings")])


def sales(flag):
    """A program of two threads that share a connection to a database within the program (DuckDB)."""
    connection = package("duckdb").connect(config={"threads": 1})

    def sum_sales(count):
        connection.execute(f"select sum(sqrt(range)) from range({count})")

    def show_sale():
        connection.execute("select 7")

    few = 5_000_000
    sum_sales(few)
    began = time.monotonic()
    sum_sales(few)
    many = int(few * SECONDS / (time.monotonic() - began))

    def make_report():
        while True:
            if told(flag):
                sum_sales(many)
            time.sleep(0.01)

    other = threading.Thread(target=make_report, daemon=True)
    other.start()
    return show_sale, {"other": other.native_id}


@hang("DuckDB", [r"sum_sales|show_sale|make_report|duckdb"], lock=True)
def duckdb_shared_connection(stage):
    """A thread's long statement has the mutex of a connection that another thread uses, too."""
    package("duckdb")
    flag = stage.folder / "report"
    program = stage.rhythm(sales, flag=flag)
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(program.who.pid, program.facts["other"])])


def reads_cache(path):
    """A program that locks its cache whenever it reads that (filelock)."""
    lock = package("filelock").FileLock(path)

    def read_cache():
        with lock:
            pass

    return read_cache


def rebuilds_cache(path):
    """Another one, which makes the cache anew."""
    lock = package("filelock").FileLock(path)

    def rebuild_cache():
        with lock:
            time.sleep(SECONDS)

    return rebuild_cache


@hang("filelock", [rf"rebuild_cache|read_cache|acquire|flock|{SLEEPS}"], lock=True)
def filelock_polls(stage):
    """A program has a file locked (FileLock), and another one looks again and again whether it still has."""
    package("filelock")
    path = stage.folder / "cache.lock"
    program = stage.rhythm(reads_cache, path=path)
    other = stage.deed(rebuilds_cache, path=path)
    with stage.recording():
        other.go()
        other.result()
    return program.truth(culprits=[other.who])
