"""Hangs that were written later, by somebody who had not run them with Unhitch either: pools, queues and
locks of libraries and languages, statements of databases that keep others waiting, and what the kernel
asks of programs, as of those that mount, filter, forward or store for others."""

import asyncio
import contextlib
import ctypes
import fcntl
import gc
import hashlib
import importlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import pathlib
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import zlib

import actor
import programs.mariadb as mariadb
import programs.postgres as postgres
import web
from actor import told
from hang import DidNotHang, Missing, Truth, Who, hang
from programs.kernel import SECONDS, answering, asking, ticking
from programs.native import Program, between_threads, compiled, header
from programs.python import COMPUTES, validate_input
from programs.queues import behind_slow_page, pages
from programs.runtimes import NODE_NAMES, warehouse
from programs.servers import SLEEPS, browse, customer
from programs.shell import LZMA, life, numbers, quota_group
from programs.sqlite import LIBRARY, write_note
from programs.storage import commits, disk
from programs.tokio import send
from stage import HERE, children, connects, free_port, stop_for_a_while, thread_of, threads, until

SOURCES = HERE / "sources/assorted"

def package(name):
    """A package of Python; raises if there is none."""
    if not importlib.util.find_spec(name):
        raise Missing(f"{name} is not installed")
    return importlib.import_module(name)


# --- Python -------------------------------------------------------------------------------------


def shop_with_pool(port, flag):
    """A program of two threads, whose pool of SQLAlchemy has one connection."""
    sqlalchemy = package("sqlalchemy")
    address = f"postgresql+pg8000://{postgres.USER}@127.0.0.1:{port}/postgres"
    engine = sqlalchemy.create_engine(address, pool_size=1, max_overflow=0)

    def ask(statement):
        with engine.connect() as connection:
            return connection.exec_driver_sql(statement)

    def backend():
        with engine.connect() as connection:
            return connection.exec_driver_sql("select pg_backend_pid()").scalar()

    def write_statement():
        while True:
            if told(flag):
                ask(postgres.REPORT % 1.2)
            time.sleep(0.01)

    def show_account():
        ask("select amount from accounts where id = 7")

    facts = {"backend": backend()}
    other = threading.Thread(target=write_statement, daemon=True)
    other.start()
    return show_account, facts | {"other": other.native_id}


POOLED = r"ExecInterpExpr|ExecAgg|ExecScan|heap_?get|exec_stmt|plpgsql|text_?len|QueuePool|write_statement"


@hang("SQLAlchemy", [postgres.COMPUTES_MD5, POOLED], needs=postgres.NEEDS)
def sqlalchemy_pool(stage):
    """A thread's long statement has the only connection of a pool (QueuePool), and another one waits
    for it: to blame is the backend that computes."""
    package("sqlalchemy")
    port, flag = postgres.server(stage), stage.folder / "report"
    program = stage.rhythm(shop_with_pool, port=port, flag=flag)
    with stage.recording(after=2.5):
        flag.touch()
    other = Who(program.who.pid, program.facts["other"])
    return program.truth(culprits=[Who(program.facts["backend"])], others=[other])


def accounts_server(port):
    """A web application in waitress with two threads; to log in takes long, as it should."""
    waitress = package("waitress")
    began = time.monotonic()
    hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 100_000)
    rounds = int(100_000 * 1.2 / (time.monotonic() - began))

    def check_password():
        hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", rounds)

    def application(environ, start_response):
        if environ["PATH_INFO"] == "/login":
            check_password()
        page = str(threading.get_native_id()).encode()
        start_response("200 OK", [("Content-Length", str(len(page)))])
        return [page]

    options = {"host": "127.0.0.1", "port": port, "threads": 2, "_quiet": True}
    threading.Thread(target=waitress.serve, args=(application,), kwargs=options, daemon=True).start()
    return ticking()


@hang("waitress", [r"check_password|(?i:pbkdf2|hmac|sha256|EVP_)"])
def waitress_logins(stage):
    """Both threads of a web server hash passwords, and pages wait in its queue."""
    package("waitress")
    port = free_port()
    server = stage.actor("deed", accounts_server, port=port)
    until("waitress", lambda: connects(port))
    client = stage.rhythm(browse, port=port, path="/page")
    others = [stage.deed(browse, port=port, path="/login") for _ in range(2)]
    with stage.recording(after=2):
        for other in others:
            other.go()
        busy = {int(other.result()["result"]) for other in others}
    if len(busy) != 2:
        raise DidNotHang("one thread served both")
    culprits = [Who(server.who.pid, tid) for tid in busy]
    return client.truth(culprits=culprits, others=[Who(server.who.pid)])


