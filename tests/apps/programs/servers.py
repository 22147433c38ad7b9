"""Servers that no other module has: what hangs behind their workers, helpers, clients and queues."""

import contextlib
import fcntl
import grp
import http.client
import http.server
import itertools
import os
import pathlib
import pwd
import shutil
import socket
import socketserver
import struct
import subprocess
import threading
import time

import programs.postgres as postgres
import web
from actor import told
from hang import Truth, Who, hang
from programs.kernel import SECONDS, ticking
from programs.nginx import application
from programs.python import COMPUTES, echo, validate_input
from programs.shell import life
from stage import children, connects, free_port, until

SLEEPS = r"time_sleep|pysleep"
# What Debian's Python, which every user may run, is called.
PYTHON = "/usr/bin/python3"


def browse(port, path="/"):
    """A browser that opens a connection for each page."""

    def visit():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", path)
        page = connection.getresponse().read().decode()
        connection.close()
        return page

    return visit


def site(port):
    """A web server that is always fast."""
    web.serve(port, lambda _: b"page", http.server.ThreadingHTTPServer)
    return lambda: None


def script(argv):
    """A script that runs the same command again and again."""

    def step():
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        process = subprocess.Popen(argv, stderr=subprocess.DEVNULL, **quiet)
        process.wait()
        return process.pid

    return step


def write_script(file, text):
    file.write_text(text)
    file.chmod(0o755)
    return file


def running(name):
    """The processes that run the file of this name, and those that they have started."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        # Processes come and go meanwhile.
        with contextlib.suppress(OSError):
            command = pathlib.Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
            if name in [os.path.basename(os.fsdecode(word)) for word in command]:
                pids = [int(pid), *(child.pid for child in children(int(pid)))]
                names = [pathlib.Path(f"/proc/{each}/comm").read_text().strip() for each in pids]
                found.update(Who(each, name=comm) for each, comm in zip(pids, names))
    return list(found)


def until_asleep(name, scripts=1):
    """Waits until so many scripts of this name are in `sleep`; returns the processes."""

    def asleep():
        people = running(name)
        return people if sum(who.name == "sleep" for who in people) >= scripts else None

    return until("the script", asleep)


APACHE = """
ServerRoot {folder}
ServerName localhost
Listen 127.0.0.1:{port}
User nobody
Group {group}
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Mutex file:{folder}/locks default
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule alias_module {modules}/mod_alias.so
LoadModule cgi_module {modules}/mod_cgi.so
StartServers 2
MinSpareServers 1
MaxSpareServers 2
ServerLimit 2
MaxRequestWorkers 2
KeepAlive Off
DocumentRoot {folder}/pages
ScriptAlias /report {folder}/apache-report
"""
REPORT = """#!/bin/sh
sleep 1.2
printf 'Content-Type: text/plain\\n\\nreport\\n'
"""


def pages(stage):
    """A folder with one page."""
    folder = stage.subfolder("pages")
    (folder / "page").write_text("page")
    return folder


@hang("Apache", [r"nanosleep"], needs=["apache2"])
def apache_slow_scripts(stage):
    """All workers wait for slow CGI scripts, so nobody accepts."""
    port, file = free_port(), stage.folder / "apache.conf"
    pages(stage)
    stage.subfolder("locks", "nobody")
    write_script(stage.folder / "apache-report", REPORT)
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    values = {"folder": stage.folder, "port": port, "group": group}
    file.write_text(APACHE.format(modules="/usr/lib/apache2/modules", **values))
    server = stage.start("apache2", "-D", "FOREGROUND", "-f", file)
    until("Apache", lambda: connects(port))
    client = stage.rhythm(browse, port=port, path="/page")
    others = [stage.deed(browse, port=port, path="/report") for _ in range(2)]
    workers = children(server.pid)
    with stage.recording():
        for other in others:
            other.go()
        scripts = until_asleep("apache-report", scripts=2)
        for other in others:
            other.result()
    return client.truth(culprits=scripts, others=[Who(server.pid), *workers])


LIGHTTPD = """
server.document-root = "{folder}/pages"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{folder}/error.log"
server.max-connections = 2
server.max-keep-alive-requests = 0
"""


def slow_line(port):
    """A browser on a bad line: it opens two connections, and its requests stop in the middle."""

    def send_slowly():
        lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for line in lines:
            line.sendall(b"GET /page HTTP/1.1\r\nHost: local")
        time.sleep(SECONDS)
        for line in lines:
            line.sendall(b"host\r\nConnection: close\r\n\r\n")
            while line.recv(1000):
                pass
            line.close()

    return send_slowly


@hang("lighttpd", [rf"send_slowly|sock_recv|{SLEEPS}"], needs=["lighttpd"])
def lighttpd_connection_limit(stage):
    """A slow client has all the connections that the server allows."""
    port, file = free_port(), stage.folder / "lighttpd.conf"
    pages(stage)
    file.write_text(LIGHTTPD.format(folder=stage.folder, port=port))
    server = stage.start("lighttpd", "-D", "-f", file)
    until("lighttpd", lambda: connects(port))
    client = stage.rhythm(browse, port=port, path="/page")
    slow = stage.deed(slow_line, port=port)
    with stage.recording(after=2.5):
        slow.go()
        slow.result()
    return client.truth(culprits=[slow.who], others=[Who(server.pid)])


SQUID = """
http_port 127.0.0.1:{port}
http_access allow all
cache deny all
cache_mem 8 MB
max_filedescriptors 1024
access_log none
cache_log {folder}/squid/cache.log
pid_filename none
visible_hostname proxy.example
shutdown_lifetime 0 seconds
url_rewrite_program {python} {folder}/squid-rewriter.py
url_rewrite_children 1 startup=1 idle=1 concurrency=0
"""
# Lets every address pass. A service far away has to say what it is about.
REWRITER = """
import sys, time

