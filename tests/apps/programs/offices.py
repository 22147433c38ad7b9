"""Servers of files, pages, directories, data and messages: what hangs behind their helpers, their locks,
their logs, and those who share them."""

import ftplib
import fcntl
import grp
import pwd
import socket
import threading
import time

import web
from actor import told
from hang import Who, hang
from programs.kernel import SECONDS, ticking
from programs.once import started
from programs.servers import (
    APACHE,
    PYTHON,
    SLEEPS,
    SOMETIMES,
    browse,
    pages,
    until_asleep,
    write_script,
)
from stage import children, connects, free_port, until

VSFTPD = """
listen=YES
listen_address=127.0.0.1
listen_port={port}
background=NO
anonymous_enable=YES
no_anon_password=YES
anon_root={folder}/films
ftp_username=daemon
secure_chroot_dir={folder}/empty
lock_upload_files=YES
seccomp_sandbox=NO
isolate=NO
isolate_network=NO
"""


def downloads(port):
    """A client that gets a small file again and again."""
    connection = ftplib.FTP()
    connection.connect("127.0.0.1", port)
    connection.login()
    return lambda: connection.retrbinary("RETR trailer", lambda _: None) and None


def cutter(path):
    """A program that changes a file, and locks it while it does."""
    file = open(path, "r+b")

    def cut_film():
        fcntl.lockf(file, fcntl.LOCK_EX)
        time.sleep(1.3)
        fcntl.lockf(file, fcntl.LOCK_UN)

    return cut_film


@hang("vsftpd", [rf"cut_film|vsf_|{SLEEPS}"], lock=True, needs=["vsftpd"])
def vsftpd_locked_file(stage):
    """A server of files (FTP) sends none that somebody has locked, and a client waits."""
    port, films, file = free_port(), stage.subfolder("films"), stage.folder / "vsftpd.conf"
    stage.subfolder("empty")
    (films / "trailer").write_bytes(b"x" * 1000)
    file.write_text(VSFTPD.format(port=port, folder=stage.folder))
    server = stage.start("vsftpd", file)
    until("vsftpd", lambda: connects(port))
    client = stage.rhythm(downloads, port=port)
    other = stage.deed(cutter, path=films / "trailer")
    serving = [Who(server.pid), *children(server.pid)]
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[other.who], others=serving)


SLAPD = """
include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_sock
pidfile {folder}/slapd.pid
argsfile {folder}/slapd.args
database sock
suffix "o=staff"
socketpath {folder}/people
"""
PERSON = b"dn: cn=a,o=staff\nobjectClass: person\ncn: a\nsn: a\n\nRESULT\ncode: 0\n"


def people(path, flag):
    """The program that knows everybody. The directory's server asks it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def find_person():
        if told(flag):
            time.sleep(SECONDS)
        return PERSON

    def answer_directory():
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(find_person())

    threading.Thread(target=answer_directory, daemon=True).start()
    return ticking()


def tagged(tag, *parts):
    """A value in BER, shorter than 128 bytes."""
    body = b"".join(parts)
    return bytes([tag, len(body)]) + body


def address_book(port):
    """A mail program that looks somebody up in the directory (LDAP)."""
    connection = socket.create_connection(("127.0.0.1", port))
    number = tagged(2, b"\x01")
    rest = tagged(10, b"\x02"), tagged(10, b"\x00"), tagged(2, b"\x00"), tagged(2, b"\x00")
    asked = tagged(4, b"o=staff"), *rest, tagged(1, b"\x00"), tagged(0x87, b"objectClass"), tagged(0x30)
    question = tagged(0x30, number, tagged(0x63, *asked))

    def look_up_person():
        connection.sendall(question)
        answer = b""
        # The last part of an answer has this tag.
        while b"\x65\x07" not in answer:
            part = connection.recv(10_000)
            if not part:
                raise SystemExit("slapd does not answer")
            answer += part

    return look_up_person


@hang("OpenLDAP", [rf"find_person|look_up_person|{SLEEPS}"], needs=["slapd"])
def slapd_slow_backend(stage):
    """A client waits for a directory, whose server asks another program (back-sock) that is slow."""
    port, flag, file = free_port(), stage.folder / "slow", stage.folder / "slapd.conf"
    file.write_text(SLAPD.format(folder=stage.folder))
    other = stage.actor("deed", people, path=stage.folder / "people", flag=flag)
    server = stage.start("slapd", "-d", "0", "-h", f"ldap://127.0.0.1:{port}", "-f", file)
    until("slapd", lambda: connects(port))
    client = stage.rhythm(address_book, port=port)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(other.who.pid)], others=[Who(server.pid)])


# A line is as long as a page of memory, so that the pipe is full soon.
LOG = """
LogFormat "%h %r {rest}" long
CustomLog "||{program} {folder}" long
"""
LOGGER = """#!{python}
import os, sys, time

def rotate_log():
    time.sleep(1.9)

while line := os.read(0, 4096):
    try:
        os.unlink(sys.argv[1] + "/rotate")
    except FileNotFoundError:
        continue
    rotate_log()
