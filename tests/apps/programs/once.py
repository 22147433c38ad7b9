"""Programs that do one thing in all of the recording, and that takes long: scripts that run a
command, and programs that import, lock or ask something. What they do before and after has no
rhythm."""

import contextlib
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

import programs.postgres as postgres
from hang import DidNotHang, Who, hang
from programs.languages import go_server
from programs.shell import LZMA, numbers
from programs.servers import write_script
from stage import HERE, PIPES, Actor, children, connects, free_port, thread_of, until

SOURCES = HERE / "sources/shapes"


def runs(argv, cwd=None, **settings):
    """A script that runs a command once. The settings are of its environment."""

    def run_command():
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        process = subprocess.Popen(argv, cwd=cwd, env=os.environ | settings, **quiet)
        if process.wait():
            raise SystemExit(f"{argv[0]}: {process.returncode}")
        return process.pid

    return run_command


def started(pid, name):
    """The processes that a program has started: those of this name, once there is one, and the
    rest."""

    def look():
        # Processes come and go meanwhile.
        with contextlib.suppress(OSError):
            pids = [who.pid for who in children(pid)]
            names = [pathlib.Path(f"/proc/{each}/comm").read_text().strip() for each in pids]
            everyone = [Who(each, name=comm) for each, comm in zip(pids, names)]
            found = [who for who in everyone if who.name == name]
            return found and (found, [who for who in everyone if who not in found])
        return None

    return until(name, look)


def partner(stage, *argv, **options):
    """A program in any language that does something when told so, and says when it has begun to."""
    return Actor(stage, stage.start(*argv, **PIPES, **options), pathlib.Path(argv[0]).name)


# Packs what is asked for when it has been audited.
PACKS = """#!/bin/sh
xz -T1 -3 -c {file} >/dev/null
exec "$@"
"""


@hang("git", [*LZMA, r"wait4|waitpid|read_in_full|index_pack"], needs=["git", "xz"])
def git_clone_pack_hook(stage):
    """git clone waits for the other side, which runs a hook before it packs anything."""
    home, origin = stage.subfolder("home"), stage.folder / "origin"
    file = numbers(stage, 200_000)
    hook = write_script(stage.folder / "audit", PACKS.format(file=file))
    (home / ".gitconfig").write_text(f"[uploadpack]\n\tpackObjectsHook = {hook}\n")
    stage.run("git", "init", "--quiet", origin)
    (origin / "letter").write_text("Dear Sir")
    git = ["git", "-C", origin, "-c", "user.name=a", "-c", "user.email=a@example.com"]
    stage.run(*git, "add", "letter")
    stage.run(*git, "commit", "--quiet", "-m", "a")
    clone = ["git", "clone", "--quiet", f"file://{origin}", stage.folder / "copy"]
    script = stage.errand(runs, argv=clone, HOME=str(home))
    with stage.recording():
        script.go()
        xz, others = started(script.who.pid, "xz")
        return script.truth(culprits=xz, others=others)


@hang("tar", [], needs=["tar", "bindfs", "fusermount3"])
def tar_slow_folder(stage):
    """tar reads a tree, one folder of which is a file system that gives a megabyte a second."""
    tree, real = stage.subfolder("tree"), stage.subfolder("real")
    for n in range(40):
        (tree / f"letter{n}").write_text("Dear Sir" * n)
    (real / "film").write_bytes(os.urandom(1_700_000))
    (tree / "films").mkdir()
    server = stage.start("bindfs", "-f", "--read-rate=1M", real, tree / "films")
    stage.closing.callback(subprocess.run, ["umount", "-l", tree / "films"])
    until("bindfs", lambda: os.path.ismount(tree / "films"))
    command = ["tar", "-c", "-f", stage.folder / "backup.tar", "-C", tree, "."]
    script = stage.errand(runs, argv=command)
    with stage.recording():
        script.go()
        tar, _ = started(script.who.pid, "tar")
        return script.truth(culprits=[Who(server.pid)], others=tar)


# The assembler may be used by one build at a time.
ASSEMBLER = """#!/bin/sh
exec flock {licence} {program} "$@"
"""


@hang("gcc", [], lock=True, needs=["gcc", "as", "flock"])
def gcc_assembler_licence(stage):
    """gcc waits for its assembler, which waits for a file lock that another build has."""
    licence, source = stage.folder / "licence", stage.folder / "program.c"
    licence.touch()
    source.write_text("int main(void) { return 0; }\n")
    text = ASSEMBLER.format(licence=licence, program=shutil.which("as"))
    write_script(stage.subfolder("tools") / "as", text)
    command = ["gcc", f"-B{stage.folder}/tools/", "-c", source, "-o", stage.folder / "program.o"]
    script = stage.errand(runs, argv=command)
    with stage.recording():
        holder = stage.start("flock", licence, "sleep", "1.9")
        sleep, _ = started(holder.pid, "sleep")
        script.go()
        waits, others = started(script.who.pid, "flock")
        return script.truth(culprits=[Who(holder.pid), *sleep], others=[*waits, *others])


@hang("PostgreSQL", postgres.LOCKS, lock=True, needs=[*postgres.NEEDS, "pg_dump"])
def pg_dump_behind_migration(stage):
    """A dump begins, and waits for a table that a migration has locked."""
    port = postgres.server(stage)
    address = ["-h", "127.0.0.1", "-p", port, "-U", postgres.USER]
    script = stage.errand(runs, argv=["pg_dump", *map(str, address), "-f", "/dev/null", "postgres"])
    alter = ["begin", "alter table accounts add column note text"]
    migration = stage.deed(postgres.hold, port=port, statements=alter, last="rollback")
    monitor = postgres.connect(port)
    dump = "select pid from pg_stat_activity where application_name = 'pg_dump'"
    with stage.recording():
        migration.go()
        time.sleep(0.2)
        script.go()
        backends = until("pg_dump", lambda: monitor.run(dump))
        migration.result()
        return script.truth(
            culprits=[migration.who, Who(migration.facts["backend"])],
            others=[Who(backend) for backend, in backends],
        )