def look_up_category(address):
    if address.endswith("/unknown"):
        time.sleep(1.2)

for line in sys.stdin:
    look_up_category(line.split()[0])
    print("ERR", flush=True)
"""


@hang("Squid", [rf"look_up_category|{SLEEPS}"], needs=["squid", PYTHON])
def squid_rewriter(stage):
    """The only helper that rewrites addresses is slow with somebody else's."""
    port, upstream = free_port(), free_port()
    stage.deed(site, port=upstream)
    stage.subfolder("squid", "proxy")
    (stage.folder / "squid-rewriter.py").write_text(REWRITER)
    file = stage.folder / "squid.conf"
    file.write_text(SQUID.format(folder=stage.folder, port=port, python=PYTHON))
    server = stage.start("squid", "-N", "-f", file)
    until("Squid", lambda: connects(port))
    helper = until("the rewriter", lambda: running("squid-rewriter.py"))
    page = f"http://127.0.0.1:{upstream}"
    client = stage.rhythm(web.get, port=port, path=f"{page}/page")
    other = stage.deed(web.get, port=port, path=f"{page}/unknown")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=helper, others=[Who(server.pid)])


@hang("Varnish", [COMPUTES, r"\banswer\b"], needs=["varnishd", "gcc"])
def varnish_busy_object(stage):
    """A page has expired, and all its readers wait until one of them has got it again."""
    port, upstream, flag = free_port(), free_port(), stage.folder / "slow"
    behind = stage.deed(application, port=upstream, flag=flag)
    server = stage.start(
        *("varnishd", "-F", "-j", "none", "-n", stage.folder / "varnish", "-s", "malloc,32m"),
        *("-a", f"127.0.0.1:{port}", "-b", f"127.0.0.1:{upstream}", "-T", "127.0.0.1:0"),
        *("-p", "default_ttl=1", "-p", "default_grace=0", "-p", "default_keep=0"),
        *("-p", "thread_pool_min=10", "-p", "vsl_space=1M"),
    )
    until("Varnish", lambda: connects(port))
    for _ in range(2):
        stage.rhythm(web.get, port=port)
    client = stage.rhythm(web.get, port=port)
    with stage.recording(after=4):
        flag.touch()
    return client.truth(
        culprits=[Who(behind.who.pid)], others=[Who(server.pid), *children(server.pid)]
    )


