"""What everybody has on a machine or behind a service: a passphrase dialog, an editor, services that a bus
starts, replicas, pools that are too small, and locks of languages and of libraries."""

import os
import pathlib
import socket
import sqlite3
import struct
import subprocess
import sys
import time

import programs.postgres as postgres
import programs.redis as redis
import web
from hang import Truth, Who, hang
from programs.desktop import NAME, bus_client
from programs.kernel import SECONDS
from programs.native import SOURCES, Program, between_threads, compiled, header
from programs.servers import SLEEPS, browse, script, until_asleep, write_script
from programs.shell import LZMA, life, numbers
from programs.sqlite import LIBRARY, connect
from stage import HERE, children, connects, free_port, stop_for_a_while, thread_of, threads, until

FPM = """
[global]
error_log = {folder}/fpm.log
daemonize = no
[www]
user = nobody
listen = 127.0.0.1:{port}
pm = static
pm.max_children = 2
"""
PAGE = """<?php
if ($_SERVER["REQUEST_URI"] == "/report") {
    usleep(1200000);
}
echo getmypid();
"""


def fastcgi(port, file, path="/"):
    """A web server that has PHP make a page: one connection and one request, as nginx does."""

    def record(kind, body=b""):
        return struct.pack("!BBHHBB", 1, kind, 1, len(body), 0, 0) + body

    wanted = {"SCRIPT_FILENAME": file, "REQUEST_METHOD": "GET", "REQUEST_URI": path}
    names = [(name.encode(), value.encode()) for name, value in wanted.items()]
    parameters = b"".join(bytes([len(name), len(value)]) + name + value for name, value in names)
    # The request begins, its parameters and their end, its empty body.
    request = record(1, bytes([0, 1, 0, 0, 0, 0, 0, 0])) + record(4, parameters)
    request += record(4) + record(5)

    def ask_php():
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(request)
            answer = b""
            while part := connection.recv(4096):
                answer += part
            return answer.decode("latin-1")

    return ask_php


def fpm():
    """The program, whose name has the version in it."""
    folders = [pathlib.Path(each) for each in os.environ["PATH"].split(":")]
    return next((file for each in folders for file in each.glob("php-fpm[0-9]*")), "php-fpm")


@hang("PHP-FPM", [r"usleep|nanosleep"])
def php_fpm_children(stage):
    """All processes of the pool make slow pages (pm.max_children), and nobody accepts."""
    port, file, page = free_port(), stage.folder / "fpm.conf", stage.folder / "page.php"
    page.write_text(PAGE)
    file.write_text(FPM.format(folder=stage.folder, port=port))
    server = stage.start(fpm(), "--nodaemonize", "--fpm-config", file)
    until("PHP-FPM", lambda: connects(port) and len(children(server.pid)) == 2)
    client = stage.rhythm(fastcgi, port=port, file=page)
    others = [stage.deed(fastcgi, port=port, file=page, path="/report") for _ in range(2)]
    workers = children(server.pid)
    with stage.recording():
        for other in others:
            other.go()
        for other in others:
            other.result()
    return client.truth(culprits=workers, others=[Who(server.pid)])


# Speaks the protocol of GnuPG's dialogs, and is as slow as whoever looks for the passphrase.
PINENTRY = """#!/bin/sh
echo "OK"
while read -r command rest; do
    case $command in
    GETPIN)
        if rm '{flag}' 2>/dev/null; then sleep 1.2; fi
        echo "D secret"
        echo "OK" ;;
    BYE) echo "OK"; exit ;;
    *) echo "OK" ;;
    esac
done
"""
AGENT = """
pinentry-program {folder}/pinentry-desk
default-cache-ttl 0
max-cache-ttl 0
s2k-count 65536
"""


@hang("GnuPG", [r"nanosleep"], needs=["gpg", "gpg-agent", "gpg-connect-agent", "gpgconf"])
def gpg_pinentry(stage):
    """A script signs packages, and the dialog for the passphrase is not answered at once."""
    home, flag = stage.subfolder("gnupg"), stage.folder / "slow"
    home.chmod(0o700)
    write_script(stage.folder / "pinentry-desk", PINENTRY.format(flag=flag))
    (home / "gpg-agent.conf").write_text(AGENT.format(folder=stage.folder))
    (stage.folder / "package").write_text("a package")
    stage.closing.callback(subprocess.run, ["gpgconf", "--homedir", home, "--kill", "gpg-agent"])
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--yes"]
    key = ["--pinentry-mode", "loopback", "--passphrase", "secret", "--quick-gen-key", "shop"]
    stage.run(*gpg, *key, "ed25519", "sign", "never")
    asked = stage.run("gpg-connect-agent", "--homedir", home, "getinfo pid", "/bye")
    agent = Who(int(asked.split()[1]))
    sign = [*gpg, "--output", "/dev/null", "--sign", str(stage.folder / "package")]
    client = stage.rhythm(script, argv=sign)
    with stage.recording(after=2):
        flag.touch()
        dialog = until_asleep("pinentry-desk")
    longest = client.longest()
    others = [agent, Who(longest["result"])]
    return Truth(client.who, longest["from"], longest["to"], dialog, others)