ICONS = """
process.title = "icons";
function drawIcons(seconds) {
  let pixels = 0;
  for (const end = Date.now() + 1000 * seconds; Date.now() < end; )
    for (let n = 0; n < 10000; n++) pixels = (pixels * 31 + n) % 1000003;
  return pixels;
}
drawIcons(2.2);
"""


@hang("npm", [r"drawIcons"], needs=["npm", "node"])
def npm_build_script(stage):
    """npm runs a shell, which runs a script that computes."""
    build = "node --perf-basic-prof --interpreted-frames-native-stack icons.js"
    (stage.folder / "icons.js").write_text(ICONS)
    (stage.folder / "package.json").write_text(
        f'{{"name": "shop", "version": "1.0.0", "scripts": {{"build": "{build}"}}}}'
    )
    command = ["npm", "run", "build", "--offline", "--no-update-notifier"]
    script = stage.errand(runs, argv=command, cwd=stage.folder, HOME=str(stage.folder))
    with stage.recording():
        script.go()
        icons, others = started(script.who.pid, "icons")
        names = pathlib.Path(f"/tmp/perf-{icons[0].pid}.map")
        stage.closing.callback(names.unlink, missing_ok=True)
        return script.truth(culprits=icons, others=others)


REPORT = r"""
$0 = "report";
use Time::HiRes "time";
while (<STDIN>) { last if /^\r?$/ }
for (my $end = time + 0.7; time < $end; ) { $sold{$_ % 1000} += $_ for 1 .. 1000 }
print "HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\nreport\n";
"""


@hang("socat", [r"Perl_|\bS_"], needs=["curl", "socat", "perl"])
def curl_script_of_socat(stage):
    """curl asks a server that starts a script for each connection, and that computes."""
    port, file = free_port(), stage.folder / "report.pl"
    file.write_text(REPORT)
    listen = f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"
    server = stage.start("socat", listen, f"EXEC:perl {file}")
    until("socat", lambda: connects(port))
    command = ["curl", "--silent", "--output", "/dev/null", f"http://127.0.0.1:{port}/report"]
    script = stage.errand(runs, argv=command)
    # The probe was a connection, too.
    time.sleep(1.2)
    with stage.recording():
        script.go()
        report, others = started(server.pid, "report")
        curl, _ = started(script.who.pid, "curl")
        return script.truth(culprits=report, others=[Who(server.pid), *others, *curl])


PRICING = r"priceArticle|putTogether|FutureTask|LockSupport|\b[pP]ark"


@hang("Java", [PRICING], needs=["java", "javac"])
def java_waits_for_pool_once(stage):
    """A program starts a pool, and waits for all its tasks, one of which computes for long."""
    classes = stage.subfolder("classes")
    stage.run("javac", "-d", classes, SOURCES / "Quotation.java")
    program = stage.errand_of("java", "-cp", classes, "Quotation")
    with stage.recording():
        program.go()
        computes = until("the pool", lambda: pool_thread(program.who.pid, "pricing-3"))
        return program.truth(culprits=[computes])


def pool_thread(pid, name):
    """A thread that is about to start; None if it has not."""
    with contextlib.suppress(DidNotHang, OSError):
        return thread_of(pid, name)
    return None


GLYPHS = """
import fcntl

def read_cache(path):
    with open(path, "w") as cache:
        fcntl.flock(cache, fcntl.LOCK_EX)

read_cache({path!r})
"""


def imports(folder, name):
    """A program that imports a module when it needs it."""

    def draw_page():
        sys.path.insert(0, folder)
        importlib.import_module(name)

    return draw_page


@hang("Python", [r"measure_glyphs|read_cache|draw_page|rb_|vm_exec"], lock=True, needs=["ruby"])
def python_import_locks_cache(stage):
    """A module locks a cache when it is imported, and a program in Ruby makes that anew."""
    cache = stage.folder / "fonts.cache"
    (stage.folder / "glyphs.py").write_text(GLYPHS.format(path=str(cache)))
    program = stage.errand(imports, folder=stage.folder, name="glyphs")
    other = partner(stage, "ruby", SOURCES / "fonts.rb", cache, "1.1")
    with stage.recording():
        other.go()
        other.result()
        program.go()
        return program.truth(culprits=[Who(other.who.pid)])


@hang("Perl", [r"count_stock|execute_ex|zif_|php_"], lock=True, needs=["perl", "php"])
def perl_locks_ledger(stage):
    """A script in Perl adds an entry to a file that one in PHP has locked."""
    ledger = stage.folder / "ledger"
    ledger.touch()
    program = stage.errand_of("perl", SOURCES / "ledger.pl", ledger)
    other = partner(stage, "php", SOURCES / "stocktaking.php", ledger, "1.6")
    with stage.recording():
        other.go()
        other.result()
        program.go()
        return program.truth(culprits=[Who(other.who.pid)])


@hang("Node.js", [r"signInvoice|sha256"], needs=["node", "go"])
def node_fetches_once(stage):
    """A script awaits an answer of a service in Go, which computes."""
    server, port = go_server(stage, "invoices", folder=SOURCES)
    script = stage.errand_of("node", SOURCES / "invoice.js", f"http://127.0.0.1:{port}/invoices")
    with stage.recording():
        script.go()
        return script.truth(culprits=[Who(server.pid)])
