"""Limits, pools and queues of Python's web frameworks, drivers and workers, and what commands wait
for among themselves: a lock of etcd, a slot of a build machine, a frozen repository, a camera, a
rate."""

import http.server
import os
import subprocess
import threading
import time

import programs.postgres as postgres
import web
from actor import told
from hang import Missing, Who, hang
from programs.crowds import many, truth_of_commands
from programs.kernel import SECONDS, ticking
from programs.native import Program
from programs.once import runs, started
from programs.redis import REDIS
from programs.repeated import redis_server
from programs.runtimes import warehouse
from programs.servers import PYTHON, SLEEPS, browse, until_asleep, write_script
from stage import children, connects, free_port, until


def of_debian(*modules):
    """Raises if Debian's Python does not have these."""
    wanted = "; ".join(f"import {module}" for module in modules)
    if subprocess.run([PYTHON, "-c", wanted], capture_output=True).returncode:
        raise Missing(f"{' or '.join(modules)} is not installed for {PYTHON}")


FASTAPI = """
import socket, sys
import anyio.to_thread, fastapi, uvicorn

application = fastapi.FastAPI()

@application.get("/page")
def show_page():
    return "page"

@application.get("/stock")
def count_everything():
    with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as warehouse:
        warehouse.sendall(b"how many\\n")
        return warehouse.recv(100).decode()

@application.get("/limit")
async def set_limit():
    anyio.to_thread.current_default_thread_limiter().total_tokens = 3

uvicorn.run(application, port=int(sys.argv[1]), log_level="error")
"""


@hang("FastAPI", [rf"count_stock|count_everything|{SLEEPS}"], needs=[PYTHON])
def fastapi_thread_limit(stage):
    """As many endpoints that block as the framework has threads for (AnyIO's limiter) wait for a
    slow service, and a page that needs a thread waits for one."""
    of_debian("fastapi", "uvicorn")
    port, behind, file = free_port(), free_port(), stage.folder / "shop.py"
    file.write_text(FASTAPI)
    service = stage.actor("deed", warehouse, port=behind)
    server = stage.start(PYTHON, file, port, behind)
    until("uvicorn", lambda: connects(port))
    browse(port, "/limit")()
    client = stage.rhythm(web.get, port=port, path="/page")
    others = [stage.deed(browse, port=port, path="/stock") for _ in range(3)]
    with stage.recording():
        for other in others:
            other.go()
        for other in others:
            other.result()
    return client.truth(culprits=[Who(service.who.pid)], others=[Who(server.pid)])


def partner_site(port):
    """A web site with a page that takes long."""

    def make_report():
        time.sleep(SECONDS)

    def answer(path):
        if path == "/report":
            make_report()
        return b"page"

    web.serve(port, answer, http.server.ThreadingHTTPServer)
    return lambda: None


# What a program in asyncio does besides its rhythm when told so.
RHYTHM = """
import asyncio, json, os, sys, time

async def rhythm(operation, besides, flag):
    print(json.dumps({"victim": os.getpid()}), flush=True)
    while True:
        if os.path.exists(flag):
            os.unlink(flag)
            other = asyncio.create_task(besides())
            await asyncio.sleep(0.05)
        began = time.monotonic_ns()
        await operation()
        ended = time.monotonic_ns()
        if ended - began >= 100_000_000:
            print(json.dumps({"from": began, "to": ended}), flush=True)
        await asyncio.sleep(0.02)
"""
PRICES = """
import aiohttp

async def main():
    site = f"http://127.0.0.1:{sys.argv[1]}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit_per_host=1)) as session:

        async def fetch(path):
            async with session.get(site + path) as answer:
                return await answer.text()

        async def fetch_price():
            await fetch("/price")

        async def fetch_report():
            await fetch("/report")

        await rhythm(fetch_price, fetch_report, sys.argv[2])

asyncio.run(main())
"""


def in_asyncio(stage, text, *arguments):
    """A program in asyncio that measures itself, and the flag that has it do something besides."""
    file, flag = stage.folder / "program.py", stage.folder / "besides"
    file.write_text(RHYTHM + text)
    return Program(stage, PYTHON, file, *arguments, flag), flag


@hang("aiohttp", [rf"make_report|{SLEEPS}"], needs=[PYTHON])
def aiohttp_connection_limit(stage):
    """A client may have one connection to a site (limit_per_host), which waits for a slow page, and
    a coroutine that wants a small one waits for that."""
    of_debian("aiohttp")
    port = free_port()
    site = stage.deed(partner_site, port=port)
    program, flag = in_asyncio(stage, PRICES, port)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(site.who.pid)])


