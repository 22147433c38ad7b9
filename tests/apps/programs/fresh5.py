"""What keeps services waiting in production: a pool of connections behind a row lock, a dump that
goes nowhere, an archive, a log's collector, a server that asks itself, the slowest of three, a file
system that is gone, a daemon that still has a pipe open, a notebook's kernel, and a firewall's
lock."""

import fcntl
import http.server
import multiprocessing
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import actor
import programs.mariadb as mariadb
import programs.postgres as postgres
import web
from actor import told
from hang import Missing, Who, hang
from programs.fresh import jars
from programs.kernel import SECONDS, ticking
from programs.languages import JAVA, WAITS
from programs.languages import SOURCES as ASSORTED
from programs.libraries import package
from programs.native import SOURCES as NATIVE
from programs.native import Program
from programs.once import runs, started
from programs.repeated import AT_LEAST, LATE, meanwhile, often
from programs.runtimes import NODE_NAMES, warehouse
from programs.servers import PYTHON, SLEEPS, browse, until_asleep, write_script
from programs.unfinished import LEAVES, keeps_row
from stage import children, connects, free_port, stop_for_a_while, thread_of, threads, until

# A cell of a notebook that computes.
TRAIN = """
import time

def train_model():
    weight = 0
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        for n in range(1000):
            weight = (weight * 31 + n) % 1000003
    return weight

train_model()
"""


def notebook(file, code):
    """A window of a notebook that has a cell computed, by a kernel that other windows may have."""
    client = package("jupyter_client").BlockingKernelClient(connection_file=file)
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=20)

    def run_cell():
        client.execute(code, silent=True, reply=True, timeout=20)

    return run_cell


@hang("Jupyter", [r"train_model|run_(code|ast_nodes|cell)|do_execute|execute_request"])
def jupyter_busy_kernel(stage):
    """Two windows have the same kernel, which computes a cell of the other one."""
    package("ipykernel")
    file = stage.folder / "kernel.json"
    home = os.environ | {"HOME": str(stage.folder), "IPYTHONDIR": str(stage.folder / "ipython")}
    kernel = stage.start(sys.executable, "-m", "ipykernel_launcher", "-f", file, env=home)
    until("the kernel", lambda: file.exists() and file.read_text().endswith("}"))
    # A client waits until a kernel says nothing for a while, before it is ready.
    other = stage.deed(notebook, file=file, code=TRAIN)
    window = stage.rhythm(notebook, file=file, code="price = 7")
    with stage.recording():
        other.go()
        other.result()
    others = [Who(window.who.pid), *threads(kernel.pid)]
    return window.truth(culprits=[Who(kernel.pid, kernel.pid)], others=others)


ASKS_ITSELF = """<?php
function fetchRates($port) {
    $options = stream_context_create(["http" => ["timeout" => 1.2]]);
    return @file_get_contents("http://127.0.0.1:$port/rates", false, $options);
}
if ($_SERVER["REQUEST_URI"] == "/report") {
    fetchRates($_SERVER["SERVER_PORT"]);
}
echo "page";
"""


@hang("PHP", [r"zif_file_get_contents|php_(stream|sock|network|poll)|_php_stream"], needs=["php"])
def php_calls_itself(stage):
    """A page asks its own server for another page, which has one process: nobody is served until the
    first one gives up."""
    port, page = free_port(), stage.folder / "page.php"
    page.write_text(ASKS_ITSELF)
    server = stage.start("php", "-S", f"127.0.0.1:{port}", page)
    until("PHP", lambda: connects(port))
    client = stage.rhythm(browse, port=port, path="/page")
    other = stage.deed(browse, port=port, path="/report")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid)])


# Runs a command, and prints what that has printed.
DEPLOY = """package main

import (
	"fmt"
	"os"
	"os/exec"
)

func startService(script string) string {
	printed, err := exec.Command("sh", script).CombinedOutput()
	if err != nil {
		panic(err)
	}
	return string(printed)
}

func main() {
	fmt.Print(startService(os.Args[1]))
}
"""
SERVICE = """
sleep 1.8 &
echo $! >{number}
echo started
"""


