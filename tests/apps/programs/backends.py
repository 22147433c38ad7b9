"""What applications talk to: databases, a log of writes on a slow disk, brokers, a mail server, caches,
sound, and servers that serve one after the other."""

import base64
import contextlib
import ctypes
import grp
import http.client
import http.server
import importlib.util
import json
import os
import pathlib
import pwd
import re
import shutil
import smtplib
import socket
import ssl
import subprocess
import sys
import threading
import time
import xmlrpc.client

import programs.mariadb as mariadb
import programs.postgres as postgres
import programs.redis as redis
from actor import told
from hang import DidNotHang, Missing, Truth, Who, hang
from programs.everyday import FPM, fastcgi, fpm
from programs.kernel import SECONDS, ticking
from programs.native import Program, compiled, header
from programs.servers import SLEEPS, browse, pages, until_asleep, write_script
from programs.storage import MEBIBYTE, copier, disk
from stage import children, connects, free_port, thread_of, threads, until


def old_table(path):
    """Makes a table of the engine of old, which has one lock for all of a table."""
    connection = mariadb.connect(path)
    mariadb.run(connection, "create table visits (id int primary key, hash int) engine=MyISAM")
    mariadb.run(connection, "insert into visits select seq, 0 from seq_1_to_3")
    began = time.monotonic()
    mariadb.run(connection, "select benchmark(200000, sha1('visit'))")
    speed = 200_000 / (time.monotonic() - began)
    return lambda: None, {"speed": speed}


def visits(path):
    """A client that reads a row of it."""
    connection = mariadb.connect(path)

    def read_visit():
        mariadb.run(connection, "select hash from visits where id = 2")

    return read_visit, mariadb.thread_of_connection(connection)


def statistics(path, rounds):
    """A client whose UPDATE computes for long."""
    connection = mariadb.connect(path)

    def update_visits():
        mariadb.run(connection, f"update visits set hash = benchmark({rounds}, sha1('visit')) where id = 1")

    return update_visits, mariadb.thread_of_connection(connection)


TABLE_LOCK = (
    r"thr_(multi_)?lock|wait_for_lock|mysql_lock_tables|lock_external|lock_tables|mysql_update|"
    r"Item_func_(benchmark|sha)|(?i:my_sha1|sha1_)"
)


@hang("MariaDB", [TABLE_LOCK], lock=True, needs=mariadb.NEEDS)
def mariadb_myisam_update(stage):
    """An UPDATE of one row of a MyISAM table computes, and has all of the table locked."""
    pid, path = mariadb.server(stage)
    table = stage.deed(old_table, path=path)
    client = stage.rhythm(visits, path=path)
    rounds = int(1.2 * table.facts["speed"])
    other = stage.deed(statistics, path=path, rounds=rounds)
    with stage.recording():
        other.go()
        other.result()
    computing = Who(pid, other.facts["thread"])
    return client.truth(culprits=[computing], others=[Who(pid, client.facts["thread"])])


def report_that_waits(path):
    """A client whose statement is asleep in the server for long."""
    connection = mariadb.connect(path)
    return lambda: mariadb.run(connection, f"select sleep({SECONDS})") and None


THREAD_POOL = r"Item_func_sleep|(?i:interruptible_wait)|threadpool|thread_pool|\btp_|worker_main|get_event"


@hang("MariaDB", [THREAD_POOL], needs=mariadb.NEEDS)
def mariadb_thread_pool(stage):
    """All threads of the server's pool (thread_pool_max_threads) have slow statements."""
    options = ["--thread-handling=pool-of-threads", "--thread-pool-size=1"]
    pid, path = mariadb.server(stage, *options, "--thread-pool-max-threads=2")
    client = stage.rhythm(mariadb.read, path=path)
    others = [stage.deed(report_that_waits, path=path) for _ in range(2)]
    with stage.recording():
        for other in others:
            other.go()
        for other in others:
            other.result()
    return client.truth(culprits=[Who(pid)])