def archive_server(port):
    """A web application in Tornado, one page of which it compresses in the event loop."""
    package("tornado")
    tornado = importlib.import_module("tornado.web")
    line = "".join(f"{n * n % 1000003} " for n in range(150_000)).encode()
    began = time.monotonic()
    zlib.compress(line, 9)
    everything = line * max(1, round(1.2 / (time.monotonic() - began)))

    def pack_archive():
        return zlib.compress(everything, 9)

    class Page(tornado.RequestHandler):
        def get(self):
            self.write("page")

    class Archive(tornado.RequestHandler):
        def get(self):
            self.write(pack_archive())

    async def run():
        tornado.Application([("/page", Page), ("/archive", Archive)]).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    threading.Thread(target=asyncio.run, args=(run(),), daemon=True).start()
    return ticking()


@hang("Tornado", [r"pack_archive|deflate|longest_match|compress|fill_window|adler32"])
def tornado_archive(stage):
    """A handler compresses a large page, and the event loop serves nobody meanwhile."""
    package("tornado")
    port = free_port()
    server = stage.actor("deed", archive_server, port=port)
    until("Tornado", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/page")
    other = stage.deed(browse_bytes, port=port, path="/archive")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.who.pid)])


def browse_bytes(port, path):
    """A browser that gets something that is no text."""
    visit = web.get(port, path)

    def download():
        visit()

    return download


JOBS = f"""
import re

def make_invoice():
    return 7

def make_year_report():
    re.match({r"(a+)+$"!r}, {"a" * 24 + "b"!r})
"""
RQ_WORKER = """
import sys
sys.path.insert(0, {folder!r})
import redis, rq
connection = redis.Redis("127.0.0.1", {port})
rq.SimpleWorker([rq.Queue("jobs", connection=connection)], connection=connection).work(logging_level="WARNING")
"""


def orders(port, job):
    """A program that has a worker do something, and looks again and again whether it is done."""
    package("rq")
    redis, rq = importlib.import_module("redis"), importlib.import_module("rq")
    queue = rq.Queue("jobs", connection=redis.Redis("127.0.0.1", port))

    def wait_for_job():
        ordered = queue.enqueue(f"shop_jobs.{job}", result_ttl=5)
        while not ordered.is_finished:
            time.sleep(0.005)

    return wait_for_job


@hang("RQ", [COMPUTES, r"make_year_report|wait_for_job|execute_job|perform_job"], needs=["redis-server"])
def rq_worker(stage):
    """The only worker behind a queue in Redis has somebody else's job, and a program looks again and
    again whether its own is done."""
    package("rq")
    port, folder = free_port(), stage.subfolder("redis", "nobody")
    options = ["--save", "", "--appendonly", "no", "--dir", folder, "--bind", "127.0.0.1"]
    server = stage.start("redis-server", "--port", port, *options, user="nobody")
    until("Redis", lambda: connects(port))
    (stage.folder / "shop_jobs.py").write_text(JOBS)
    file = stage.folder / "worker.py"
    file.write_text(RQ_WORKER.format(folder=str(stage.folder), port=port))
    worker = stage.start(sys.executable, file)
    client = stage.rhythm(orders, port=port, job="make_invoice")
    other = stage.deed(orders, port=port, job="make_year_report")
    time.sleep(3)
    with stage.recording(after=2):
        other.go()
        other.result()
    return client.truth(culprits=[Who(worker.pid)], others=[Who(server.pid)])


def semaphore_shop(port, behind):
    """A server that asks the service behind it one question at a time (asyncio.Semaphore)."""

    async def run():
        one_at_a_time = asyncio.Semaphore(1)

        async def ask_service():
            reader, writer = await asyncio.open_connection("127.0.0.1", behind)
            writer.write(b"how many\n")
            await reader.readline()
            writer.close()

        async def serve(reader, writer):
            while line := await reader.readline():
                async with one_at_a_time:
                    if line == b"stock\n":
                        await ask_service()
                writer.write(line)

        async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
            await server.serve_forever()

    threading.Thread(target=asyncio.run, args=(run(),), daemon=True, name="loop").start()
    return ticking()