@hang("Go", [r"startService|exec\.\(\*Cmd\)|CombinedOutput|nanosleep"], needs=["go"])
def go_waits_for_daemons_pipe(stage):
    """A tool in Go has run a script (CombinedOutput), which has ended, but has started a daemon that
    still has the pipe open."""
    source, tool = stage.folder / "deploy.go", stage.folder / "deploy"
    number, script = stage.folder / "number", stage.folder / "start-service"
    source.write_text(DEPLOY)
    script.write_text(SERVICE.format(number=number))
    stage.run("go", "build", "-o", tool, source, env=os.environ | {"GO111MODULE": "off"})
    client = stage.errand(runs, argv=[str(tool), str(script)])
    with stage.recording():
        client.go()
        until("the daemon", lambda: number.exists() and number.read_text())
        tools, _ = started(client.who.pid, "deploy")
        return client.truth(culprits=[Who(int(number.read_text()))], others=tools)


# Copies a finished piece of the log to where it is kept, which is slow once.
ARCHIVES = """#!/bin/sh
if rm '{flag}' 2>/dev/null; then sleep 1.75; fi
"""


def backs_up(port):
    """A backup program, which has copied all files, and ends its backup."""
    connection = postgres.connect(port)
    connection.run("select pg_backup_start('nightly', true)")

    def end_backup():
        connection.run("select pg_backup_stop()")

    return end_backup, postgres.backend_of(connection)


ARCHIVING = r"nanosleep|pgarch|PgArch|archive_command|shell_archive|pg_backup_stop|wait4|waitpid"


@hang("PostgreSQL", [ARCHIVING], needs=postgres.NEEDS)
def postgres_backup_waits_for_archive(stage):
    """A backup ends when the last piece of the log has been archived, and the command for that
    (archive_command) is slow. The backend looks once a second."""
    flag = stage.subfolder("archive", postgres.USER) / "slow"
    script = write_script(stage.folder / "archive-log", ARCHIVES.format(flag=flag))
    command = ["-c", "archive_mode=on", "-c", f"archive_command={script} %p"]
    port = postgres.server(stage, *command)
    client = stage.errand(backs_up, port=port)
    monitor = postgres.connect(port)
    archived = "select true from pg_stat_archiver where archived_count > 0"
    pieces = stage.folder / "data/pg_wal/archive_status"
    until("the archive", lambda: monitor.run(archived) and not list(pieces.glob("*.ready")))
    (archiver,), *_ = monitor.run(
        "select pid from pg_stat_activity where backend_type = 'archiver'"
    )
    with stage.recording():
        flag.touch()
        client.go()
        culprits = until_asleep("archive-log")
        shells = [who for who in children(archiver) if who.pid not in {c.pid for c in culprits}]
        others = [Who(client.facts["backend"]), Who(archiver), *shells]
        return client.truth(culprits=culprits, others=others)


LOGS = r"write_pipe_chunks|send_message_to_server_log|EmitErrorReport|errfinish|SysLogger|exec_\w+"


@hang("PostgreSQL", [LOGS], needs=postgres.NEEDS)
def postgres_log_collector(stage):
    """Somebody has stopped the process that collects a server's log, so the pipe to that is full, and
    each statement that is logged waits."""
    logs = ["-c", "logging_collector=on", "-c", "log_statement=all", "-c", "log_directory=log"]
    port = postgres.server(stage, *logs)
    statement = f"select amount from accounts where id = 7 /* {'order ' * 1000} */"
    client = stage.rhythm(postgres.ask, port=port, statement=statement)
    server = int((stage.folder / "data/postmaster.pid").read_text().split()[0])
    (collector,) = (
        who
        for who in children(server)
        if b"logger" in pathlib.Path(f"/proc/{who.pid}/cmdline").read_bytes()
    )
    with stage.recording():
        somebody = stop_for_a_while(collector.pid, 1.8)
    backend = Who(client.facts["backend"])
    return client.truth(culprits=[collector, somebody], others=[backend])