def coordinator(port):
    """Who commits in two phases, and asks another database between the two."""
    connection = postgres.connect(port)

    def commit_everywhere():
        connection.run("begin")
        connection.run("update accounts set amount = 0 where id = 7")
        connection.run("prepare transaction 'order-1'")
        time.sleep(SECONDS)
        connection.run("commit prepared 'order-1'")

    return commit_everywhere, postgres.backend_of(connection)


TWO_PHASES = [*postgres.LOCKS, rf"[tT]wo[pP]hase|PreparedTransaction|commit_everywhere|{SLEEPS}"]


@hang("PostgreSQL", TWO_PHASES, lock=True, needs=postgres.NEEDS)
def postgres_prepared_transaction(stage):
    """A transaction that is prepared, and that no process has any more, keeps a row locked."""
    port = postgres.server(stage, "-c", "max_prepared_transactions=4")
    payer = stage.rhythm(postgres.pay, port=port)
    holder = stage.deed(coordinator, port=port)
    with stage.recording():
        holder.go()
        holder.result()
    return payer.truth(
        culprits=[holder.who, Who(holder.facts["backend"])], others=[Who(payer.facts["backend"])]
    )


FETCH = """#!/bin/sh
if rm {flag} 2>/dev/null; then sleep 1.2; fi
echo 108
"""
FROM_PROGRAM = r"nanosleep|CopyFrom|CopyGetData|CopyReadLine|ClosePipe|OpenPipe|pclose|copy_from"


@hang("PostgreSQL", [FROM_PROGRAM], needs=postgres.NEEDS)
def postgres_copy_from_program(stage):
    """COPY FROM PROGRAM waits for a script that fetches something."""
    port = postgres.server(stage)
    flag = stage.subfolder("wanted", postgres.USER) / "slow"
    program = write_script(stage.folder / "fetch-rates", FETCH.format(flag=flag))
    table = postgres.connect(port)
    table.run("create table rates (rate int)")
    client = stage.rhythm(postgres.ask, port=port, statement=f"copy rates from program '{program}'")
    with stage.recording(after=2.5):
        flag.touch()
        fetching = until_asleep("fetch-rates")
    return client.truth(culprits=fetching, others=[Who(client.facts["backend"])])


def branch_office(port):
    """A client of a database that keeps its accounts in another one."""
    connection = postgres.connect(port)
    address = f"host=127.0.0.1 port={port} dbname=template1 user={postgres.USER}"
    connection.run(f"select dblink_connect('main', '{address}')")
    pid = "select pid from dblink('main', 'select pg_backend_pid()') remote(pid int)"
    remote = connection.run(pid)[0][0]
    update = "update accounts set amount = amount + 1 where id = 7 returning amount"
    statement = f"select amount from dblink('main', '{update}') remote(amount int)"

    def book_at_main_office():
        connection.run(statement)

    return book_at_main_office, postgres.backend_of(connection) | {"remote": remote}


def main_office(port):
    """A client of the other database, which thinks while it has a row locked."""
    import pg8000.native

    connection = pg8000.native.Connection(postgres.USER, host="127.0.0.1", port=port, database="template1")
    connection.run("create table accounts (id int primary key, amount int)")
    connection.run("insert into accounts values (7, 0)")

    def think():
        connection.run("begin")
        connection.run("update accounts set amount = 0 where id = 7")
        time.sleep(SECONDS)
        connection.run("commit")

    return think, postgres.backend_of(connection)


LINKED = [*postgres.LOCKS, rf"dblink|libpqrcv|PQ(exec|getResult)|pq(Wait|ReadData)|\bthink\b|{SLEEPS}"]


@hang("PostgreSQL", LINKED, lock=True, needs=postgres.NEEDS)
def postgres_dblink(stage):
    """A statement waits for another database (dblink), in which somebody has the row locked."""
    port = postgres.server(stage)
    extension = "create extension dblink"
    try:
        postgres.connect(port).run(extension)
    except Exception as error:
        raise Missing(f"{extension}: {error}") from error
    holder = stage.deed(main_office, port=port)
    client = stage.rhythm(branch_office, port=port)
    with stage.recording():
        holder.go()
        holder.result()
    return client.truth(
        culprits=[holder.who, Who(holder.facts["backend"])],
        others=[Who(client.facts["backend"]), Who(client.facts["remote"])],
    )


