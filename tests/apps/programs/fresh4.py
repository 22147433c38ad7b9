"""Servers, file systems and desktops: a database that moves a key to another one, a lock in a
database, an index that is made on the side, a queue of notices, the name of who asks, a folder of
the web, a compositor, a terminal's keeper, a shell's completion, and a virtual machine's
monitor."""

import fcntl
import functools
import grp
import http.client
import http.server
import json
import os
import pty
import pwd
import socket
import struct
import subprocess
import termios
import threading
import time

import programs.postgres as postgres
import programs.redis as redis
from actor import told
from hang import Who, hang
from programs.everyday import debug_sleep
from programs.fresh3 import names
from programs.kernel import SECONDS, ticking
from programs.libraries import package
from programs.native import RESOLVER, collector
from programs.servers import APACHE, SLEEPS, SOMETIMES, pages, until_asleep, write_script
from programs.visitors import READS
from programs.windows import prints_much
from stage import children, connects, free_port, stop_for_a_while, until


def database(stage, name):
    """A server of Redis; its process and its port."""
    port, folder = free_port(), stage.subfolder(name, "nobody")
    options = [
        "--save",
        "",
        "--appendonly",
        "no",
        "--enable-debug-command",
        "yes",
        "--bind",
        "127.0.0.1",
    ]
    server = stage.start("redis-server", "--port", port, "--dir", folder, *options, user="nobody")
    until("Redis", lambda: connects(port))
    return server, port


def moves_key(port, target):
    """Somebody who moves a key to another server."""
    connection = redis.connect(port)
    redis.ask(connection, "set cart apples")
    return lambda: redis.ask(connection, f"migrate 127.0.0.1 {target} cart 0 10000 copy replace")


@hang("Redis", [r"debugCommand|nanosleep|migrateCommand|sync(Read|Write)"], needs=redis.REDIS)
def redis_migrate(stage):
    """A server moves a key to another one (MIGRATE), which does something else; it serves nobody
    until that answers."""
    (server, port), (target, other_port) = (database(stage, name) for name in ("old", "new"))
    client = stage.rhythm(redis.get, port=port)
    busy = stage.deed(debug_sleep, port=other_port)
    mover = stage.deed(moves_key, port=port, target=other_port)
    with stage.recording():
        busy.go()
        time.sleep(0.1)
        mover.go()
        mover.result()
    return client.truth(culprits=[Who(target.pid, target.pid)], others=[Who(server.pid)])


def takes_stock(port, seconds):
    """A program that agrees with others by a lock in Redis, and keeps it for so long."""
    lock = package("redis").Redis(port=port).lock("stock", timeout=30)

    def take_stock():
        with lock:
            time.sleep(seconds)

    return take_stock


@hang("Redis", [rf"take_stock|\bacquire\b|{SLEEPS}"], lock=True, needs=redis.REDIS)
def redis_lock(stage):
    """A program keeps a lock that is a key in Redis (redis.lock), and another one looks again and
    again whether that is still there."""
    package("redis")
    _, port = database(stage, "locks")
    client = stage.rhythm(takes_stock, port=port, seconds=0)
    other = stage.deed(takes_stock, port=port, seconds=SECONDS)
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[other.who])


def makes_index(port):
    """A migration that makes an index without keeping anybody from writing."""
    connection = postgres.connect(port)
    statement = "create index concurrently amounts on accounts (amount)"
    return lambda: connection.run(statement) and None, postgres.backend_of(connection)


def makes_report(port):
    """A program that reads something quite different, and thinks in its transaction."""
    connection = postgres.connect(port)

    def think_in_transaction():
        connection.run("begin isolation level repeatable read")
        connection.run("select count(*) from pg_class")
        time.sleep(2)
        connection.run("commit")

    return think_in_transaction, postgres.backend_of(connection)


SNAPSHOT = r"VirtualXactLock|WaitForOlderSnapshots|DefineIndex|ProcSleep|LockAcquire|WaitOnLock"


@hang(
    "PostgreSQL",
    [SNAPSHOT, READS, rf"think_in_transaction|{SLEEPS}"],
    lock=True,
    needs=postgres.NEEDS,
)
def postgres_concurrent_index(stage):
    """CREATE INDEX CONCURRENTLY waits for the end of each transaction that is older, even if that
    has never seen the table."""
    port = postgres.server(stage)
    client = stage.errand(makes_index, port=port)
    holder = stage.deed(makes_report, port=port)
    with stage.recording():
        holder.go()
        time.sleep(0.3)
        client.go()
        holder.result()
        return client.truth(
            culprits=[holder.who, Who(holder.facts["backend"])],
            others=[Who(client.facts["backend"])],
        )


def notifies(port, row, commit, after=0.0):
    """A program that changes a row, and tells others (NOTIFY). Whether the standby has to have that
    is in `commit`."""
    connection = postgres.connect(port)
    connection.run(f"set synchronous_commit = {commit}")

    def notify_others():
        time.sleep(after)
        connection.run("begin")
        connection.run(f"update accounts set amount = amount + 1 where id = {row}")
        connection.run("notify orders")
        connection.run("commit")

    return notify_others, postgres.backend_of(connection)