@hang("Vim", [*LZMA, r"call_shell|wait4pid"], needs=["vim", "xz"])
def vim_on_save(stage):
    """An editor runs a command for each file that it saves, and waits for it."""
    file = numbers(stage, 170_000)
    on_save = f"autocmd BufWritePost * silent !xz -T1 -3 -k -f {file}"
    with stage.recording():
        options = ["-N", "-u", "NONE", "-i", "NONE", "-es", "-c", on_save, "-c", "wq"]
        editor = stage.start("vim", *options, file)
        command = until("the command", lambda: children(editor.pid))
        return life(editor, culprits=command)


def dictionary_service(stage, path):
    """A description of the service, for the bus."""
    services = stage.subfolder("services")
    program = f"{sys.executable} {HERE}/sources/dictionary.py"
    command = f"{program} unix:path={path} {NAME} {stage.folder}"
    text = f"[D-BUS Service]\nName={NAME}\nExec={command}\n"
    (services / f"{NAME}.service").write_text(text)
    return services


BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={path}</listen>
  <servicedir>{services}</servicedir>
  <policy context="default">
    <allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/>
  </policy>
</busconfig>
"""


@hang("D-Bus", [rf"load_words|{SLEEPS}"], needs=["dbus-daemon"])
def dbus_activation(stage):
    """The bus starts a service because somebody calls it, and that is slow to start."""
    path, pid, file = (stage.folder / name for name in ("bus", "pid", "bus.conf"))
    file.write_text(BUS.format(path=path, services=dictionary_service(stage, path)))
    daemon = stage.start("dbus-daemon", "--nofork", f"--config-file={file}")
    until("the bus", lambda: path.exists() and connects(path))
    client = stage.rhythm(bus_client, address=f"unix:path={path}")
    first = until("the service", lambda: pid.exists() and pid.read_text())
    with stage.recording(after=3):
        (stage.folder / "slow").touch()
        (stage.folder / "leave").touch()
        until("the new service", lambda: pid.read_text() not in ("", first))
    service = Who(int(pid.read_text()))
    return client.truth(culprits=[service], others=[Who(daemon.pid)])


def store(port):
    """A client that writes a key, and waits until the replica has it."""
    connection = redis.connect(port)

    def write_safely():
        redis.ask(connection, "set balance 7")
        redis.ask(connection, "wait 1 0")

    return write_safely


def debug_sleep(port):
    """Keeps a server busy."""
    connection = redis.connect(port)
    return lambda: redis.ask(connection, f"debug sleep {SECONDS}")


@hang("Redis", [r"debugCommand|nanosleep"], needs=redis.REDIS)
def redis_wait_replica(stage):
    """A client waits until a replica has what it wrote, and that one does something else."""
    ports = free_port(), free_port()
    options = ["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"]
    options += ["--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]
    servers = []
    for name, port in zip(("primary", "replica"), ports):
        folder = stage.subfolder(name, "nobody")
        argv = ["redis-server", "--port", port, "--dir", folder, *options]
        servers.append(stage.start(*argv, user="nobody"))
        until("Redis", lambda: connects(port))
    replica = redis.connect(ports[1])
    redis.ask(replica, f"replicaof 127.0.0.1 {ports[0]}")
    primary = redis.connect(ports[0])
    redis.ask(primary, "set balance 1")
    until("the replica", lambda: redis.ask(primary, "wait 1 500").strip() == ":1")
    client = stage.rhythm(store, port=ports[0])
    other = stage.deed(debug_sleep, port=ports[1])
    with stage.recording():
        other.go()
        other.result()
    behind = Who(servers[1].pid, servers[1].pid)
    return client.truth(culprits=[behind], others=[Who(servers[0].pid)])


@hang("PostgreSQL", [postgres.REPLICATION], needs=postgres.STANDBY_NEEDS)
def postgres_standby(stage):
    """A commit waits for the synchronous standby, whose receiver somebody has stopped."""
    primary = postgres.server(stage)
    receiver, sender = postgres.standby(stage, primary)
    client = stage.rhythm(postgres.pay, port=primary)
    with stage.recording():
        somebody = stop_for_a_while(receiver.pid)
    others = [Who(client.facts["backend"]), sender]
    return client.truth(culprits=[receiver, somebody], others=others)


def write_ahead(path):
    """A program that saves a note, and moves the log of the database into it (WAL)."""
    connection = connect(path)
    connection.execute("pragma journal_mode = wal")

    def save_note():
        connection.execute("insert or replace into notes values (1, 'note')")
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()

    return save_note


def long_reader(path):
    """A program that reads the database, and thinks in the midst of that."""
    connection = sqlite3.connect(path, isolation_level=None)

    def read_notes():
        connection.execute("begin")
        connection.execute("select * from notes").fetchall()
        time.sleep(SECONDS)
        connection.execute("commit")

    return read_notes


@hang("SQLite", [*LIBRARY, rf"read_notes|save_note|{SLEEPS}"], lock=True)
def sqlite_checkpoint(stage):
    """A checkpoint waits until a reader has ended its transaction."""
    path = stage.folder / "notes.db"
    writer = stage.rhythm(write_ahead, path=path)
    reader = stage.deed(long_reader, path=path)
    with stage.recording():
        reader.go()
        reader.result()
    return writer.truth(culprits=[reader.who])


RUBY = r"write_report|rb_\w*mutex|mutex_(lock|sleep|sync)|rb_f_sleep|sleep_hrtime"


@hang("Ruby", [RUBY], lock=True, needs=["ruby"])
def ruby_mutex(stage):
    """A thread of a server sleeps with a mutex that all others need."""
    port = free_port()
    server = stage.start("ruby", HERE / "sources/till.rb", port)
    until("Ruby", lambda: connects(port))
    client = stage.rhythm(web.get, port=port, path="/sale")
    other = stage.deed(browse, port=port, path="/report")
    with stage.recording():
        other.go()
        holder = Who(server.pid, int(other.result()["result"]))
    others = [Who(server.pid, server.pid), *threads(server.pid)]
    return client.truth(culprits=[holder], others=[who for who in others if who != holder])


MONITOR = r"CountShelves|TakeInventory|SellArticle|(?i:mono_monitor)"


@hang("Mono", [MONITOR], lock=True, needs=["mono", "mcs"])
def mono_monitor(stage):
    """A thread of .NET computes inside `lock`."""
    program, flag = stage.folder / "stock.exe", stage.folder / "now"
    stage.run("mcs", f"-out:{program}", SOURCES / "Stock.cs")
    stock = Program(stage, "mono", "--jitmap", program, flag)
    stage.closing.callback(pathlib.Path(f"/tmp/perf-{stock.pid}.map").unlink, missing_ok=True)
    victim, counting = (thread_of(stock.pid, name) for name in ("heartbeat", "inventory"))
    with stage.recording():
        stock.hang(flag)
    return stock.truth([counting], victim=victim)


NESTED = r"chargeCard|bookPayment|FutureTask|LockSupport|\b[pP]ark"


@hang("Java", [NESTED], needs=["java", "javac"])
def java_pool_waits_for_itself(stage):
    """A task waits for another one of the same executor, whose only thread it has itself."""
    classes, flag = stage.subfolder("classes"), stage.folder / "now"
    stage.run("javac", "-d", classes, SOURCES / "Payments.java")
    program = Program(stage, "java", "-cp", classes, "Payments", flag)
    victim, pool = (thread_of(program.pid, name) for name in ("heartbeat", "payments"))
    with stage.recording():
        program.hang(flag)
    return program.truth([pool], victim=victim)


LEDGER = r"import_entries|post_entry|\b__(lock|db|bam|txn|memp)_\w+"


@hang("Berkeley DB", [LEDGER], lock=True, needs=["cc"])
def berkeley_db_page(stage):
    """A process keeps a page of a database locked, while it asks a bank."""
    header("db.h", "libdb-dev")
    flag = stage.folder / "now"
    ledger = compiled(stage, "ledger.c", "-ldb")
    program = Program(stage, ledger, stage.subfolder("entries"), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(program.facts["importer"])])


@hang("ZeroMQ", [r"find_faces|detect_faces|send_frame|\bzmq"], needs=["cc"])
def zeromq_high_water(stage):
    """Who receives computes, so a queue is as full as it may be (ZMQ_SNDHWM), and who sends waits."""
    header("zmq.h", "libzmq3-dev")
    return between_threads(stage, "frames.c", "detector", "-lzmq")
