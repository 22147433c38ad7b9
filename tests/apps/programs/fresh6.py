"""Runtimes and libraries of languages that no other module has: a mutex of Scheme, coroutines of
Lua, servers of Bun and Deno that wait for files, a plugin of a build, the end of a service in Java,
and what C++ has its threads wait at."""

import fcntl
import os
import pathlib
import select
import shutil
import signal
import sqlite3
import subprocess
import time

import web
from hang import Missing, Who, hang
from programs.fresh import by_thread
from programs.kernel import SECONDS
from programs.languages import JAVA, WAITS
from programs.languages import SOURCES as ASSORTED
from programs.native import SOURCES as NATIVE
from programs.native import Program, header
from programs.repeated import AT_LEAST, LATE, meanwhile, often
from programs.runtimes import NODE_NAMES
from programs.servers import SLEEPS, customer
from programs.tokio import send
from stage import connects, free_port, thread_of, until

INVENTORY = """
(use-modules (ice-9 threads) (system foreign))

(define gettid (pointer->procedure int (dynamic-func "gettid" (dynamic-link)) '()))
(define flag (list-ref (command-line) 1))
(define ledger (make-mutex))
(define sum 0)

(define (now-ns)
  (let ((now (gettimeofday)))
    (* 1000 (+ (* 1000000 (car now)) (cdr now)))))

(define (count-inventory)
  (let ((end (+ (now-ns) 1200000000)))
    (let count ((n 0))
      (set! sum (modulo (+ (* 31 sum) n) 1000003))
      (if (or (positive? (modulo n 1000)) (< (now-ns) end)) (count (+ n 1))))))

(define (count-when-told)
  (usleep 10000)
  (when (file-exists? flag)
    (delete-file flag)
    (with-mutex ledger (count-inventory)))
  (count-when-told))

(define clerk #f)
(call-with-new-thread (lambda () (set! clerk (gettid)) (count-when-told)))
(let wait () (unless clerk (usleep 1000) (wait)))
(format #t "{\\"victim\\": ~a, \\"clerk\\": ~a}~%" (gettid) clerk)
(force-output)

(let sell ()
  (let ((from (now-ns)))
    (with-mutex ledger (set! sum (+ sum 1)))
    (let ((to (now-ns)))
      (when (>= (- to from) 100000000)
        (format #t "{\\"from\\": ~a, \\"to\\": ~a}~%" from to)
        (force-output))))
  (usleep 20000)
  (sell))
"""


@hang("Guile", [r"\bscm_|vm_(regular|debug)_engine|pthread_(mutex|cond)"], True, ["guile"])
def guile_mutex(stage):
    """A thread of Scheme counts with a mutex (with-mutex), which main needs for everything it
    sells."""
    source = stage.folder / "inventory.scm"
    source.write_text(INVENTORY)
    home = os.environ | {"GUILE_AUTO_COMPILE": "0"}
    return by_thread(stage, "clerk", "guile", "-s", source, time_of_day=True, env=home)


LINES = """
local copas, socket = require("copas"), require("socket")

local function count_words(seconds)
  local sum, finish = 0, socket.gettime() + seconds
  while socket.gettime() < finish do
    for n = 1, 1000 do sum = (sum * 31 + n) % 1000003 end
  end
  return sum
end

local function answer_lines(client)
  while true do
    local line = copas.receive(client)
    if not line then return end
    if line == "report" then count_words(0.15) end
    copas.send(client, line .. "\\n")
  end
end

copas.addserver(socket.bind("127.0.0.1", tonumber(arg[1])), answer_lines)
copas.loop()
"""


def has_reports_made(port):
    """Somebody who has a report made again and again."""
    return often(customer(port, "report"), 0.22)


@hang("LuaJIT", [], False, ["luajit"], LATE)
def lua_copas_often(stage):
    """A server of coroutines (Copas) counts words for somebody, again and again, and no other
    coroutine runs meanwhile."""
    if subprocess.run(["luajit", "-e", 'require("copas")'], capture_output=True).returncode:
        raise Missing("lua-copas is not installed")
    port, file = free_port(), stage.folder / "lines.lua"
    file.write_text(LINES)
    server = stage.start("luajit", file, port)
    until("Copas", lambda: connects(port))
    client = stage.rhythm(send, port=port, line="price")
    other = stage.deed(has_reports_made, port=port)
    meanwhile(stage, other)
    return client.repeated(AT_LEAST, culprits=[Who(server.pid)])