ACCOUNTS = """
import asyncpg

async def main():
    address = f"postgresql://postgres@127.0.0.1:{sys.argv[1]}/postgres"
    pool = await asyncpg.create_pool(address, min_size=1, max_size=1)

    async def show_account():
        await pool.fetchval("select amount from accounts where id = 7")

    async def order_articles():
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("update accounts set amount = 0 where id = 8")
            reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
            writer.write(b"how many\\n")
            await reader.readline()
            writer.close()

    await show_account()
    await rhythm(show_account, order_articles, sys.argv[3])

asyncio.run(main())
"""


@hang("asyncpg", [rf"count_stock|{SLEEPS}"], needs=[PYTHON, *postgres.NEEDS])
def asyncpg_pool(stage):
    """A coroutine has the only connection of a pool while it asks a slow service, and another one
    waits for that connection. The database has nothing to do meanwhile."""
    of_debian("asyncpg")
    port, behind = postgres.server(stage), free_port()
    service = stage.actor("deed", warehouse, port=behind)
    program, flag = in_asyncio(stage, ACCOUNTS, port, behind)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(service.who.pid)])


TASKS = """
import os, pathlib, sys, time
import celery

folder = pathlib.Path(__file__).parent
address = (folder / "address").read_text()
application = celery.Celery("shop_tasks", broker=address, backend=address)

@application.task
def send_receipt():
    return 7

@application.task
def make_year_report():
    (folder / "reporter").write_text(str(os.getpid()))
    time.sleep(1.6)
"""
SHOP = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
import shop_tasks

def wait_for_receipt():
    shop_tasks.send_receipt.delay().get(timeout=10)

wait_for_receipt()
print(json.dumps({"victim": os.getpid()}), flush=True)
while True:
    if os.path.exists(sys.argv[2]):
        os.unlink(sys.argv[2])
        shop_tasks.make_year_report.delay()
    began = time.monotonic_ns()
    wait_for_receipt()
    ended = time.monotonic_ns()
    if ended - began >= 100_000_000:
        print(json.dumps({"from": began, "to": ended}), flush=True)
    time.sleep(0.02)