def with_letters(path):
    """Fills a table that is larger than all buffers on the way."""
    connection = mariadb.connect(path)
    mariadb.run(connection, "create table letters (id int primary key, text text) engine=InnoDB")
    text = "repeat('Dear Sir ', 200)"
    mariadb.run(connection, f"insert into letters select seq, {text} from seq_1_to_8000")
    return lambda: None


def uploads(path):
    """A program that uploads what comes out of a named pipe, and is slow with the first part."""

    def upload_part(part, seconds):
        time.sleep(seconds)
        return len(part)

    def upload_dump():
        with open(path, "rb", buffering=0) as dump:
            seconds = 1.6
            while part := dump.read(65536):
                upload_part(part, seconds)
                seconds = 0

    return upload_dump


DUMPS = rf"upload_(part|dump)|net_(real_)?write|vio_(write|io_wait)|send_result|{SLEEPS}"


@hang("MariaDB", [*mariadb.WAITS, DUMPS], lock=True, needs=[*mariadb.NEEDS, "mariadb-dump"])
def mariadb_dump_into_slow_upload(stage):
    """A client waits for the lock that a dump has of all tables. The server's thread for that waits
    for mariadb-dump, and that for a program that uploads slowly."""
    pid, path = mariadb.server(stage)
    pipe = stage.folder / "dump"
    os.mkfifo(pipe)
    stage.deed(with_letters, path=path)
    client = stage.rhythm(mariadb.pay, path=path)
    upload = stage.deed(uploads, path=pipe)
    monitor = mariadb.connect(str(path))
    statement = (
        "select tid from information_schema.processlist"
        " where info like '%SQL_NO_CACHE%letters%' and id <> connection_id()"
    )
    with stage.recording():
        upload.go()
        with open(pipe, "wb") as output:
            options = ["--no-defaults", f"--socket={path}", "--user=root"]
            dump = stage.start("mariadb-dump", *options, "test", stdout=output)
        (thread,), *_ = until("the dump", lambda: mariadb.run(monitor, statement))
        upload.result()
    others = [Who(dump.pid), Who(pid, thread), Who(pid, client.facts["thread"])]
    return client.truth(culprits=[upload.who], others=others)


ACCOUNTS = """
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.Statement;

public final class Accounts {
    private static HikariDataSource pool;

    static void run(String statement) throws Exception {
        try (Connection connection = pool.getConnection(); Statement any = connection.createStatement()) {
            any.execute(statement);
        }
    }

    static void showAccount() throws Exception {
        run("select amount from accounts where id = 8");
    }

    static void bookPayment() throws Exception {
        run("update accounts set amount = amount + 1 where id = 7");
    }

    public static void main(String[] arguments) throws Exception {
        HikariConfig settings = new HikariConfig();
        settings.setJdbcUrl("jdbc:postgresql://127.0.0.1:" + arguments[0] + "/postgres");
        settings.setUsername("postgres");
        settings.setMaximumPoolSize(1);
        pool = new HikariDataSource(settings);
        showAccount();
        Beat.rhythm(Accounts::showAccount);
        Beat.start("payments", () -> {
            Beat.waitFor(arguments[1]);
            bookPayment();
            Thread.sleep(60_000);
        });
        Beat.ready();
    }
}
"""
POOLED = rf"Hikari|ConcurrentBag|bookPayment|showAccount|SynchronousQueue|{WAITS}"