def slowed_down(stage, folder, what="write"):
    """Has the disk of a file system be slow from now on: 4 MiB a second."""
    subprocess.run(["sync", "-f", folder], check=False)
    major, minor = divmod(os.stat(folder).st_dev, 256)
    limit = pathlib.Path(f"/sys/fs/cgroup/blkio/blkio.throttle.{what}_bps_device")
    try:
        limit.write_text(f"{major}:{minor} {4 * MEBIBYTE}")
    except OSError as error:
        raise Missing(f"the disk cannot be slowed down: {error}") from error
    stage.closing.callback(limit.write_text, f"{major}:{minor} 0")


def importing(port):
    """A client that stores a big document."""
    connection = postgres.connect(port)
    connection.run("create table documents (body bytea)")
    connection.run("alter table documents alter body set storage external")
    body = os.urandom(5 * MEBIBYTE)
    return lambda: connection.run("insert into documents values (:b)", b=body) and None, postgres.backend_of(
        connection
    )


WAL = r"XLog(Flush|Write|FileWrite)|AdvanceXLInsertBuffer|issue_xlog_fsync|LWLock|fdatasync|pg_fsync|pwrite"
ON_DISK = r"folio_wait|submit_bio|jbd2_|ext4_\w*(sync|write)|blkcg|throttle"


@hang("PostgreSQL", [WAL, ON_DISK], needs=[*postgres.NEEDS, "mkfs.ext4"])
def postgres_log_on_slow_disk(stage):
    """A big document is on its way to a slow disk, and a small commit waits until the log is there. Both
    are to blame, the disk and who writes so much. Either backend may be the one that flushes for both, so
    that no lock is certain."""
    folder = disk(stage, mebibytes=400)
    data = folder / "data"
    data.mkdir(mode=0o700)
    shutil.chown(data, postgres.USER)
    port = postgres.server(stage, "-c", "checkpoint_timeout=1h", "-c", "autovacuum=off", data=data)
    other = stage.deed(importing, port=port)
    payer = stage.rhythm(postgres.pay, port=port)
    slowed_down(stage, folder)
    with stage.recording():
        other.go()
        other.result()
    return payer.truth(
        culprits=[Who(other.facts["backend"])], disk=True, others=[Who(payer.facts["backend"])]
    )