"""


@hang("Apache", [rf"rotate_log|ap_log|log_(writer|transaction)|{SLEEPS}"], needs=["apache2"])
def apache_piped_log(stage):
    """The program that Apache pipes its log to reads nothing while it rotates files."""
    port, file = free_port(), stage.folder / "apache.conf"
    pages(stage)
    stage.subfolder("locks", "nobody")
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    values = {"folder": stage.folder, "port": port, "group": group}
    logger = write_script(stage.folder / "log-rotator", LOGGER.format(python=PYTHON))
    log = LOG.format(rest="x" * 4000, program=logger, folder=stage.folder)
    file.write_text(APACHE.format(modules="/usr/lib/apache2/modules", **values) + log)
    server = stage.start("apache2", "-D", "FOREGROUND", "-f", file)
    until("Apache", lambda: connects(port))
    client = stage.rhythm(browse, port=port, path="/page")
    rotators, workers = started(server.pid, "log-rotator")
    with stage.recording(after=3):
        (stage.folder / "rotate").touch()
    return client.truth(culprits=rotators, others=[Who(server.pid), *workers])


TARANTOOL = """
box.cfg{{work_dir = '{folder}', log = '{folder}/tarantool.txt', wal_mode = 'none'}}
local clock = require('clock')
function show_price() return 108 end
function sum_sales(seconds)
    local sum, finish = 0, clock.time() + seconds
    while clock.time() < finish do
        for n = 1, 10000 do sum = (sum * 31 + n) % 1000003 end
    end
    return sum
end
require('console').listen('127.0.0.1:{port}')
"""


def calls(port, expression):
    """A client of Tarantool that has it evaluate something."""
    connection = socket.create_connection(("127.0.0.1", port))
    answers = connection.makefile("rb")
    for _ in range(2):
        answers.readline()

    def call_function():
        connection.sendall(b"return " + expression.encode() + b"\n")
        while answers.readline() != b"...\n":
            pass

    return call_function


def tarantool(stage):
    """A database with two functions; its process and its port."""
    port, file = free_port(), stage.folder / "sales.lua"
    file.write_text(TARANTOOL.format(folder=stage.folder, port=port))
    server = stage.start("tarantool", file)
    until("Tarantool", lambda: connects(port))
    return server, port


@hang("Tarantool", [], needs=["tarantool"])
def tarantool_busy_fiber(stage):
    """A fiber computes and never yields, so no other fiber of the database runs."""
    server, port = tarantool(stage)
    client = stage.rhythm(calls, port=port, expression="show_price()")
    other = stage.deed(calls, port=port, expression="sum_sales(1.4)")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid, server.pid)])


def reading_nats(port, *lines):
    """A connection to NATS that has sent the lines; and what receives a message, and returns to whom its
    answer goes."""
    connection = socket.create_connection(("127.0.0.1", port))
    answers = connection.makefile("rb")
    answers.readline()
    connection.sendall(b"".join([b'CONNECT {"verbose":false}\r\n', *lines]))

    def receive():
        while line := answers.readline():
            if line.startswith(b"MSG"):
                answers.readline()
                return line.split()[3]
            if line.startswith(b"PING"):
                connection.sendall(b"PONG\r\n")
        raise SystemExit("NATS has gone")

    return connection, receive


def packer(port, flag):
    """One of a group, of whom any may get an order."""
    connection, receive = reading_nats(port, b"SUB orders packers 1\r\n")

    def pack_order():
        if told(flag):
            time.sleep(1.6)

    def pack_orders():
        while True:
            answer = receive()
            pack_order()
            connection.sendall(b"PUB " + answer + b" 4\r\ndone\r\n")

    threading.Thread(target=pack_orders, daemon=True).start()
    return ticking()


def orders(port):
    """A shop that waits until its order has been packed."""
    connection, receive = reading_nats(port, b"SUB answers.shop 1\r\n")

    def order_article():
        connection.sendall(b"PUB orders answers.shop 5\r\nboots\r\n")
        receive()

    return order_article


@hang("NATS", [rf"pack_order|order_article|{SLEEPS}"], needs=["nats-server"])
def nats_queue_group(stage):
    """A broker gives an order to the one of two workers that does something else."""
    port = free_port()
    broker = stage.start("nats-server", "-a", "127.0.0.1", "-p", port)
    until("NATS", lambda: connects(port))
    flags = [stage.folder / name for name in ("pause", "never")]
    workers = [stage.actor("deed", packer, port=port, flag=flag) for flag in flags]
    client = stage.rhythm(orders, port=port)
    with stage.recording(after=2.5):
        flags[0].touch()
    return client.truth(culprits=[Who(workers[0].who.pid)], others=[Who(broker.pid)])


HAPROXY = """
global
  nbthread 1
  insecure-fork-wanted
  lua-load {folder}/tenants.lua
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend all
  bind 127.0.0.1:{port}
  http-request lua.find_tenant
  http-request return status 200 content-type text/plain string page
"""
TENANTS = """
core.register_action("find_tenant", {{"http-req"}}, function(request)
  local command = io.popen("{command}")
  request:set_var("req.tenant", command:read("*l"))
  command:close()
end)
"""


@hang("HAProxy", [r"nanosleep|wait4|waitpid|hlua_|popen|io_popen|\bread\b"], needs=["haproxy"])
def haproxy_lua_runs_script(stage):
    """A function in Lua of a proxy runs a script for each request, and reads what it says: nobody else is
    served so long, as the proxy has one thread."""
    port, flag, file = free_port(), stage.folder / "slow", stage.folder / "haproxy.cfg"
    find = write_script(stage.folder / "find-tenant", SOMETIMES.format(flag=flag) + "echo shop\n")
    (stage.folder / "tenants.lua").write_text(TENANTS.format(command=find))
    file.write_text(HAPROXY.format(folder=stage.folder, port=port))
    proxy = stage.start("haproxy", "-db", "-f", file)
    until("HAProxy", lambda: connects(port))
    client = stage.rhythm(web.get, port=port)
    with stage.recording(after=2.5):
        flag.touch()
        culprits = until_asleep("find-tenant")
    return client.truth(culprits=culprits, others=[Who(proxy.pid)])