@hang("HikariCP", [*LEAVES, POOLED], lock=True, needs=[*JAVA, *postgres.NEEDS])
def hikari_pool_to_row_lock(stage):
    """A thread waits for the only connection of a pool, which another one has, whose backend waits for
    a row that somebody else has locked."""
    jars("HikariCP*.jar", "libhikaricp-java")
    path = jars("postgresql*.jar", "libpostgresql-jdbc-java")
    port, classes, flag = postgres.server(stage), stage.subfolder("classes"), stage.folder / "now"
    source = stage.folder / "Accounts.java"
    source.write_text(ACCOUNTS)
    stage.run("javac", "-d", classes, "-cp", path, ASSORTED / "Beat.java", source)
    program = Program(stage, "java", "-cp", f"{classes}:{path}", "Accounts", port, flag)
    victim, payments = (thread_of(program.pid, name) for name in ("heartbeat", "payments"))
    holder = stage.deed(keeps_row, port=port, seconds=1.6)
    monitor = postgres.connect(port)
    jdbc = "select pid from pg_stat_activity where application_name like '%JDBC%'"
    (backend,), *_ = monitor.run(jdbc)
    with stage.recording():
        holder.go()
        time.sleep(0.2)
        program.hang(flag)
    culprits = [holder.who, Who(holder.facts["backend"])]
    return program.truth(culprits, [payments, Who(backend)], victim)


RACK = """
require "socket"

def count_everything
  TCPSocket.open("127.0.0.1", {behind}) do |warehouse|
    warehouse.puts "how many"
    warehouse.gets
  end
end

run(lambda do |request|
  count_everything if request["PATH_INFO"] == "/stock"
  [200, {{ "Content-Type" => "text/plain" }}, ["page"]]
end)
"""


@hang("Puma", [rf"count_stock|count_everything|{SLEEPS}"], needs=["puma"])
def puma_threads_of_slow_service(stage):
    """Both threads of a web server in Ruby wait for a slow service, and a page waits in its queue."""
    port, behind, file = free_port(), free_port(), stage.folder / "config.ru"
    file.write_text(RACK.format(behind=behind))
    service = stage.actor("deed", warehouse, port=behind)
    address = ["-t", "2:2", "-e", "production", "-b", f"tcp://127.0.0.1:{port}"]
    server = stage.start("puma", *address, file)
    until("Puma", lambda: connects(port))
    client = stage.rhythm(browse, port=port, path="/page")
    others = [stage.deed(browse, port=port, path="/stock") for _ in range(2)]
    with stage.recording():
        for other in others:
            other.go()
        for other in others:
            other.result()
    return client.truth(culprits=[Who(service.who.pid)], others=[Who(server.pid)])


SEARCHES = """
use strict;
use IO::Poll qw(POLLIN);
use IO::Socket::INET;
use Time::HiRes qw(clock_gettime usleep CLOCK_MONOTONIC);

$| = 1;
my @shards = map { IO::Socket::INET->new(PeerAddr => "127.0.0.1:$_") or die "$_: $!" } @ARGV;

sub search_everywhere {
    my $poll = IO::Poll->new;
    for my $shard (@shards) {
        syswrite $shard, "apples\\n";
        $poll->mask($shard => POLLIN);
    }
    while ($poll->handles) {
        $poll->poll;
        for my $shard ($poll->handles(POLLIN)) {
            sysread $shard, my $found, 100;
            $poll->remove($shard);
        }
    }
}

print qq({"victim": $$}\\n);
while (1) {
    my $from = clock_gettime(CLOCK_MONOTONIC);
    search_everywhere();
    my $to = clock_gettime(CLOCK_MONOTONIC);
    printf qq({"from": %.0f, "to": %.0f}\\n), $from * 1e9, $to * 1e9 if $to - $from >= 0.1;
    usleep(20_000);
}
"""


def shard(port, flag):
    """A service that has a third of everything, and searches that."""
    listener = socket.create_server(("127.0.0.1", port))

    def search_shard():
        connection, _ = listener.accept()
        for line in connection.makefile("rb"):
            if told(flag):
                time.sleep(SECONDS)
            connection.sendall(line)

    threading.Thread(target=search_shard, daemon=True).start()
    return ticking()