def lookups(port):
    """A program that looks a name up, over and over; it speaks to the name server itself."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("127.0.0.1", port))
    numbers = itertools.cycle(range(1, 60000))
    name = b"\3www\7example\3com\0" + struct.pack("!2H", 1, 1)

    def resolve():
        sock.send(struct.pack("!6H", next(numbers), 0x100, 1, 0, 0, 0) + name)
        sock.recv(512)

    return resolve


def name_server(port, flag):
    """A name server far away, which has one address for every name and is slow once."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", port))
    address = b"\xc0\x0c" + struct.pack("!2HIH", 1, 1, 0, 4) + bytes([192, 0, 2, 1])

    def answer_query():
        while True:
            query, client = sock.recvfrom(512)
            if told(flag):
                time.sleep(SECONDS)
            question = query[12 : query.index(0, 12) + 5]
            sock.sendto(query[:2] + struct.pack("!5H", 0x8180, 1, 1, 0, 0) + question + address, client)

    threading.Thread(target=answer_query, daemon=True).start()
    return ticking()


@hang("dnsmasq", [rf"answer_query|{SLEEPS}"], needs=["dnsmasq"])
def dnsmasq_slow_upstream(stage):
    """The name server behind answers late."""
    port, upstream, flag = free_port(), free_port(), stage.folder / "think"
    behind = stage.deed(name_server, port=upstream, flag=flag)
    server = stage.start(
        *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root"),
        *("--no-resolv", "--no-hosts", "--no-poll", "--cache-size=0", f"--server=127.0.0.1#{upstream}"),
        *(f"--port={port}", "--listen-address=127.0.0.1", "--bind-interfaces"),
        f"--pid-file={stage.folder}/dnsmasq.pid",
    )
    until("dnsmasq", lambda: connects(port))
    client = stage.rhythm(lookups, port=port)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(behind.who.pid)], others=[Who(server.pid)])


def subscribe(port, name, topic):
    """A client of MQTT 3.1.1 that has subscribed to a topic: how it publishes, and how it waits for
    a message. No packet is longer than 127 bytes."""
    sock = socket.create_connection(("127.0.0.1", port))
    packets = sock.makefile("rb")

    def text(string):
        return struct.pack("!H", len(string)) + string.encode()

    def send(kind, body):
        sock.sendall(bytes([kind, len(body)]) + body)

    def receive():
        return packets.read(packets.read(2)[1])

    def publish(topic):
        send(0x30, text(topic) + b"21")

    send(0x10, text("MQTT") + bytes([4, 2, 0, 0]) + text(name))
    receive()
    send(0x82, bytes([0, 1]) + text(topic) + bytes([0]))
    receive()
    return publish, receive


def thermostat(port):
    """A program that asks a sensor by way of the broker."""
    publish, receive = subscribe(port, "thermostat", "kitchen/answer")

    def ask_sensor():
        publish("kitchen/ask")
        receive()

    return ask_sensor


def sensor(port, flag):
    """A subscriber that answers, except when it is told to think first."""
    publish, receive = subscribe(port, "sensor", "kitchen/ask")

    def read_sensor():
        while True:
            receive()
            if told(flag):
                time.sleep(SECONDS)
            publish("kitchen/answer")

    threading.Thread(target=read_sensor, daemon=True).start()
    return ticking()


@hang("Mosquitto", [rf"read_sensor|{SLEEPS}"], needs=["mosquitto"])
def mosquitto_slow_subscriber(stage):
    """A subscriber answers late, and the broker has nothing to hand on."""
    port, flag, file = free_port(), stage.folder / "think", stage.folder / "mosquitto.conf"
    file.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
    server = stage.start("mosquitto", "-c", file)
    until("Mosquitto", lambda: connects(port))
    late = stage.deed(sensor, port=port, flag=flag)
    client = stage.rhythm(thermostat, port=port)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(late.who.pid)], others=[Who(server.pid)])