def etcd_client(port):
    """A client that stores a key in etcd."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    key, value = (base64.b64encode(text).decode() for text in (b"/leader", b"node-1"))
    body = json.dumps({"key": key, "value": value})

    def renew_lease():
        connection.request("POST", "/v3/kv/put", body, {"Content-Type": "application/json"})
        connection.getresponse().read()

    return renew_lease


ETCD = r"(?i)fdatasync|fsync|wal\.\(?\*?wal|raft|applyV3|copy_file|renew_lease"


@hang("etcd", [ETCD, ON_DISK], needs=["etcd", "mkfs.ext4"])
def etcd_slow_disk(stage):
    """etcd waits for its disk, to which a backup is copied. Both are to blame."""
    folder, port, peers = disk(stage, mebibytes=300), free_port(), free_port()
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    server = stage.start(
        *("etcd", "--data-dir", folder / "etcd", "--initial-cluster", f"default={peer}"),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
    )
    until("etcd", lambda: connects(port))
    time.sleep(2)
    program = stage.rhythm(etcd_client, port=port)
    other = stage.deed(copier, path=folder / "backup")
    slowed_down(stage, folder)
    with stage.recording():
        other.go()
        other.result()
    return program.truth(culprits=[other.who], disk=True, others=[Who(server.pid)])


def operator(port):
    """Somebody who has all clients of Redis wait, as for a failover."""
    connection = redis.connect(port)
    return lambda: redis.ask(connection, f"client pause {int(1000 * SECONDS)}")


PAUSE = r"[pP]ause|[pP]ostpone|clientCommand|aeApiPoll|aeProcessEvents|aeMain|processTimeEvents|beforeSleep"


@hang("Redis", [PAUSE], needs=redis.REDIS)
def redis_client_pause(stage):
    """An operator has told Redis to serve nobody for a while (CLIENT PAUSE)."""
    port, folder = free_port(), stage.subfolder("redis", "nobody")
    options = ["--save", "", "--appendonly", "no", "--dir", folder, "--bind", "127.0.0.1"]
    server = stage.start("redis-server", "--port", port, *options, user="nobody")
    until("Redis", lambda: connects(port))
    client = stage.rhythm(redis.get, port=port)
    somebody = stage.deed(operator, port=port)
    with stage.recording(after=2.5):
        somebody.go()
        somebody.result()
    return client.truth(culprits=[somebody.who, Who(server.pid)])


READINGS = r"ask_tariff|KeepTariff|store_reading|rocksdb::|CompactionFilter"


@hang("RocksDB", [READINGS], needs=["c++"])
def rocksdb_write_stall(stage):
    """A compaction takes long, because the program's filter asks a service, and writes wait until there
    are fewer files again (level0_stop_writes_trigger)."""
    header("rocksdb/db.h", "librocksdb-dev")
    flag = stage.folder / "now"
    meter = compiled(stage, "meter.cpp", "-lrocksdb")
    program = Program(stage, meter, stage.subfolder("readings"), flag)
    compaction = thread_of(program.pid, "rocksdb:low")
    with stage.recording():
        program.hang(flag)
    return program.truth([compaction])


def publisher(port):
    """A program that publishes, and waits until the broker has what it published."""
    import pika

    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
    channel = connection.channel()
    channel.queue_declare("orders")
    channel.confirm_delivery()

    def publish_order():
        channel.basic_publish("", "orders", b"order")
        # Keeps the queue short.
        channel.queue_purge("orders")

    return publish_order


ALARM = (
    "Alarm = {resource_limit, memory, node()}, rabbit_alarm:set_alarm({Alarm, []}), "
    "timer:sleep(1200), rabbit_alarm:clear_alarm(Alarm)."
)


@hang("RabbitMQ", [], needs=["rabbitmq-server", "rabbitmqctl", "epmd"])
def rabbitmq_memory_alarm(stage):
    """The broker has too little memory, and takes nothing from those who publish."""
    port, names, distribution = free_port(), free_port(), free_port()
    home = stage.subfolder("rabbitmq")
    environment = os.environ | {
        "HOME": str(home),
        "ERL_EPMD_PORT": str(names),
        "RABBITMQ_NODENAME": f"unhitch{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
    }
    (home / "plugins").write_text("[].\n")
    scripts = pathlib.Path("/usr/lib/rabbitmq/bin")
    stage.start("epmd", "-port", names)
    server = stage.start(scripts / "rabbitmq-server", env=environment)
    until("RabbitMQ", lambda: connects(port), 90)
    broker = [who for who in [Who(server.pid), *children(server.pid)] if "beam" in comm(who.pid)]
    client = stage.rhythm(publisher, port=port)
    with stage.recording(after=1.5):
        stage.run(scripts / "rabbitmqctl", "eval", ALARM, env=environment)
    return client.truth(culprits=broker)


def comm(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def cache_for_each_page(port):
    """A program that connects to memcached for each page."""

    def look_up():
        connection = redis.connect(port)
        redis.ask(connection, "get greeting")
        connection[0].close()

    return look_up


def leaking(port):
    """A program that opens connections, and forgets them for a while."""

    def leak_connections():
        connections = []
        # Until there is no place for one more.
        with contextlib.suppress(TimeoutError):
            while len(connections) < 24:
                connections.append(socket.create_connection(("127.0.0.1", port), timeout=0.05))
        # A kernel that was refused a connection tries again after a second.
        time.sleep(0.95)
        for connection in connections:
            connection.close()

    return leak_connections


@hang("memcached", [rf"leak_connections|conn_new|accept|drive_machine|{SLEEPS}"], needs=["memcached"])
def memcached_connection_limit(stage):
    """memcached has as many connections as it may, and accepts no more (listen_disabled)."""
    port = free_port()
    server = stage.start(
        *("memcached", "-p", port, "-l", "127.0.0.1", "-u", "nobody", "-t", "1"),
        *("-c", "16", "-o", "no_maxconns_fast"),
    )
    until("memcached", lambda: connects(port))
    client = stage.rhythm(cache_for_each_page, port=port)
    other = stage.deed(leaking, port=port)
    with stage.recording(after=2):
        other.go()
        other.result()
    return client.truth(culprits=[other.who], others=[Who(server.pid)])


EXIM = """
primary_hostname = mail.example
spool_directory = {folder}/spool
log_file_path = {folder}/spool/%slog
pid_file_path = {folder}/spool/exim.pid
daemon_smtp_ports = {port}
local_interfaces = 127.0.0.1
keep_environment =
host_lookup =
tls_advertise_hosts =
acl_smtp_rcpt = check_recipient
begin acl
check_recipient:
  accept condition = ${{if eq{{${{readsocket{{{folder}/greylist/socket}}{{$sender_address\\n}}{{10s}}{{}}}}}}{{pass}}}}
  defer message = later