NOTIFY = [postgres.REPLICATION, *postgres.LOCKS, r"PreCommit_Notify|LockSharedObject"]


@hang("PostgreSQL", NOTIFY, lock=True, needs=postgres.STANDBY_NEEDS)
def postgres_notify_queue(stage):
    """A transaction with a NOTIFY waits for the standby, whose receiver somebody has stopped; there
    is one queue of notices, which it has locked so long, and nobody else can commit a NOTIFY."""
    port = postgres.server(stage)
    receiver, sender = postgres.standby(stage, port)
    client = stage.rhythm(notifies, port=port, row=7, commit="local")
    other = stage.deed(notifies, port=port, row=8, commit="on", after=0.1)
    with stage.recording():
        other.go()
        somebody = stop_for_a_while(receiver.pid)
        other.result()
    others = [sender, *(Who(each.facts["backend"]) for each in (client, other))]
    return client.truth(culprits=[receiver, somebody], others=others)


def from_outside(port, address="127.0.0.9"):
    """A browser at an address that no list of this machine has a name for."""

    def visit_page():
        source = (address, 0)
        connection = http.client.HTTPConnection("127.0.0.1", port, source_address=source)
        connection.request("GET", "/page")
        connection.getresponse().read()
        connection.close()

    return visit_page


BY_NAME = """
LoadModule authz_host_module /usr/lib/apache2/modules/mod_authz_host.so
<Location /page>
  <RequireAll>
    Require all granted
    Require not host spam.example
  </RequireAll>
</Location>
"""


NAMES = r"getnameinfo|gethostbyaddr|ap_get_(remote|useragent)_host|host_check"


@hang("Apache", [RESOLVER, NAMES], needs=["apache2", "unshare"])
def apache_reverse_lookup(stage):
    """A web server keeps somebody out by name, and so it asks a name server for the name of each
    who comes."""
    port, file = free_port(), stage.folder / "apache.conf"
    resolver, slow, inside = names(stage)
    pages(stage)
    stage.subfolder("locks", "nobody")
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    values = {"folder": stage.folder, "port": port, "group": group}
    file.write_text(APACHE.format(modules="/usr/lib/apache2/modules", **values) + BY_NAME)
    server = stage.start(*inside(f"apache2 -D FOREGROUND -f {file}"))
    until("Apache", lambda: connects(port))
    client = stage.rhythm(from_outside, port=port)
    with stage.recording(after=2.5):
        slow.touch()
    others = [Who(server.pid), *children(server.pid)]
    return client.truth(culprits=[Who(resolver.who.pid)], others=others)


def archive(port, folder, flag):
    """A web server with a folder of files, which once has to fetch one from the tape."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            if told(flag):
                self.fetch_film()
            super().do_GET()

        @staticmethod
        def fetch_film():
            time.sleep(SECONDS)

        def log_message(self, *_):
            """Silent."""

    handler = functools.partial(Handler, directory=folder)
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return ticking()


def plays_film(path):
    """A program that reads the beginning of a file."""

    def read_film():
        with open(path, "rb", buffering=0) as film:
            film.read(4096)

    return read_film


@hang("rclone", [rf"fetch_film|do_GET|read_film|fuse_|{SLEEPS}"], needs=["rclone", "fusermount3"])
def rclone_slow_site(stage):
    """A folder is a web site (rclone mount), which once is slow, and who reads a file of it
    waits."""
    port, flag = free_port(), stage.folder / "tape"
    films, mounted = stage.subfolder("films"), stage.subfolder("mounted")
    (films / "film").write_bytes(os.urandom(8192))
    site = stage.actor("deed", archive, port=port, folder=films, flag=flag)
    home = os.environ | {"HOME": str(stage.folder), "XDG_CACHE_HOME": str(stage.folder)}
    mount = ["rclone", "mount", "--config", "/dev/null", "--http-url", f"http://127.0.0.1:{port}/"]
    server = stage.start(*mount, "--read-only", ":http:", mounted, env=home)
    stage.closing.callback(subprocess.run, ["umount", "-l", mounted])
    until("rclone", lambda: os.path.ismount(mounted))
    client = stage.rhythm(plays_film, path=mounted / "film")
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(site.who.pid)], others=[Who(server.pid)])


def draws_window(path):
    """A desktop program that asks the compositor whether all has been done that it sent
    (wl_display.sync), as each does before it goes on."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    events = connection.makefile("rb")

    def draw_window():
        # The object 2 is to tell, and is gone after that.
        connection.sendall(struct.pack("=IHHI", 1, 0, 12, 2))
        events.read(24)

    return draw_window


@hang("Weston", [], needs=["weston"])
def wayland_compositor(stage):
    """Somebody has stopped the compositor of a desktop (Wayland), and no program gets an answer
    from it."""
    address = stage.folder / "wayland"
    options = ["--backend=headless-backend.so", "--socket=wayland", "--no-config", "--idle-time=0"]
    stage.folder.chmod(0o700)
    settings = os.environ | {"XDG_RUNTIME_DIR": str(stage.folder)}
    compositor = stage.start("weston", *options, env=settings)
    until("Weston", lambda: address.exists() and connects(address))
    client = stage.rhythm(draws_window, path=address)
    with stage.recording():
        somebody = stop_for_a_while(compositor.pid)
    return client.truth(culprits=[Who(compositor.pid), somebody])