@hang("Perl", [rf"search_shard|{SLEEPS}"], needs=["perl"])
def perl_slowest_of_three(stage):
    """A program asks three services at once, and waits (poll) until all of them have answered; one is
    slow."""
    file, flags, ports = stage.folder / "search.pl", [], []
    file.write_text(SEARCHES)
    services = []
    for n in range(3):
        flags.append(stage.folder / f"slow{n}")
        ports.append(free_port())
        services.append(stage.actor("deed", shard, port=ports[n], flag=flags[n]))
    program = Program(stage, "perl", file, *ports)
    with stage.recording():
        program.hang(flags[1])
    return program.truth([Who(services[1].who.pid)])


ORBITS = """
module orbits
  use iso_c_binding
  use iso_fortran_env, only: int64
  implicit none
  real(8) :: position = 0.5d0
contains
  subroutine predict_orbits() bind(c)
    integer(int64) :: now, finish, rate
    integer :: step
    !$omp critical (ephemeris)
    call system_clock(finish, rate)
    finish = finish + 12 * rate / 10
    do
      do step = 1, 10000
        position = 3.9d0 * position * (1 - position)
      end do
      call system_clock(now)
      if (now >= finish) exit
    end do
    !$omp end critical (ephemeris)
  end subroutine

  subroutine read_position(place) bind(c)
    real(c_double) :: place
    !$omp critical (ephemeris)
    place = position
    !$omp end critical (ephemeris)
  end subroutine
end module
"""
TELESCOPE = """
#include "beat.h"

void predict_orbits(void);
void read_position(double *place);

static const char *flag;
static volatile double place;

static void predict_when_told(void)
{
	for (;;) {
		if (told(flag))
			predict_orbits();
		usleep(10000);
	}
}

static void point_telescope(void)
{
	double now;

	read_position(&now);
	place = now;
}

int main(int count, char **arguments)
{
	flag = arguments[count - 1];
	printf("{\\"victim\\": %d, \\"predictor\\": %d}\\n", gettid(),
	       start_thread("predictor", predict_when_told));
	fflush(stdout);
	rhythm(point_telescope);
}
"""


@hang(
    "Fortran",
    [r"predict_orbits|read_position|GOMP_critical|gomp_mutex"],
    lock=True,
    needs=["gfortran"],
)
def fortran_critical(stage):
    """A thread computes in a critical section of OpenMP, which main needs, too."""
    library, source = stage.folder / "orbits.f90", stage.folder / "telescope.c"
    library.write_text(ORBITS)
    source.write_text(TELESCOPE)
    program, flag = stage.folder / "telescope", stage.folder / "now"
    options = ["-O2", "-g", "-fopenmp", "-pthread", "-I", NATIVE]
    stage.run("gfortran", *options, "-o", program, source, library)
    telescope = Program(stage, program, flag)
    with stage.recording():
        telescope.hang(flag)
    return telescope.truth([telescope.thread("predictor")])


MAPS = """
#[path = "{beat}"]
mod beat;
use std::sync::{{Arc, Mutex}};

#[inline(never)]
fn render_map(map: &Mutex<Vec<u8>>, command: &str) {{
    let mut map = map.lock().unwrap();
    *map = std::process::Command::new(command).output().unwrap().stdout;
}}

#[inline(never)]
fn show_map(map: &Mutex<Vec<u8>>) {{
    std::hint::black_box(map.lock().unwrap().len());
}}

fn main() {{
    let mut arguments = std::env::args().skip(1);
    let (command, flag) = (arguments.next().unwrap(), arguments.next().unwrap());
    let map = Arc::new(Mutex::new(Vec::new()));
    let other = map.clone();
    let renderer = beat::start("renderer", move || loop {{
        if beat::told(&flag) {{
            render_map(&other, &command);
        }}
        std::thread::sleep(std::time::Duration::from_millis(10));
    }});
    println!("{{{{\\"victim\\": {{}}, \\"renderer\\": {{renderer}}}}}}", beat::thread_id());
    beat::rhythm(|| show_map(&map));
}}
"""
RENDERS = """#!/bin/sh
sleep 1.2
echo map
"""