"""


def greylist(path, flag):
    """The daemon that knows which senders may pass. One look takes long."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o777)
    listener.listen(10)

    def look_up_sender():
        while True:
            connection, _ = listener.accept()
            connection.recv(1000)
            if told(flag):
                time.sleep(SECONDS)
            connection.sendall(b"pass")
            connection.close()

    threading.Thread(target=look_up_sender, daemon=True).start()
    return ticking()


def mailing(port):
    """A program that sends mail. It has the server accept the addresses."""

    def offer_mail():
        connection = smtplib.SMTP("127.0.0.1", port, local_hostname="shop.example")
        connection.helo()
        connection.mail("shop@example.com")
        connection.rcpt("customer@mail.example")
        connection.close()

    return offer_mail


@hang("Exim", [rf"look_up_sender|readsocket|expand_|eval_acl|acl_check|ip_recv|{SLEEPS}"], needs=["exim4"])
def exim_greylist(stage):
    """A mail server asks another daemon for each sender, and that one is slow once."""
    port, flag, file = free_port(), stage.folder / "slow", stage.folder / "exim.conf"
    stage.subfolder("spool", "Debian-exim")
    folder = stage.subfolder("greylist")
    file.write_text(EXIM.format(folder=stage.folder, port=port))
    daemon = stage.actor("deed", greylist, path=folder / "socket", flag=flag)
    server = stage.start("exim4", "-bdf", "-C", file)
    until("Exim", lambda: connects(port))
    client = stage.rhythm(mailing, port=port)
    with stage.recording(after=2):
        flag.touch()
        time.sleep(0.5)
        working = children(server.pid)
    return client.truth(culprits=[Who(daemon.who.pid)], others=[Who(server.pid), *working])


APCU = """<?php
function load_prices() {
    usleep(1200000);
    return 7;
}
if ($_SERVER["REQUEST_URI"] == "/prices") {
    apcu_entry("prices", "load_prices");
} else {
    apcu_fetch("visits");
}
echo getmypid();
"""


def worker_of(page):
    """The process that made a page."""
    return int(re.search(r"\r\n\r\n(\d+)", page)[1])