@hang("Python", [rf"count_stock|ask_service|run_once|_run_once|select|epoll|{SLEEPS}"])
def asyncio_semaphore(stage):
    """A coroutine awaits a slow service with a semaphore, and another one awaits that; no thread is
    blocked."""
    port, behind = free_port(), free_port()
    service = stage.actor("deed", warehouse, port=behind)
    until("the service", lambda: connects(behind))
    server = stage.actor("deed", semaphore_shop, port=port, behind=behind)
    until("the server", lambda: connects(port))
    client = stage.rhythm(send, port=port, line="price")
    other = stage.deed(send, port=port, line="stock")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(service.who.pid)], others=[Who(server.who.pid)])


def index_pages(queue, flag):
    """What the other process does."""
    actor.name_process("indexer")
    while True:
        queue.get()
        if told(flag):
            validate_input()


def crawling(flag):
    """A program that puts pages into a short queue, for another process to index them."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue(4)
    indexer = context.Process(target=index_pages, args=(queue, flag), daemon=True)
    indexer.start()

    def put_page():
        queue.put("page")

    for _ in range(20):
        put_page()
    return put_page, {"indexer": indexer.pid}


@hang("Python multiprocessing", [COMPUTES, r"index_pages|put_page|SemLock|semlock|sem_(clock|timed)?wait"])
def python_process_queue(stage):
    """A process computes, so that a queue (multiprocessing.Queue) is full, and who puts into it waits."""
    flag = stage.folder / "slow"
    program = stage.rhythm(crawling, flag=flag)
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(program.facts["indexer"])])


def with_many_objects(millions):
    """A program of two threads with very many objects; one thread has garbage collected."""
    slow, objects = [], []
    gc.disable()
    objects.extend([n] for n in range(millions * 1_000_000))

    def heartbeat():
        while True:
            begin = time.monotonic_ns()
            json.dumps({"beat": begin})
            time.sleep(actor.PERIOD)
            end = time.monotonic_ns()
            if end - begin >= actor.SLOW_NS:
                slow.append([begin, end])

    beat = threading.Thread(target=heartbeat, daemon=True, name="heartbeat")
    beat.start()

    def collect_garbage():
        slow.clear()
        gc.collect()
        time.sleep(0.2)
        del objects[:10]
        return max(slow, key=lambda span: span[1] - span[0], default=[0, 0])

    return collect_garbage, {"beat": beat.native_id}


COLLECTS = r"gc_collect|collect_garbage|subtract_refs|update_refs|visit_|list_traverse|unreachable|take_gil|heartbeat"


@hang("Python", [COLLECTS], lock=True)
def python_collection(stage):
    """The garbage collector looks at all objects of a program with the interpreter lock."""
    program = stage.deed(with_many_objects, millions=10 * stage.attempt)
    pid = program.who.pid
    with stage.recording():
        program.go()
        began, ended = program.result()["result"]
    victim = Who(pid, program.facts["beat"], "heartbeat")
    return Truth(victim, began, ended, culprits=[Who(pid, program.who.tid)])


COUNT = "with recursive n(i) as (select 1 union all select i + 1 from n where i < {}) select sum(i) from n"


def shared_connection(flag):
    """A program whose two threads share a connection to a database."""
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    connection.execute("create table notes (id integer primary key, text)")
    connection.execute("insert into notes values (1, 'note')")
    began = time.monotonic()
    connection.execute(COUNT.format(500_000)).fetchall()
    rounds = int(500_000 * 1.2 / (time.monotonic() - began))

    def make_statistics():
        while True:
            if told(flag):
                connection.execute(COUNT.format(rounds)).fetchall()
            time.sleep(0.01)

    other = threading.Thread(target=make_statistics, daemon=True)
    other.start()

    def read_note():
        connection.execute("select text from notes where id = 1").fetchall()

    return read_note, {"other": other.native_id}


@hang("SQLite", [*LIBRARY, r"make_statistics|read_note|pthread_mutex"], lock=True)
def sqlite_shared_connection(stage):
    """A thread's long statement has the mutex of a connection that another thread uses, too."""
    flag = stage.folder / "statistics"
    program = stage.rhythm(shared_connection, flag=flag)
    with stage.recording(after=2.5):
        flag.touch()
    return program.truth(culprits=[Who(program.who.pid, program.facts["other"])])