def imports_catalogue(path):
    """A program that fills a table in one transaction, and has to fetch things meanwhile."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma busy_timeout = 5000")

    def import_catalogue():
        connection.execute("begin immediate")
        connection.execute("insert into orders values ('catalogue')")
        time.sleep(SECONDS)
        connection.execute("commit")

    return import_catalogue


ORDERS = """
import { Database } from "bun:sqlite";
const [port, path] = process.argv.slice(2);
const database = new Database(path);
database.run("pragma journal_mode = wal");
database.run("pragma synchronous = off");
database.run("pragma busy_timeout = 5000");
database.run("create table if not exists orders (text text)");

function takeOrder() {
  database.run("insert into orders values ('one')");
  return new Response("taken");
}

Bun.serve({ port: Number(port), hostname: "127.0.0.1", fetch: takeOrder });
"""


@hang("Bun", [rf"import_catalogue|sqlite|{SLEEPS}"], lock=True, needs=["bun"])
def bun_sqlite_busy(stage):
    """A server in Bun adds an order to a file of SQLite, which an import has locked: all of it
    waits in the busy handler, as the library has no other way."""
    port, file, path = free_port(), stage.folder / "orders.js", stage.folder / "orders.db"
    file.write_text(ORDERS)
    server = stage.start("bun", file, port, path, env=os.environ | {"HOME": str(stage.folder)})
    until("Bun", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/order")
    other = stage.deed(imports_catalogue, path=path)
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[other.who], others=[Who(server.pid)])


def rotates_journal(path):
    """A program that moves a journal away, and has it locked meanwhile."""

    def rotate_journal():
        with open(path, "ab") as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            time.sleep(SECONDS)

    return rotate_journal


JOURNAL = """
const [port, path] = Deno.args;
const journal = await Deno.open(path, { append: true, create: true });

async function writeEntry() {
  await journal.lock(true);
  await journal.write(new TextEncoder().encode("entry\\n"));
  await journal.unlock();
  return new Response("written");
}

Deno.serve({ port: Number(port), hostname: "127.0.0.1" }, writeEntry);
"""


@hang("Deno", [rf"rotate_journal|\bflock\b|{SLEEPS}"], lock=True, needs=["deno"])
def deno_file_lock(stage):
    """A server in Deno locks its journal for each entry (flock, in a thread for what blocks), and
    another program has that locked."""
    port, file, path = free_port(), stage.folder / "journal.js", stage.folder / "journal"
    file.write_text(JOURNAL)
    home = os.environ | {"DENO_DIR": str(stage.folder / "deno"), "DENO_NO_UPDATE_CHECK": "1"}
    server = stage.start("deno", "run", "--allow-all", file, port, path, env=home)
    until("Deno", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/entry")
    other = stage.deed(rotates_journal, path=path)
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[other.who], others=[Who(server.pid)])


VITE = """
function inlineIcons(seconds) {
  let pixels = 0;
  for (const end = Date.now() + 1000 * seconds; Date.now() < end; )
    for (let n = 0; n < 10000; n++) pixels = (pixels * 31 + n) % 1000003;
  return `export default ${pixels};`;
}

export default {
  plugins: [{
    name: "icons",
    transform(code, id) {
      return id.endsWith("icons.js") ? inlineIcons(1.2) : null;
    },
  }],
  server: { watch: null, hmr: false },
};
"""


@hang("Vite", [r"inlineIcons|transform"], needs=["node", "vite"])
def vite_plugin(stage):
    """A plugin of Vite's development server draws icons for one module, and no other module is
    served meanwhile."""
    port, folder = free_port(), stage.subfolder("site")
    files = {"vite.config.mjs": VITE, "index.html": "<html></html>", "package.json": "{}"}
    files |= {"icons.js": "export default 0;", "page.js": "export default 7;"}
    for name, text in files.items():
        (folder / name).write_text(text)
    vite = pathlib.Path(shutil.which("vite")).resolve()
    options = ["--host", "127.0.0.1", "--port", port, "--strictPort"]
    server = stage.start("node", *NODE_NAMES, vite, *options, cwd=folder)
    stage.closing.callback(pathlib.Path(f"/tmp/perf-{server.pid}.map").unlink, missing_ok=True)
    until("Vite", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/page.js")
    other = stage.deed(web.get, port=port, path="/icons.js")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid, server.pid)])


SERVICE = """
public final class Service {
    private static volatile boolean closing;

    static void finishOrder() {
        long end = System.nanoTime() + 1_200_000_000L;
        while (System.nanoTime() < end) {
            for (int n = 0; n < 1000; n++) {
                Beat.sum = Math.sqrt(Beat.sum + n);
            }
        }
    }