@hang("PHP-FPM", [r"load_prices|usleep|nanosleep|\bapcu?_\w+|rwlock"], lock=True)
def php_apcu_entry(stage):
    """A process computes an entry of the cache that all processes share (apcu_entry), and nobody else
    can read anything from it meanwhile."""
    port, file, page = free_port(), stage.folder / "fpm.conf", stage.folder / "page.php"
    page.write_text(APCU)
    file.write_text(FPM.format(folder=stage.folder, port=port))
    if "apcu" not in stage.run("php", "-m"):
        raise Missing("php-apcu is not installed")
    server = stage.start(fpm(), "--nodaemonize", "--fpm-config", file)
    until("PHP-FPM", lambda: connects(port) and len(children(server.pid)) == 2)
    client = stage.rhythm(fastcgi, port=port, file=page)
    other = stage.deed(fastcgi, port=port, file=page, path="/prices")
    with stage.recording():
        other.go()
        loading = worker_of(other.result()["result"])
    longest = client.longest()
    waiting = worker_of(longest["result"])
    if waiting == loading:
        raise DidNotHang("the same process served both")
    return Truth(client.who, longest["from"], longest["to"], [Who(loading)], [Who(waiting), Who(server.pid)])


NGINX = """
daemon off; worker_processes 1; user {user} {group};
error_log {folder}/error.log; pid {folder}/nginx.pid;
events {{}}
http {{
  access_log off;
  limit_req_zone $server_port zone=all:1m rate=100r/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ root {folder}/pages; {limit} }}
    location /films {{ root {folder}; }}
  }}
}}
"""


def nginx(stage, limit=""):
    """nginx with one page and a folder of films; its process and its port."""
    port, file = free_port(), stage.folder / "nginx.conf"
    pages(stage)
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    values = {"folder": stage.folder, "port": port, "user": "nobody", "group": group}
    file.write_text(NGINX.format(limit=limit, **values))
    server = stage.start("nginx", "-p", stage.folder, "-c", file)
    until("nginx", lambda: connects(port))
    return server, port


def crawler(port):
    """A robot that asks for many pages at once."""

    def crawl_site():
        lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(140)]
        for line in lines:
            line.sendall(b"GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        for line in lines:
            while line.recv(1000):
                pass
            line.close()

    return crawl_site


@hang("nginx", [r"ngx_\w*(limit|event|epoll|timer|worker)|crawl_site|sock_recv"], needs=["nginx"])
def nginx_rate_limit(stage):
    """A robot has asked for more pages than may be asked for in a second (limit_req), and nginx has all
    that come later wait, too."""
    server, port = nginx(stage, "limit_req zone=all burst=400;")
    client = stage.rhythm(browse, port=port, path="/page")
    robot = stage.deed(crawler, port=port)
    with stage.recording(after=2):
        robot.go()
        robot.result()
    return client.truth(culprits=[robot.who, *children(server.pid)])


FILM = r"ngx_\w*(read|file|copy|output|open)|pread|rate_limit|bindfs|fuse_|nanosleep"


@hang("nginx", [FILM], needs=["nginx", "bindfs", "fusermount3"])
def nginx_slow_file_system(stage):
    """The worker reads a film from a file system far away (FUSE), and serves nobody meanwhile."""
    real, films = stage.subfolder("real"), stage.subfolder("films")
    (real / "film").write_bytes(os.urandom(100_000))
    slow = stage.start("bindfs", "-f", "--read-rate=80k", real, films)
    stage.closing.callback(lambda: os.path.ismount(films) and os.system(f"umount -l {films}"))
    until("bindfs", lambda: os.path.ismount(films))
    server, port = nginx(stage)
    client = stage.rhythm(browse, port=port, path="/page")
    other = stage.deed(films_of, port=port)
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(slow.pid)], others=children(server.pid))