def big_table(path):
    """Fills a table."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("create table words (text)")
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 700000)"
    connection.execute(f"insert into words {numbers} select hex(randomblob(8)) from n")
    return lambda: None


@hang("SQLite", LIBRARY, lock=True, needs=["sqlite3"])
def sqlite_create_index(stage):
    """Somebody makes an index with the command sqlite3, and a program cannot write meanwhile."""
    path = stage.folder / "notes.db"
    stage.deed(big_table, path=path)
    writer = stage.rhythm(write_note, path=path, flag=stage.folder / "never")
    with stage.recording(after=2):
        index = "pragma busy_timeout=9000; create index by_text on words (text, hex(text));"
        shell = stage.start("sqlite3", path, index)
        if shell.wait():
            raise DidNotHang("sqlite3 failed")
    return writer.truth(culprits=[Who(shell.pid)])


# --- commands, files and pipes ------------------------------------------------------------------

DAEMON = """
trap 'echo done >answers' USR1
echo ready >ready
while :; do
    if [ -e rotate ]; then rm rotate; xz -T1 -3 -k -f numbers; fi
    sleep 0.005
done
"""


def asks_daemon(pid, answers):
    """A script that tells a daemon something by a signal, and waits for its answer."""

    def tell_daemon():
        os.kill(pid, signal.SIGUSR1)
        with open(answers, "rb") as pipe:
            pipe.read()

    return tell_daemon


@hang("bash", [*LZMA, r"waitchld|waitpid|wait4|wait_for"], needs=["bash", "xz"])
def bash_trap(stage):
    """A daemon in bash compresses its log, and hears no signal until that is done."""
    numbers(stage, 400_000)
    answers = stage.folder / "answers"
    os.mkfifo(answers)
    (stage.folder / "daemon.sh").write_text(DAEMON)
    daemon = stage.start("bash", stage.folder / "daemon.sh")
    until("the daemon", (stage.folder / "ready").exists)
    client = stage.rhythm(asks_daemon, pid=daemon.pid, answers=answers)

    def compressing():
        names = ((who, pathlib.Path(f"/proc/{who.pid}/comm")) for who in children(daemon.pid))
        with contextlib.suppress(OSError):
            return [who for who, name in names if name.read_text().strip() == "xz"]
        return []

    with stage.recording(after=2.5):
        (stage.folder / "rotate").touch()
        xz = until("xz", compressing)
    return client.truth(culprits=xz, others=[Who(daemon.pid)])


def token_user(path, slow):
    """A tool that takes a token of make's jobserver for what it does, and gives it back."""
    pipe = os.open(path, os.O_RDWR)

    def compile_module():
        token = os.read(pipe, 1)
        os.write(pipe, token)

    def link_program():
        token = os.read(pipe, 1)
        validate_input()
        os.write(pipe, token)

    return link_program if slow else compile_module


@hang("make's jobserver", [COMPUTES, r"link_program|compile_module|pipe_read"])
def jobserver_token(stage):
    """Who links a program has the last token of the jobserver, which is a pipe."""
    path = stage.folder / "jobserver"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR)
    stage.closing.callback(os.close, pipe)
    os.write(pipe, b"+")
    program = stage.rhythm(token_user, path=path, slow=False)
    other = stage.deed(token_user, path=path, slow=True)
    with stage.recording():
        other.go()
        other.result()
    return program.truth(culprits=[other.who])


@hang("a pipeline", [], needs=["sort", "uniq"])
def sort_in_pipeline(stage):
    """uniq waits for sort, which can say nothing until it has everything."""
    file = numbers(stage, 1_500_000)
    read, write = os.pipe()
    with stage.recording():
        sort = stage.start("sort", "--parallel=1", file, stdout=write)
        uniq = stage.start("uniq", "-c", stdin=read, stdout=subprocess.DEVNULL)
        os.close(write)
        os.close(read)
        truth = life(uniq, culprits=[Who(sort.pid)])
        sort.wait()
    return truth


# From <sys/inotify.h>.
IN_MOVED_TO = 0x80