STOCK = r"""
-module(stock).
-behaviour(gen_server).
-export([start/1, init/1, handle_call/3, handle_cast/2]).

start([Port]) ->
    spawn(fun() -> listen(list_to_integer(Port)) end).

listen(Port) ->
    {ok, _} = gen_server:start_link({local, stock}, stock, [], []),
    Options = [{ip, {127, 0, 0, 1}}, {packet, line}, {active, false}, {nodelay, true}],
    {ok, Listener} = gen_tcp:listen(Port, [{reuseaddr, true} | Options]),
    accept(Listener).

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    spawn(fun() -> serve(Socket) end),
    accept(Listener).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            ok = gen_tcp:send(Socket, gen_server:call(stock, Line)),
            serve(Socket);
        {error, closed} ->
            gen_tcp:close(Socket)
    end.

init([]) ->
    {ok, 7}.

handle_call("reprice\n", _From, Price) ->
    End = erlang:monotonic_time(millisecond) + 1200,
    {reply, "done\n", reprice_all(End, Price)};
handle_call(_Line, _From, Price) ->
    {reply, [integer_to_list(Price), "\n"], Price}.

handle_cast(_Message, Price) ->
    {noreply, Price}.

reprice_all(End, Price) ->
    case erlang:monotonic_time(millisecond) < End of
        true -> reprice_all(End, reprice_items(10000, Price));
        false -> Price
    end.

reprice_items(0, Price) ->
    Price;
reprice_items(N, Price) ->
    reprice_items(N - 1, (Price * 31 + N) rem 1000003).
"""


def customer(port, question):
    """A client that sends a line and waits for one."""
    connection = socket.create_connection(("127.0.0.1", port))
    replies = connection.makefile("rb")

    def ask():
        connection.sendall(question.encode() + b"\n")
        replies.readline()

    return ask


@hang("Erlang", [r"reprice_|handle_call"], needs=["erl", "erlc"])
def erlang_gen_server(stage):
    """All processes of a server call one gen_server, which computes for one of them."""
    port, file = free_port(), stage.folder / "stock.erl"
    file.write_text(STOCK)
    stage.run("erlc", "-o", stage.folder, file)
    # With the names of compiled functions, as whoever wants them in answers has to ask for.
    options = ["+S", "2", "+JPperf", "true", "-noinput", "-pa", stage.folder]
    server = stage.start("erl", *options, "-run", "stock", "start", port)
    stage.closing.callback(pathlib.Path(f"/tmp/jit-{server.pid}.dump").unlink, missing_ok=True)
    until("Erlang", lambda: connects(port))
    client = stage.rhythm(customer, port=port, question="price")
    other = stage.deed(customer, port=port, question="reprice")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid)])


RSYNCD = """
use chroot = no
uid = root
gid = root
reverse lookup = no
log file = {folder}/rsyncd.log
[files]
path = {folder}/pages
pre-xfer exec = {folder}/rsync-snapshot
"""
# Does something before it lets others go on, and only sometimes takes its time for that.
SOMETIMES = """#!/bin/sh
if rm '{flag}' 2>/dev/null; then sleep 1.2; fi
"""


@hang("rsync", [r"nanosleep"], needs=["rsync"])
def rsync_slow_snapshot(stage):
    """The daemon makes a snapshot before each transfer, and once that is slow."""
    port, flag = free_port(), stage.folder / "slow"
    pages(stage)
    write_script(stage.folder / "rsync-snapshot", SOMETIMES.format(flag=flag))
    file = stage.folder / "rsyncd.conf"
    file.write_text(RSYNCD.format(folder=stage.folder))
    options = ["--no-detach", "--address=127.0.0.1", f"--port={port}", f"--config={file}"]
    server = stage.start("rsync", "--daemon", *options)
    until("rsync", lambda: connects(port))
    argv = ["rsync", "-a", f"rsync://127.0.0.1:{port}/files/", stage.folder / "copy"]
    client = stage.rhythm(script, argv=argv)
    with stage.recording(after=2):
        flag.touch()
        culprits = until_asleep("rsync-snapshot")
        pids = {who.pid for who in culprits}
        others = [who for who in children(server.pid) if who.pid not in pids]
    longest = client.longest()
    others += [Who(server.pid), Who(longest["result"])]
    return Truth(client.who, longest["from"], longest["to"], culprits, others)