"""


@hang("Celery", [rf"make_year_report|{SLEEPS}"], needs=[PYTHON, *REDIS])
def celery_prefetched(stage):
    """A worker has fetched a short task beforehand, while its only process is in a long one.
    Another worker has nothing to do."""
    of_debian("celery", "redis")
    _, redis_port = redis_server(stage)
    folder = stage.subfolder("shop")
    (folder / "shop_tasks.py").write_text(TASKS)
    (folder / "address").write_text(f"redis://127.0.0.1:{redis_port}/0")
    (folder / "shop.py").write_text(SHOP)
    options = [
        "--concurrency",
        "1",
        "--loglevel",
        "warning",
        "--without-gossip",
        "--without-mingle",
    ]
    celery = [PYTHON, "-m", "celery", "-A", "shop_tasks", "worker", *options]
    quiet = os.environ | {"C_FORCE_ROOT": "1"}
    workers = [
        stage.start(*celery, "--hostname", f"{name}@shop", cwd=folder, env=quiet)
        for name in ("first", "second")
    ]
    # They say nothing when they are ready, and both are to be.
    time.sleep(4)
    program = Program(stage, PYTHON, folder / "shop.py", folder, stage.folder / "now")
    with stage.recording():
        program.hang(stage.folder / "now")
    reporter = int((folder / "reporter").read_text())
    fetched = [each for each in workers if Who(reporter) in children(each.pid)]
    return program.truth([Who(reporter)], [Who(each.pid, each.pid) for each in fetched])


@hang("etcd", [r"nanosleep|wait4|waitid|concurrency|Mutex|waitDeletes"], True, ["etcd", "etcdctl"])
def etcd_lock_ten_times(stage):
    """Ten commands wait for a lock of etcd (etcdctl lock), with which another one sleeps."""
    port, peers, number = free_port(), free_port(), stage.folder / "number"
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    stage.start(
        *("etcd", "--data-dir", stage.folder / "etcd", "--initial-cluster", f"default={peer}"),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
    )
    until("etcd", lambda: connects(port))
    time.sleep(2)
    lock = ["env", "ETCDCTL_API=3", "etcdctl", "--endpoints", client, "lock", "job"]
    job = write_script(stage.folder / "job", f"#!/bin/sh\necho $$ >{number}\nexec sleep 1.5\n")
    script = stage.errand(many, argv=[*lock, "true"], count=10)
    with stage.recording():
        # Any thread of etcdctl may be its parent.
        holder = stage.start(*lock, job)
        sleep = until("the lock", lambda: number.exists() and number.read_text())
        script.go()
        return truth_of_commands(script, culprits=[Who(holder.pid), Who(int(sleep))])


COMPILER = """#!/bin/sh
case "$*" in
*-E*) ;;
*) sleep 1.2 ;;
esac
exec cc "$@"
"""


@hang("distcc", [r"nanosleep|dcc_\w+"], lock=True, needs=["distcc", "distccd", "cc"])
def distcc_one_slot(stage):
    """A build machine may compile one file at a time, and another build has that slot (a file
    lock), whose compiler is slow. distcc looks again ten times a second."""
    port, source = free_port(), stage.folder / "program.c"
    source.write_text("int main(void) { return 0; }\n")
    slow = write_script(stage.folder / "slow-compiler", COMPILER)
    options = ["--no-detach", "--daemon", "--listen", "127.0.0.1", "--allow", "127.0.0.1"]
    options += ["--port", port, "--jobs", "2", "--enable-tcp-insecure", "--user", "nobody"]
    stage.start("distccd", *options, "--log-file", stage.subfolder("log", "nobody") / "distccd")
    until("distccd", lambda: connects(port))
    state = {"DISTCC_HOSTS": f"127.0.0.1:{port}/1", "DISTCC_DIR": str(stage.subfolder("distcc"))}
    state |= {"DISTCC_FALLBACK": "0", "DISTCC_PAUSE_TIME_MSEC": "100"}
    build = ["distcc", "cc", "-c", str(source), "-o", str(stage.folder / "program.o")]
    client = stage.errand(runs, argv=build, **state)
    with stage.recording():
        other = ["distcc", slow, "-c", source, "-o", stage.folder / "other.o"]
        holder = stage.start(*other, env=os.environ | state)
        culprits = until_asleep("slow-compiler")
        client.go()
        waits, rest = started(client.who.pid, "distcc")
        culprits = [who for who in culprits if who.name in ("sleep", "slow-compiler")]
        return client.truth(culprits=culprits, others=[*waits, *rest, Who(holder.pid)])


@hang("Subversion", [r"svn_|apr_file_lock|fcntl|nanosleep|wait4"], True, ["svn", "svnadmin"])
def svn_frozen_repository(stage):
    """A backup has a repository frozen (svnadmin freeze), and nobody can commit."""
    repository = stage.folder / "repository"
    stage.run("svnadmin", "create", repository)
    commit = ["svn", "mkdir", "--quiet", "-m", "a", f"file://{repository}/letters"]
    client = stage.errand(runs, argv=commit, HOME=str(stage.folder))
    with stage.recording():
        holder = stage.start("svnadmin", "freeze", repository, "sleep", "1.3")
        sleep, _ = started(holder.pid, "sleep")
        client.go()
        waits, _ = started(client.who.pid, "svn")
        return client.truth(culprits=[Who(holder.pid), *sleep], others=waits)


FRAME = 320 * 240


def camera(path, flag):
    """A camera that sends a picture every 30 ms, and once none for a while."""

    def take_pictures():
        with open(path, "wb", buffering=0) as pipe:
            while True:
                if told(flag):
                    time.sleep(SECONDS)
                pipe.write(bytes(FRAME))
                time.sleep(0.03)

    threading.Thread(target=take_pictures, daemon=True).start()
    return ticking()


def player(path):
    """A program that shows one picture after the other."""
    film = open(path, "rb")

    def show_picture():
        film.read(FRAME)

    return show_picture


CODEC = rf"take_pictures|show_picture|\bav_|\bavio_|\bavcodec_|\bffurl_|{SLEEPS}"


@hang("FFmpeg", [CODEC], needs=["ffmpeg"])
def ffmpeg_between_camera_and_player(stage):
    """A player waits for ffmpeg, which mirrors pictures, and that waits for the camera."""
    raw, film, flag = (stage.folder / name for name in ("raw", "film", "pause"))
    for pipe in (raw, film):
        os.mkfifo(pipe)
    source = stage.actor("deed", camera, path=raw, flag=flag)
    video = ["-f", "rawvideo", "-pix_fmt", "gray", "-s", "320x240", "-r", "30"]
    quiet = ["-loglevel", "error", "-nostdin", "-y", "-fflags", "nobuffer", "-probesize", "32"]
    mirror = ["-vf", "hflip", "-fps_mode", "passthrough", "-flush_packets", "1", "-f", "rawvideo"]
    codec = stage.start("ffmpeg", *quiet, *video, "-i", raw, *mirror, film)
    client = stage.rhythm(player, path=film)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(source.who.pid)], others=[Who(codec.pid)])


@hang("pv", [], needs=["tar", "pv"])
def pv_rate_limit(stage):
    """tar writes into pv, which lets a megabyte a second through, so that a line has room for
    others."""
    (stage.subfolder("tree") / "film").write_bytes(os.urandom(1_250_000))
    copy = f"tar -c -C {stage.folder}/tree . | pv -q -L 1M >{stage.folder}/copy"
    client = stage.errand(runs, argv=["sh", "-c", copy])
    with stage.recording():
        client.go()
        pv, others = started(client.who.pid, "pv")
        return client.truth(culprits=pv, others=others)