def films_of(port):
    """A browser that shows a film."""

    def watch_film():
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(b"GET /films/film HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while line.recv(65536):
                pass

    return watch_film


def secure_server(port, certificate):
    """A web server as in many a tutorial: the socket that listens is wrapped, and so the thread that
    accepts does the handshake, too."""

    class Page(http.server.BaseHTTPRequestHandler):
        wbufsize = 65536

        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"page")

        def log_message(self, *_):
            """Silent."""

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_):
            """A client that has gone."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Server(("127.0.0.1", port), Page)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
    return ticking()


def secure_browser(port):
    """A browser that opens a connection for each page."""
    context = ssl._create_unverified_context()

    def visit_shop():
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
        connection.request("GET", "/")
        connection.getresponse().read()
        connection.close()

    return visit_shop


def port_scanner(port):
    """Who connects and says nothing."""

    def keep_line_open():
        with socket.create_connection(("127.0.0.1", port)):
            time.sleep(SECONDS)

    return keep_line_open


HANDSHAKE = rf"keep_line_open|handshake|\baccept\b|get_request|SSL_|_ssl|{SLEEPS}"


@hang("Python", [HANDSHAKE], needs=["openssl"])
def tls_silent_client(stage):
    """A server waits for the handshake of a client that says nothing, and accepts nobody else."""
    port, certificate = free_port(), stage.folder / "certificate.pem"
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=shop"]
    stage.run("openssl", "req", "-x509", *new, "-keyout", certificate, "-out", stage.folder / "public")
    with open(certificate, "a") as both:
        both.write((stage.folder / "public").read_text())
    server = stage.actor("deed", secure_server, port=port, certificate=certificate)
    client = stage.rhythm(secure_browser, port=port)
    silent = stage.deed(port_scanner, port=port)
    with stage.recording():
        silent.go()
        silent.result()
    return client.truth(culprits=[silent.who], others=[Who(server.who.pid)])


SUPERVISOR = """
[supervisord]
nodaemon = true
logfile = {folder}/supervisor.out
pidfile = {folder}/supervisor.pid
childlogdir = {folder}
[inet_http_server]
port = 127.0.0.1:{port}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[program:cart]
command = {python} -S {folder}/cart.py {folder}/slow {folder}/saving
startsecs = 0
autostart = true
stopwaitsecs = 20
"""
CART = """
import os, signal, sys, time