@hang("Rust", [r"nanosleep|render_map|show_map|Mutex|Command"], lock=True, needs=["rustc"])
def rust_mutex_while_command_runs(stage):
    """Main waits for a mutex, with which another thread waits for a command, which sleeps."""
    source, program, flag = (stage.folder / name for name in ("maps.rs", "maps", "now"))
    source.write_text(MAPS.format(beat=ASSORTED / "beat.rs"))
    command = write_script(stage.folder / "render-map", RENDERS)
    options = ["-C", "opt-level=2", "-g", "--edition", "2021", "-o", program]
    stage.run("rustc", *options, source, env=os.environ)
    maps = Program(stage, program, command, flag)
    with stage.recording():
        flag.touch()
        # Its name is an argument of the program, too.
        culprits = [who for who in until_asleep("render-map") if who.pid != maps.pid]
        until("the hang", maps.longest)
    return maps.truth(culprits, [maps.thread("renderer")])


def receives_uploads(port):
    """A web server that takes what is sent to it, and does not know that it should say that it will
    (100 Continue)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.take_upload(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def take_upload(self, length):
            self.rfile.read(length)

        def log_message(self, *_):
            """Silent."""

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return ticking()


UPLOAD = r"do_POST|take_upload|readinto|sock_recv|curl_\w+|multi_\w+|Curl_\w+"


@hang("curl", [UPLOAD], needs=["curl"])
def curl_waits_for_continue(stage):
    """curl asks whether it may send something big (Expect: 100-continue), which the server does not
    answer; after a second, curl sends it. Each waits for the other."""
    port, file = free_port(), stage.folder / "film"
    file.write_bytes(os.urandom(3_000_000))
    server = stage.actor("deed", receives_uploads, port=port)
    until("the server", lambda: connects(port))
    upload = ["curl", "--silent", "--data-binary", f"@{file}", f"http://127.0.0.1:{port}/film"]
    client = stage.errand(runs, argv=upload)
    with stage.recording():
        client.go()
        curl, _ = started(client.who.pid, "curl")
        return client.truth(culprits=[Who(server.who.pid), *curl], others=curl)


def reloads_rules(path):
    """A firewall's daemon, which makes all rules anew, and has the lock of iptables meanwhile."""

    def reload_rules():
        with open(path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            time.sleep(1.6)

    return reload_rules


@hang(
    "iptables",
    [rf"reload_rules|xtables_lock|\bflock\b|{SLEEPS}"],
    lock=True,
    needs=["iptables-legacy"],
)
def iptables_lock(stage):
    """A firewall's daemon has the lock that all have that change rules, and iptables -w waits."""
    lock = stage.folder / "xtables.lock"
    lock.touch()
    # Not every kernel has tables: it comes to them only when it has the lock.
    listing = "iptables-legacy -w -L -n || true"
    client = stage.errand(runs, argv=["sh", "-c", listing], XTABLES_LOCKFILE=str(lock))
    holder = stage.deed(reloads_rules, path=lock)
    with stage.recording():
        holder.go()
        time.sleep(0.2)
        client.go()
        waits, others = started(client.who.pid, "iptables-legacy")
        return client.truth(culprits=[holder.who], others=[*waits, *others])


ALBUM = """
"use strict";
const fs = require("node:fs"), http = require("node:http");
const [port, page, drive] = process.argv.slice(2);

function showPage(response) {
  fs.readFile(page, (error, text) => response.end(text));
}

function measurePhoto(response, name) {
  fs.stat(`${drive}/${name}`, (error, found) => response.end(error ? "none" : `${found.size}`));
}

http.createServer((request, response) => {
  if (request.url === "/page") showPage(response);
  else measurePhoto(response, request.url.slice(1));
}).listen(Number(port), "127.0.0.1");
"""


@hang(
    "Node.js",
    [r"uv__fs|uv_fs_|FSReqCallback|measurePhoto|showPage|\bstatx?\b|fuse_(session|lib|reply|dev)"],
    needs=["node", "bindfs", "fusermount3"],
)
def node_pool_on_dead_drive(stage):
    """All threads of the pool ask a file system whose program somebody has stopped, and a local page
    cannot be read."""
    real, drive, page = stage.subfolder("real"), stage.subfolder("drive"), stage.folder / "page"
    page.write_text("page")
    for n in range(4):
        (real / f"photo{n}").write_text("a photo")
    options = ["-f", "-o", "attr_timeout=0,entry_timeout=0,negative_timeout=0"]
    files = stage.start("bindfs", *options, real, drive)
    stage.closing.callback(subprocess.run, ["umount", "-l", drive])
    until("bindfs", lambda: os.path.ismount(drive))
    port, file = free_port(), stage.folder / "album.js"
    file.write_text(ALBUM)
    server = stage.start("node", *NODE_NAMES, file, port, page, drive)
    until("Node.js", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/page")
    visitors = [stage.deed(web.get, port=port, path=f"/photo{n}") for n in range(4)]
    stage.closing.callback(os.kill, files.pid, signal.SIGCONT)
    with stage.recording():
        os.kill(files.pid, signal.SIGSTOP)
        for visitor in visitors:
            visitor.go()
        time.sleep(1.4)
        os.kill(files.pid, signal.SIGCONT)
        for visitor in visitors:
            visitor.result()
    somebody = Who(os.getpid(), threading.get_native_id(), "test-apps")
    return client.truth(culprits=[Who(files.pid), somebody], others=[Who(server.pid)])


def make_report(queue):
    """What the child does; its queue's thread sends what is longer than a pipe."""
    actor.name_process("report")
    queue.put("x" * 1_000_000)


def reporting():
    """A program that has a child make something, waits for its end, and would get it then."""

    def wait_for_report():
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=make_report, args=(queue,))
        child.start()
        child.join()
        return len(queue.get())

    return wait_for_report


JOINS = (
    r"wait_for_report|make_report|\bjoin\b|popen_fork|\bpoll\b|waitpid|wait4|pipe_write"
    r"|_feed|_send(_bytes)?\b|_finalize_join|_exit_function|_bootstrap"
)


@hang("Python multiprocessing", [JOINS])
def python_join_before_get(stage):
    """A program waits for the end of a child before it takes from the queue what that has put there,
    and the child cannot end until somebody does. Each is to blame for the other."""
    program = stage.errand(reporting)
    with stage.recording(after=1.8):
        program.go()
        child, _ = started(program.who.pid, "report")
    return program.unfinished(culprits=[program.who, *child])


LOGINS = """
import gevent.monkey
gevent.monkey.patch_all()
import hashlib, sys, time
from gevent.pywsgi import WSGIServer

began = time.monotonic()
hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 50_000)
ROUNDS = int(50_000 * 0.16 / (time.monotonic() - began))

def check_password():
    hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", ROUNDS)

def application(environ, start_response):
    if environ["PATH_INFO"] == "/login":
        check_password()
    start_response("200 OK", [("Content-Length", "4")])
    return [b"page"]

WSGIServer(("127.0.0.1", int(sys.argv[1])), application, log=None).serve_forever()
"""


def logs_in(port):
    """Somebody who logs in again and again."""
    return often(browse(port, "/login"), 0.22)


@hang("gevent", [r"check_password|(?i:pbkdf2|hmac|sha512|EVP_)"], at_least=LATE)
def gevent_hashes_often(stage):
    """A greenlet hashes a password for 160 ms, again and again, and no other one runs meanwhile."""
    if subprocess.run([PYTHON, "-c", "import gevent"], capture_output=True).returncode:
        raise Missing("python3-gevent is not installed")
    port, file = free_port(), stage.folder / "logins.py"
    file.write_text(LOGINS)
    server = stage.start(PYTHON, file, port)
    until("gevent", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/page")
    other = stage.deed(logs_in, port=port)
    meanwhile(stage, other)
    return client.repeated(AT_LEAST, culprits=[Who(server.pid, server.pid)])