def watched(folder):
    """A folder that is watched; how to wait for the next name in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(0)
    if libc.inotify_add_watch(watch, folder.encode(), IN_MOVED_TO) < 0:
        raise OSError(ctypes.get_errno(), "inotify")

    def names():
        while True:
            events, at = os.read(watch, 4096), 0
            while at < len(events):
                length = struct.unpack_from("=iIII", events, at)[3]
                yield events[at + 16 : at + 16 + length].rstrip(b"\0").decode()
                at += 16 + length

    return names()


def put_into(folder, name):
    """Makes a file there, all at once."""
    draft = f"{folder}.{name}"
    pathlib.Path(draft).touch()
    os.rename(draft, f"{folder}/{name}")


def spooler(jobs, done, flag):
    """A daemon that works off what is put into a folder."""
    names = watched(jobs)

    def print_job(name):
        if told(flag):
            validate_input()
        os.unlink(f"{jobs}/{name}")
        put_into(done, name)

    def work_off_jobs():
        for name in names:
            print_job(name)

    threading.Thread(target=work_off_jobs, daemon=True).start()
    return ticking()


def prints(jobs, done):
    """A program that puts a job into the folder, and waits until it is in the other one."""
    names = watched(done)

    def print_letter():
        put_into(jobs, "letter")
        os.unlink(f"{done}/{next(names)}")

    return print_letter


@hang("inotify", [COMPUTES, r"print_job|print_letter|inotify_read"])
def inotify_spool(stage):
    """A daemon takes long for a job, and a program that watches a folder waits for its end."""
    jobs, done, flag = stage.subfolder("jobs"), stage.subfolder("done"), stage.folder / "slow"
    daemon = stage.actor("deed", spooler, jobs=jobs, done=done, flag=flag)
    program = stage.rhythm(prints, jobs=jobs, done=done)
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(daemon.who.pid)])


# --- what the kernel asks of programs -------------------------------------------------------------

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


# --- C, C++ and Rust --------------------------------------------------------------------------------


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


# --- Java, .NET, Go, Node.js, PHP, Perl, Ruby -------------------------------------------------------


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


def go_server(stage, name, *arguments, **settings):
    """Builds a server in Go, and starts it; its process and its port."""
    binary, port = stage.folder / name, free_port()
    environment = os.environ | {"GO111MODULE": "off"}
    stage.run("go", "build", "-o", binary, SOURCES / f"{name}.go", env=environment)
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


# --- databases --------------------------------------------------------------------------------------


def statement(port, prepare, text):
    """A client of PostgreSQL with one long statement."""
    connection = postgres.connect(port)
    for each in prepare:
        connection.run(each)
    return lambda: connection.run(text) and None, postgres.backend_of(connection)


def behind_statement(stage, prepare, text, short):
    """Whoever repeats the short statement waits for the long one, whose backend is to blame."""
    port = postgres.server(
        *(stage, "-c", "max_parallel_maintenance_workers=0", "-c", "max_parallel_workers_per_gather=0"),
        *("-c", "autovacuum=off", "-c", "checkpoint_timeout=1h", "-c", "max_wal_size=4GB"),
        *("-c", "maintenance_work_mem=256MB", "-c", "fsync=off"),
    )
    other = stage.deed(statement, port=port, prepare=prepare, text=text)
    client = stage.rhythm(postgres.ask, port=port, statement=short)
    with stage.recording(after=2):
        other.go()
        other.result()
    return client.truth(
        culprits=[Who(other.facts["backend"])], others=[Who(client.facts["backend"])]
    )


BUILDS = r"tuplesort|qsort|comparetup|_bt_|btbuild|IndexBuild|heapam_index_build|ExecInterpExpr|md5|text_?(lt|cmp)|str_?coll"


@hang("PostgreSQL", [BUILDS, *postgres.LOCKS, postgres.COMPUTES_MD5], lock=True, needs=postgres.NEEDS)
def postgres_create_index(stage):
    """CREATE INDEX (without CONCURRENTLY) keeps whoever writes waiting."""
    rows = 500_000 * stage.attempt
    table = ["create table orders (t text)", f"insert into orders select md5(n::text) from generate_series(1, {rows}) n"]
    return behind_statement(
        *(stage, table, "create index on orders (md5(md5(t)))"),
        "insert into orders values ('order')",
    )


REFRESHES = r"md5|ExecInterpExpr|ExecScan|ExecProject|transientrel|heap_(multi_)?insert|generate_series|refresh"


@hang("PostgreSQL", [REFRESHES, *postgres.LOCKS, postgres.COMPUTES_MD5], lock=True, needs=postgres.NEEDS)
def postgres_refresh_view(stage):
    """REFRESH MATERIALIZED VIEW keeps whoever reads it waiting."""
    rows = 700_000 * stage.attempt
    # The view grows with its settings.
    view = [
        "create table settings (rows int)",
        "insert into settings values (10)",
        "create materialized view totals as select n, md5(md5(md5(n::text)))"
        " from settings, generate_series(1, settings.rows) n",
        f"update settings set rows = {rows}",
    ]
    return behind_statement(
        *(stage, view, "refresh materialized view totals"), "select n from totals limit 1"
    )


def signing_up(port):
    """A client that inserts a name, which is unique, and changes its mind."""
    connection = postgres.connect(port)

    def sign_up():
        connection.run("begin")
        connection.run("insert into accounts values (5000, 0) on conflict do nothing")
        connection.run("rollback")

    return sign_up, postgres.backend_of(connection)


UNIQUE = r"SpeculativeInsertion|_bt_(doinsert|check_unique)|check_exclusion|ExecInsert|\bthink\b"


@hang("PostgreSQL", [*postgres.LOCKS, rf"{UNIQUE}|{SLEEPS}"], lock=True, needs=postgres.NEEDS)
def postgres_unique_key(stage):
    """A transaction that thinks has inserted a key, and who inserts the same waits how that ends."""
    port = postgres.server(stage)
    client = stage.rhythm(signing_up, port=port)
    insert = ["begin", "insert into accounts values (5000, 0)"]
    holder = stage.deed(postgres.hold, port=port, statements=insert, last="rollback")
    with stage.recording():
        holder.go()
        holder.result()
    return client.truth(
        culprits=[holder.who, Who(holder.facts["backend"])], others=[Who(client.facts["backend"])]
    )


def orders_table(path):
    """Makes a table with an AUTO_INCREMENT column; how fast the server computes."""
    connection = mariadb.connect(path)
    mariadb.run(connection, "create table orders (id int auto_increment primary key, hash int) engine=InnoDB")
    began = time.monotonic()
    mariadb.run(connection, "select benchmark(200000, sha1('order'))")
    speed = 200_000 / (time.monotonic() - began)
    return lambda: None, {"speed": speed}


def inserts(path, text):
    """A client that inserts something."""
    connection = mariadb.connect(path)

    def insert_order():
        mariadb.run(connection, text)

    return insert_order, mariadb.thread_of_connection(connection)


AUTO = r"Item_func_(benchmark|sha)|(?i:my_sha1|sha1_)|select_insert|evaluate|sub_select"


@hang("MariaDB", [AUTO, *mariadb.WAITS], lock=True, needs=mariadb.NEEDS)
def mariadb_auto_increment(stage):
    """INSERT ... SELECT computes, and has the lock of the table's AUTO_INCREMENT as long."""
    pid, path = mariadb.server(stage)
    table = stage.deed(orders_table, path=path)
    client = stage.rhythm(inserts, path=path, text="insert into orders (hash) values (1)")
    rounds = int(1.3 * table.facts["speed"] / 20)
    hashes = f"benchmark({rounds}, sha1(concat('order', seq)))"
    many = f"insert into orders (hash) select {hashes} from seq_1_to_20"
    other = stage.deed(inserts, path=path, text=many)
    with stage.recording(after=2):
        other.go()
        other.result()
    computing = Who(pid, other.facts["thread"])
    return client.truth(culprits=[computing], others=[Who(pid, client.facts["thread"])])