def at_desk(argv, flag):
    """A terminal emulator, in which somebody runs a command; it stops to think."""
    pid, terminal = pty.fork()
    if not pid:
        os.execvp(argv[0], argv)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))

    def show_output():
        while os.read(terminal, 4096):
            if told(flag):
                time.sleep(SECONDS)

    threading.Thread(target=show_output, daemon=True).start()
    return ticking(), {"command": pid}


@hang("GNU Screen", [rf"show_output|print_lines|n_tty_write|{SLEEPS}"], needs=["screen"])
def screen_slow_display(stage):
    """A program prints into a window of screen, and the terminal that shows this does not read."""
    tty, flag, folder = stage.folder / "tty", stage.folder / "think", stage.subfolder("screens")
    folder.chmod(0o700)
    screen = ["env", f"SCREENDIR={folder}", "TERM=xterm", "screen", "-c", "/dev/null"]
    keeper = stage.start(*screen, "-S", "shop", "-D", "-m", "sh", "-c", "tty >tty; exec sleep 100")
    until("screen", lambda: tty.exists() and tty.read_text())
    emulator = stage.actor("deed", at_desk, argv=[*screen, "-x", "shop"], flag=flag)
    program = stage.rhythm(prints_much, path=tty.read_text().strip())
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(emulator.who.pid)], others=[Who(keeper.pid)])


SHOPS = """
list_shops() {{ COMPREPLY=($({folder}/list-shops)); }}
complete -F list_shops deliver
PS1='$ '
unset HISTFILE
"""


def types(folder):
    """Somebody who types the beginning of a command, and has the shell complete it with Tab."""
    pid, terminal = pty.fork()
    if not pid:
        os.execvp("bash", ["bash", "--noprofile", "--rcfile", f"{folder}/rc", "-i"])

    def until_shown(text):
        shown = b""
        while text not in shown:
            shown += os.read(terminal, 4096)

    def complete_command():
        # The last key clears the line.
        os.write(terminal, b"deliver l\t")
        until_shown(b"lisbon")
        os.write(terminal, b"\x15")

    until_shown(b"$ ")
    return complete_command, {"shell": pid}


@hang("bash", [r"nanosleep|wait4|waitpid|waitchld|\bread\b|zread"], needs=["bash"])
def bash_completion(stage):
    """Somebody presses Tab, and the command that the shell asks for all words that fit takes
    long."""
    flag = stage.folder / "slow"
    write_script(stage.folder / "list-shops", SOMETIMES.format(flag=flag) + "echo lisbon\n")
    (stage.folder / "rc").write_text(SHOPS.format(folder=stage.folder))
    person = stage.rhythm(types, folder=stage.folder)
    shell = person.facts["shell"]
    with stage.recording(after=2.5):
        flag.touch()
        culprits = until_asleep("list-shops")
        pids = {who.pid for who in culprits}
        others = [Who(shell), *(who for who in children(shell) if who.pid not in pids)]
    return person.truth(culprits=culprits, others=others)


def monitor(path):
    """A connection to the monitor of a virtual machine (QMP), and how it is told something."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    answers = connection.makefile("rb")
    answers.readline()

    def tell(command, **arguments):
        connection.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        while b'"event"' in answers.readline():
            pass

    tell("qmp_capabilities")
    return tell


def watches(path):
    """A program that looks whether a virtual machine runs."""
    tell = monitor(path)
    return lambda: tell("query-status")


def saves_memory(path, file):
    """A program that has a virtual machine write its memory to a file."""
    tell = monitor(path)
    return lambda: tell("pmemsave", val=0, size=8 << 20, filename=file)


MEMORY = rf"collect_lines|pmemsave|main_loop|pipe_write|\bf?write\b|{SLEEPS}"


@hang("QEMU", [MEMORY], needs=["qemu-system-x86_64"])
def qemu_monitor(stage):
    """A virtual machine writes its memory to who reads late, and its monitor answers nobody else:
    it has one loop for all."""
    file, flag, *paths = (
        stage.folder / name for name in ("memory", "think", "monitor1", "monitor2")
    )
    os.mkfifo(file)
    reader = stage.actor("deed", collector, path=file, flag=flag)
    sockets = [word for path in paths for word in ("-qmp", f"unix:{path},server=on,wait=off")]
    machine = ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-m", "16", "-S"]
    server = stage.start(*machine, *sockets)
    until("QEMU", lambda: paths[1].exists() and all(map(connects, paths)))
    client = stage.rhythm(watches, path=paths[0])
    other = stage.deed(saves_memory, path=paths[1], file=file)
    with stage.recording():
        flag.touch()
        other.go()
        other.result()
    return client.truth(culprits=[Who(reader.who.pid)], others=[Who(server.pid)])
