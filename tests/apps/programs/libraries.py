"""Pools, queues and locks of Python's libraries: SQLAlchemy, waitress, Tornado, RQ, asyncio, SQLite and others."""

import asyncio
import gc
import hashlib
import importlib
import importlib.util
import multiprocessing
import sqlite3
import sys
import threading
import time
import zlib

import actor
import programs.postgres as postgres
import web
from actor import told
from hang import DidNotHang, Missing, Truth, Who, hang
from programs.kernel import ticking
from programs.python import COMPUTES, slow_beats, validate_input
from programs.runtimes import warehouse
from programs.servers import SLEEPS, browse
from programs.sqlite import LIBRARY, write_note
from programs.tokio import send
from stage import connects, free_port, until


def package(name):
    """A package of Python; raises if there is none."""
    if not importlib.util.find_spec(name):
        raise Missing(f"{name} is not installed")
    return importlib.import_module(name)


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
    objects = []
    gc.disable()
    objects.extend([n] for n in range(millions * 1_000_000))
    slow, beat = slow_beats()

    def collect_garbage():
        slow.clear()
        gc.collect()
        time.sleep(0.2)
        del objects[:10]
        return max(slow, key=lambda span: span[1] - span[0], default=[0, 0])

    return collect_garbage, {"beat": beat}


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