UNBOUND = """
server:
  interface: 127.0.0.1
  port: {port}
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: "{folder}/unbound.pid"
  use-syslog: no
  logfile: "{folder}/unbound.out"
  num-threads: 1
  do-ip6: no
  do-not-query-localhost: no
  module-config: "iterator"
  local-data: "www.example.com. 60 IN A 192.0.2.1"
  include: "{folder}/blocked.conf"
remote-control:
  control-enable: no
"""


def patient_lookups(port):
    """A program that looks a name up, and asks again if nothing has come."""
    name = b"\3www\7example\3com\0" + struct.pack("!2H", 1, 1)
    numbers = itertools.cycle(range(1, 60000))

    def resolve():
        while True:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.settimeout(0.1)
                sock.connect(("127.0.0.1", port))
                with contextlib.suppress(OSError):
                    sock.send(struct.pack("!6H", next(numbers), 0x100, 1, 0, 0, 0) + name)
                    sock.recv(512)
                    return
            time.sleep(0.01)

    return resolve


@hang("Unbound", [], needs=["unbound"])
def unbound_reload(stage):
    """A name server reads its long list of blocked names again, and answers nobody meanwhile."""
    port, file = free_port(), stage.folder / "unbound.conf"
    file.write_text(UNBOUND.format(port=port, folder=stage.folder))
    with open(stage.folder / "blocked.conf", "w") as out:
        for n in range(500_000 * stage.attempt):
            print(f'local-zone: "ads{n}.example.net" always_nxdomain', file=out)
    server = stage.start("unbound", "-d", "-c", file)
    until("Unbound", lambda: connects(port))
    client = stage.rhythm(patient_lookups, port=port)
    with stage.recording(after=3.5):
        server.send_signal(signal.SIGHUP)
    return client.truth(culprits=[Who(server.pid)])