def save_carts(*_):
    try:
        os.unlink(sys.argv[1])
    except FileNotFoundError:
        os._exit(0)
    with open(sys.argv[2], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(1.2)
    os._exit(0)

signal.signal(signal.SIGTERM, save_carts)
while True:
    signal.pause()
"""


def deployment(port):
    """A script that restarts a service, by way of its supervisor."""
    supervisor = xmlrpc.client.ServerProxy(f"http://127.0.0.1:{port}").supervisor

    def restart_service():
        # What is told to end before it can understand that ends at once.
        time.sleep(0.06)
        supervisor.stopProcess("cart", True)
        supervisor.startProcess("cart", True)

    return restart_service


@hang("supervisord", [rf"save_carts|restart_service|{SLEEPS}"], needs=["/usr/bin/python3"])
def supervisor_slow_stop(stage):
    """A supervisor waits for a service that saves everything before it ends."""
    port, file = free_port(), stage.folder / "supervisor.conf"
    (stage.folder / "cart.py").write_text(CART)
    file.write_text(SUPERVISOR.format(folder=stage.folder, port=port, python="/usr/bin/python3"))
    server = stage.start(sys.executable, "-m", "supervisor.supervisord", "-n", "-c", file)
    until("supervisord", lambda: connects(port))
    saving = stage.folder / "saving"
    script = stage.rhythm(deployment, port=port)
    with stage.recording(after=2.5):
        (stage.folder / "slow").touch()
        until("the service", lambda: saving.exists() and saving.read_text())
    return script.truth(culprits=[Who(int(saving.read_text()))], others=[Who(server.pid)])


class Samples(ctypes.Structure):
    """`pa_sample_spec`: 16 bits, little endian."""

    _fields_ = [("format", ctypes.c_int), ("rate", ctypes.c_uint32), ("channels", ctypes.c_uint8)]


class Buffering(ctypes.Structure):
    """`pa_buffer_attr`."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("most", "target", "before", "request", "fragment")]


RATE, BYTES = 44100, 4


def player(path):
    """A program that plays something: 40 ms for each step."""
    library = ctypes.CDLL("libpulse-simple.so.0")
    library.pa_simple_new.restype = ctypes.c_void_p
    library.pa_simple_write.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
    default, short = 2**32 - 1, RATE * BYTES // 10
    spec, buffering = Samples(3, RATE, 2), Buffering(default, short, 0, default, default)
    error = ctypes.c_int()
    stream = library.pa_simple_new(
        *(f"unix:{path}".encode(), b"player", 1, None, b"film", ctypes.byref(spec), None),
        *(ctypes.byref(buffering), ctypes.byref(error)),
    )
    if not stream:
        raise OSError(f"PulseAudio: {error.value}")
    samples = bytes(RATE * BYTES * 40 // 1000)

    def play_samples():
        library.pa_simple_write(stream, samples, len(samples), None)

    return play_samples


def sound_card(path, flag):
    """What the sound is for. It takes samples as fast as they are heard, and nothing for a while."""

    def hear_samples():
        with open(path, "rb", buffering=0) as pipe:
            begin, heard = time.monotonic(), 0
            while taken := pipe.read(4096):
                if told(flag):
                    time.sleep(SECONDS + 0.4)
                    begin = time.monotonic() - heard / (RATE * BYTES)
                heard += len(taken)
                time.sleep(max(0, begin + heard / (RATE * BYTES) - time.monotonic()))

    threading.Thread(target=hear_samples, daemon=True).start()
    return ticking()


@hang("PulseAudio", [rf"hear_samples|play_samples|\bpa_\w+|thread_func|{SLEEPS}"], needs=["pulseaudio"])
def pulseaudio_sink(stage):
    """The sound card takes no samples, so the sound server takes none, either, and a player waits."""
    home, flag = stage.subfolder("sound", "nobody"), stage.folder / "stop"
    path, pipe = home / "socket", home / "card"
    server = stage.start(
        *("pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"),
        *("--disable-shm=yes", "-L", f"module-pipe-sink file={pipe} rate={RATE} format=s16le channels=2"),
        *("-L", f"module-native-protocol-unix auth-anonymous=1 socket={path}"),
        env=os.environ | {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "DBUS_SESSION_BUS_ADDRESS": ""},
        user="nobody",
    )
    until("PulseAudio", lambda: path.exists() and connects(path) and pipe.exists())
    card = stage.actor("deed", sound_card, path=pipe, flag=flag)
    client = stage.rhythm(player, path=path)
    with stage.recording(after=3):
        flag.touch()
    return client.truth(
        culprits=[Who(card.who.pid)], others=[Who(server.pid), *threads(client.who.pid)]
    )


def price_service(port):
    """A service of gRPC with one worker."""
    import grpc
    from concurrent.futures import ThreadPoolExecutor

    def get_price(request, context):
        return b"7"

    def make_report(request, context):
        time.sleep(SECONDS)
        return b"report"

    handlers = {"Price": get_price, "Report": make_report}
    methods = {name: grpc.unary_unary_rpc_method_handler(each) for name, each in handlers.items()}
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Shop", methods)])
    if not server.add_insecure_port(f"127.0.0.1:{port}"):
        raise OSError("gRPC has no port")
    server.start()
    # Whoever forgets the server ends it.
    price_service.server = server
    return ticking()


def remote_call(port, method):
    """A client of it."""
    import grpc

    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    call = channel.unary_unary(f"/Shop/{method}")

    def ask_price():
        call(b"article", wait_for_ready=True)

    for _ in range(3 if method == "Price" else 0):
        ask_price()
    return ask_price


@hang("gRPC", [rf"make_report|ask_price|{SLEEPS}"])
def grpc_one_worker(stage):
    """The only worker of a service makes somebody's report, and calls wait in its queue."""
    if not importlib.util.find_spec("grpc"):
        raise Missing("grpcio is not installed")
    port = free_port()
    server = stage.actor("deed", price_service, port=port)
    client = stage.rhythm(remote_call, port=port, method="Price")
    other = stage.deed(remote_call, port=port, method="Report")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.who.pid)], others=threads(client.who.pid))