SSHD = """
ListenAddress 127.0.0.1
Port {port}
PidFile none
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
ForceCommand {folder}/ssh-login
"""


def shared_connection(stage, login):
    """A server that runs the script `login` for each command, and a connection to it that commands share:
    the server's process, that of the connection, and the beginning of a command."""
    port, folder = free_port(), stage.folder
    for key in ("host", "user"):
        stage.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key)
    write_script(folder / "ssh-login", login)
    (folder / "sshd.conf").write_text(SSHD.format(folder=folder, port=port))
    # Debian's unit would make this folder.
    pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    server = stage.start(shutil.which("sshd"), "-D", "-e", "-f", folder / "sshd.conf")
    until("sshd", lambda: connects(port))
    control = folder / "control"
    ssh = ["ssh", "-F", "none", "-S", control, "-p", port, "-i", folder / "user"]
    ssh += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    ssh = [str(word) for word in [*ssh, "-o", "BatchMode=yes", "root@127.0.0.1"]]
    shared = stage.start(*ssh, "-M", "-N")
    until("the connection", control.exists)
    return server, shared, ssh


@hang("OpenSSH", [r"nanosleep"], needs=["sshd", "ssh", "ssh-keygen"])
def ssh_slow_login(stage):
    """A command over a shared connection waits for the script that each login runs."""
    flag = stage.folder / "slow"
    login = SOMETIMES.format(flag=flag) + 'exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
    server, shared, ssh = shared_connection(stage, login)
    client = stage.rhythm(script, argv=[*ssh, "true"])
    with stage.recording(after=2):
        flag.touch()
        culprits = until_asleep("ssh-login")
        pids = {who.pid for who in culprits}
        others = [who for who in children(server.pid) if who.pid not in pids]
    longest = client.longest()
    others += [Who(server.pid), Who(shared.pid), Who(longest["result"])]
    return Truth(client.who, longest["from"], longest["to"], culprits, others)


STATUS = """Package: editor
Status: install ok installed
Priority: optional
Section: editors
Maintainer: Nobody <nobody@example.com>
Architecture: all
Version: 1
Description: an editor
"""


def upgrade(path):
    """A program that upgrades packages, and has them locked meanwhile."""
    file = open(path, "wb")

    def keep_packages():
        fcntl.lockf(file, fcntl.LOCK_EX)
        time.sleep(2.1)
        fcntl.lockf(file, fcntl.LOCK_UN)

    return keep_packages


APT = r"GetLock|debSystem|BuildCaches|keep_packages"


@hang("apt", [rf"{APT}|{SLEEPS}"], lock=True, needs=["apt-get"])
def apt_lock(stage):
    """apt-get looks every second whether another program has unlocked the packages."""
    root = stage.folder
    for name in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg"):
        (root / name).mkdir(parents=True)
    for name in ("sources.list.d", "preferences.d", "trusted.gpg.d"):
        (root / "etc/apt" / name).mkdir(parents=True)
    status = root / "var/lib/dpkg/status"
    status.write_text(STATUS)
    holder = stage.deed(upgrade, path=root / "var/lib/dpkg/lock-frontend")
    settings = [f"Dir={root}", f"Dir::State::status={status}", "DPkg::Lock::Timeout=30"]
    options = [word for setting in settings for word in ("-o", setting)]
    with stage.recording():
        holder.go()
        time.sleep(0.2)
        apt = stage.start("apt-get", *options, "install")
        truth = life(apt, culprits=[holder.who])
        holder.result()
    return truth


STUNNEL = """
foreground = yes
pid =
[ledger]
accept = 127.0.0.1:{accept}
connect = 127.0.0.1:{connect}
"""