    static void waitForOrders(Thread orders) {
        closing = true;
        try {
            orders.join();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread orders = new Thread(() -> {
            while (!closing) {
                try {
                    Thread.sleep(5);
                } catch (InterruptedException error) {
                    return;
                }
            }
            finishOrder();
        }, "orders");
        orders.start();
        Thread hook = new Thread(() -> waitForOrders(orders), "closing");
        Runtime.getRuntime().addShutdownHook(hook);
        Beat.ready();
        Thread.sleep(60_000);
    }
}
"""


def stops_service(pid):
    """A script that has a service end, and waits until it has."""

    def stop_service():
        handle = os.pidfd_open(pid)
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        # It can be read from when the process has ended, whoever's child that is.
        select.select([handle], [], [])
        os.close(handle)

    return stop_service


CLOSING = rf"finishOrder|waitForOrders|Thread\.join|ApplicationShutdownHooks|sqrt|{WAITS}"


@hang("Java", [CLOSING], needs=JAVA)
def java_shutdown_hook(stage):
    """A script has a service end (SIGTERM), and waits for that (a pidfd). A hook of it
    (addShutdownHook) waits for a thread, which computes."""
    classes, source = stage.subfolder("classes"), stage.folder / "Service.java"
    source.write_text(SERVICE)
    stage.run("javac", "-d", classes, ASSORTED / "Beat.java", source)
    service = Program(stage, "java", "-cp", classes, "Service")
    client = stage.errand(stops_service, pid=service.pid)
    orders = thread_of(service.pid, "orders")
    with stage.recording():
        client.go()
        return client.truth(culprits=[orders], others=[Who(service.pid)])


FRAMES = """
#include "beat.h"
#include <atomic>
#include <latch>
#include <semaphore>

static const char *flag;
static std::latch *finished;
static std::counting_semaphore<8> turns[] = {
	std::counting_semaphore<8>(0), std::counting_semaphore<8>(0), std::counting_semaphore<8>(0)};

__attribute__((noinline)) static void render_strip(bool slow)
{
	compute(slow ? 0.9 : 0.0002);
}

template <int N> static void render_strips()
{
	for (;;) {
		turns[N].acquire();
		render_strip(N == 1 && told(flag));
		finished->count_down();
	}
}

__attribute__((noinline)) static void show_frame()
{
	std::latch *all = new std::latch(3);

	finished = all;
	for (auto &turn : turns)
		turn.release();
	all->wait();
}

int main(int count, char **arguments)
{
	flag = arguments[count - 1];
	start_thread("strip-0", render_strips<0>);
	start_thread("strip-2", render_strips<2>);
	printf("{\\"victim\\": %d, \\"strip\\": %d}\\n", gettid(),
	       start_thread("strip-1", render_strips<1>));
	fflush(stdout);
	rhythm(show_frame);
}
"""


def cpp(stage, name, text, *options):
    """Compiles a program in C++."""
    source, program = stage.folder / f"{name}.cpp", stage.folder / name
    source.write_text(text)
    stage.run(
        *("c++", "-std=c++20", "-O2", "-g", "-pthread", "-I", NATIVE),
        *("-o", program, source, *options),
    )
    return program


@hang(
    "C++",
    [r"render_strips?|show_frame|latch|atomic_(wait|flag)|__waiter|platform_wait"],
    needs=["c++"],
)
def cpp_latch(stage):
    """Main waits at a latch (std::latch) for the last of three threads, which computes."""
    return by_thread(stage, "strip", cpp(stage, "frames", FRAMES))


SAMPLES = """
#include "beat.h"
#include <oneapi/tbb/concurrent_queue.h>

static const char *flag;
static tbb::concurrent_bounded_queue<int> samples;

__attribute__((noinline)) static void store_sample(int)
{
	compute(told(flag) ? 0.9 : 0.0001);
}

static void store_samples()
{
	for (;;) {
		int sample;

		samples.pop(sample);
		store_sample(sample);
	}
}

__attribute__((noinline)) static void take_samples()
{
	for (int n = 0; n < 4; n++)
		samples.push(n);
}

int main(int count, char **arguments)
{
	flag = arguments[count - 1];
	samples.set_capacity(6);
	printf("{\\"victim\\": %d, \\"archive\\": %d}\\n", gettid(),
	       start_thread("archive", store_samples));
	fflush(stdout);
	rhythm(take_samples);
}
"""


@hang("TBB", [r"store_samples?|take_samples|bounded_queue|concurrent_monitor|tbb::"], needs=["c++"])
def tbb_bounded_queue(stage):
    """Who takes out of a queue (concurrent_bounded_queue) computes, so it is full, and main waits
    to put something in."""
    header("oneapi/tbb/concurrent_queue.h", "libtbb-dev")
    return by_thread(stage, "archive", cpp(stage, "samples", SAMPLES, "-ltbb"))