def ledger(path, flag):
    """A server at a Unix socket that sends each line back; one of them makes it compute."""

    class Clerk(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                if told(flag):
                    self.close_books()
                self.wfile.write(line)

        def close_books(self):
            validate_input()

    server = socketserver.ThreadingUnixStreamServer(path, Clerk)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return ticking()


@hang("stunnel", [COMPUTES, r"close_books"], needs=["stunnel4", "socat", "openssl"])
def stunnel_to_slow_server(stage):
    """A client speaks through two ends of a tunnel and a relay to a server that computes."""
    near, middle, far = free_port(), free_port(), free_port()
    path, flag, folder = stage.folder / "ledger", stage.folder / "slow", stage.folder
    behind = stage.deed(ledger, path=path, flag=flag)
    listen = f"TCP4-LISTEN:{far},bind=127.0.0.1,reuseaddr,fork"
    relay = stage.start("socat", listen, f"UNIX-CONNECT:{path}")
    stage.run(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-subj", "/CN=ledger", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
    )
    inner, outer = folder / "inner.conf", folder / "outer.conf"
    keys = f"cert = {folder}/cert.pem\nkey = {folder}/key.pem\n"
    inner.write_text(STUNNEL.format(accept=middle, connect=far) + keys)
    outer.write_text(STUNNEL.format(accept=near, connect=middle) + "client = yes\n")
    tunnels = [stage.start("stunnel4", file) for file in (inner, outer)]
    until("the tunnel", lambda: all(connects(port) for port in (far, middle, near)))
    client = stage.rhythm(echo, port=near)
    with stage.recording(after=3):
        flag.touch()
    others = [Who(each.pid) for each in (*tunnels, relay)] + children(relay.pid)
    return client.truth(culprits=[Who(behind.who.pid)], others=others)


PGBOUNCER = """
[databases]
postgres = host=127.0.0.1 port={upstream} dbname=postgres user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 1
"""
IDLE = [postgres.LOCKS[1], rf"\bthink\b|{SLEEPS}"]


@hang("PgBouncer", IDLE, needs=["pgbouncer", *postgres.NEEDS])
def pgbouncer_pool(stage):
    """A client that thinks in its transaction has the only connection of the pool."""
    upstream, port = postgres.server(stage), free_port()
    file = stage.folder / "pgbouncer.ini"
    file.write_text(PGBOUNCER.format(upstream=upstream, port=port, user=postgres.USER))
    pooler = stage.start("pgbouncer", file, user=postgres.USER)
    until("PgBouncer", lambda: connects(port))
    statement = "select amount from accounts where id = 7"
    client = stage.rhythm(postgres.ask, port=port, statement=statement)
    begin = ["begin", "update accounts set amount = 1 where id = 8"]
    holder = stage.deed(postgres.hold, port=port, statements=begin, last="commit")
    with stage.recording():
        holder.go()
        holder.result()
    culprits = [holder.who, Who(holder.facts["backend"])]
    return client.truth(culprits=culprits, others=[Who(pooler.pid)])


UWSGI = """
import os, time, uwsgi

def write_report():
    time.sleep(1.2)
    return str(os.getpid()).encode()

def application(environ, start_response):
    uwsgi.lock()
    try:
        page = write_report() if environ["PATH_INFO"] == "/report" else b"page"
    finally:
        uwsgi.unlock()
    start_response("200 OK", [("Content-Length", str(len(page)))])
    return [page]
"""


@hang("uWSGI", [rf"uwsgi_\w*lock|write_report|{SLEEPS}"], lock=True, needs=["uwsgi"])
def uwsgi_lock(stage):
    """A worker sleeps with the lock that all workers share."""
    port, file = free_port(), stage.folder / "shop.py"
    file.write_text(UWSGI)
    options = ["--http-socket", f"127.0.0.1:{port}", "--wsgi-file", file, "--need-app"]
    options += ["--master", "--die-on-term", "--processes", "2", "--disable-logging"]
    server = stage.start("uwsgi", "--plugin", "python3", *options)
    until("uWSGI", lambda: connects(port))
    client = stage.rhythm(browse, port=port)
    other = stage.deed(browse, port=port, path="/report")
    with stage.recording():
        other.go()
        holder = Who(int(other.result()["result"]))
    others = [who for who in children(server.pid) if who != holder]
    return client.truth(culprits=[holder], others=others)


RSYSLOG = """
main_queue(queue.type="Direct")
module(load="imuxsock" SysSock.Use="off")
module(load="omprog")
input(type="imuxsock" Socket="{folder}/log" RateLimit.Interval="0")
action(type="omprog" confirmMessages="on" binary="{python} {folder}/rsyslog-archive.py {flag}")
"""
# Says when it is ready, and for each line that it has it.
ARCHIVE = """
import os, sys, time

def store_line(line):
    if os.path.exists(sys.argv[1]):
        os.unlink(sys.argv[1])
        time.sleep(1.6)

print("OK", flush=True)
for line in sys.stdin:
    store_line(line)
    print("OK", flush=True)
"""


def logs(path):
    """A program that logs its orders as syslog(3) does, with much to say of each."""
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.connect(path)
    line = b"<13>shop: " + b"x" * 4000

    def log_order():
        for _ in range(4):
            log.send(line)

    return log_order


@hang("rsyslog", [rf"store_line|log_order|{SLEEPS}"], needs=["rsyslogd", PYTHON])
def rsyslog_blocked(stage):
    """Where the log goes is slow, so the log's daemon does not read, and programs cannot log."""
    flag, file, path = stage.folder / "slow", stage.folder / "rsyslog.conf", stage.folder / "log"
    (stage.folder / "rsyslog-archive.py").write_text(ARCHIVE)
    file.write_text(RSYSLOG.format(folder=stage.folder, python=PYTHON, flag=flag))
    server = stage.start("rsyslogd", "-n", "-f", file, "-i", stage.folder / "rsyslog.pid")
    until("rsyslog", path.exists)
    client = stage.rhythm(logs, path=path)
    archive = until("the archive", lambda: running("rsyslog-archive.py"))
    with stage.recording(after=3):
        flag.touch()
    return client.truth(culprits=archive, others=[Who(server.pid)])


def beanstalk(port):
    """A connection to the work queue: how it says a line, puts a job into a tube, and takes one."""
    sock = socket.create_connection(("127.0.0.1", port))
    replies = sock.makefile("rb")

    def say(line):
        sock.sendall(line + b"\r\n")
        return replies.readline().split()

    def put(tube, job):
        say(b"use " + tube)
        say(b"put 0 0 60 %d\r\n%s" % (len(job), job))

    def take():
        _, number, size = say(b"reserve")
        job = replies.read(int(size) + 2)[:-2]
        say(b"delete " + number)
        return job

    return say, put, take


def pictures(port, picture):
    """A program that has a picture resized, and waits for that."""
    say, put, take = beanstalk(port)
    say(b"watch " + picture.encode())
    say(b"ignore default")

    def order_picture():
        put(b"jobs", picture.encode())
        take()

    return order_picture


def resizer(port):
    """The queue's only worker, for which big pictures are far more work."""
    say, put, take = beanstalk(port)
    say(b"watch jobs")
    say(b"ignore default")

    def work_off_jobs():
        while True:
            picture = take()
            if picture == b"big":
                validate_input()
            put(picture, b"done")

    threading.Thread(target=work_off_jobs, daemon=True).start()
    return ticking()


@hang("beanstalkd", [COMPUTES, r"work_off_jobs"], needs=["beanstalkd"])
def beanstalkd_one_worker(stage):
    """The only worker of a work queue has somebody else's big job."""
    port = free_port()
    server = stage.start("beanstalkd", "-l", "127.0.0.1", "-p", port)
    until("beanstalkd", lambda: connects(port))
    worker = stage.deed(resizer, port=port)
    client = stage.rhythm(pictures, port=port, picture="small")
    other = stage.deed(pictures, port=port, picture="big")
    with stage.recording(after=2):
        other.go()
        other.result()
    return client.truth(culprits=[Who(worker.who.pid)], others=[Who(server.pid)])
