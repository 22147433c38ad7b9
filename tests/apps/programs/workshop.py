"""Tools of developers and administrators, which wait for each other's helpers, limits and locks: most of
them once, and some of them still when the recording ends."""

import http.server
import socket
import subprocess
import threading
import time

from hang import Who, hang
from programs.kernel import ticking
from programs.once import runs, started
from programs.servers import SLEEPS, until_asleep, write_script
from programs.shell import LZMA, numbers
from stage import children, connects, free_port, until

# To link needs so much memory that only one of them may run at a time.
NINJA = """
pool heavy
  depth = 1
rule link
  command = {command}
  pool = heavy
rule strip
  command = cp $in $out
  pool = heavy
build firmware: link numbers
build boot: strip firmware
default boot
"""


@hang("Ninja", LZMA, needs=["ninja", "xz"])
def ninja_link_pool(stage):
    """A build links one thing after the other, in a pool of depth 1, and the first one takes long."""
    numbers(stage, 330_000)
    command = "xz -T1 -3 -c $in >$out"
    (stage.folder / "build.ninja").write_text(NINJA.format(command=command))
    script = stage.errand(runs, argv=["ninja", "--quiet"], cwd=stage.folder)
    with stage.recording():
        script.go()
        xz, others = started(script.who.pid, "xz")
        return script.truth(culprits=xz, others=others)


# Fetches a big file, of which the repository has only the name.
SMUDGE = """#!/bin/sh
sleep 1.7
cat
"""


@hang("git", [r"nanosleep|wait4|waitpid|read_in_full|apply_filter|smudge"], needs=["git"])
def git_smudge_filter(stage):
    """git checkout waits for the filter that fetches big files (as LFS does)."""
    copy, film = stage.subfolder("copy"), stage.folder / "copy/film"
    fetch = write_script(stage.folder / "fetch-film", SMUDGE)
    git = ["git", "-C", copy, "-c", "user.name=a", "-c", "user.email=a@example.com"]
    stage.run(*git, "init", "--quiet")
    (copy / ".gitattributes").write_text("film filter=films\n")
    film.write_text("number 7")
    stage.run(*git, "config", "filter.films.clean", "cat")
    stage.run(*git, "config", "filter.films.smudge", fetch)
    stage.run(*git, "add", ".gitattributes", "film")
    stage.run(*git, "commit", "--quiet", "-m", "a")
    film.unlink()
    script = stage.errand(runs, argv=["git", "-C", copy, "checkout", "--quiet", "film"])
    with stage.recording():
        script.go()
        # A thread of git starts them.
        fetches = until_asleep("fetch-film")
        checkout, _ = started(script.who.pid, "git")
        return script.truth(culprits=fetches, others=checkout)


def private_site(port):
    """A web server that wants a name and a password first."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="shop"')
            self.end_headers()

        def log_message(self, *_):
            """Silent."""

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return ticking()


# Shows a dialog, and nobody sits at the desk.
HELPER = """#!/bin/sh
sleep 60
echo username=a
echo password=a
"""


@hang("git", [r"nanosleep|wait4|waitpid|credential"], needs=["git"])
def git_credential_helper(stage):
    """git still waits for the helper that asks somebody for the password."""
    port, home = free_port(), stage.subfolder("home")
    stage.deed(private_site, port=port)
    helper = write_script(stage.folder / "ask-password", HELPER)
    command = ["git", "-c", f"credential.helper={helper}", "ls-remote"]
    command.append(f"http://127.0.0.1:{port}/shop.git")
    environment = {"HOME": str(home), "GIT_TERMINAL_PROMPT": "0"}
    script = stage.errand(runs, argv=command, **environment)
    with stage.recording(after=1.5):
        script.go()
        sleep, others = started(script.who.pid, "sleep")
    culprits = [*sleep, *(who for who in others if who.name == "ask-password")]
    return script.unfinished(culprits=culprits, others=[w for w in others if w not in culprits])


CONTROL = """Package: atlas
Version: 1
Architecture: all
Maintainer: Nobody <nobody@example.com>
Description: maps
"""
# Packs all maps anew, because there is another one now.
POSTINST = """#!/bin/sh
xz -T1 -3 -c {file} >/dev/null
"""


@hang("dpkg", LZMA, needs=["dpkg", "dpkg-deb", "xz"])
def dpkg_maintainer_script(stage):
    """dpkg waits for the script that a package runs when it has been unpacked."""
    tree, database = stage.subfolder("tree"), stage.subfolder("database")
    file, root, package = numbers(stage, 300_000), stage.subfolder("root"), stage.folder / "a.deb"
    for folder in ("DEBIAN", "maps"):
        (tree / folder).mkdir()
    (tree / "maps/town").write_text("a map")
    (tree / "DEBIAN/control").write_text(CONTROL)
    write_script(tree / "DEBIAN/postinst", POSTINST.format(file=file))
    stage.run("dpkg-deb", "--build", "--root-owner-group", tree, package)
    for name in ("info", "updates"):
        (database / name).mkdir()
    for name in ("status", "available"):
        (database / name).touch()
    command = ["dpkg", f"--admindir={database}", f"--instdir={root}"]
    command += ["--force-script-chrootless", f"--log={stage.folder}/dpkg.txt", "--install", package]
    script = stage.errand(runs, argv=command)
    with stage.recording():
        script.go()
        xz, others = started(script.who.pid, "xz")
        return script.truth(culprits=xz, others=others)


def deployer(tmux):
    """A program that deploys something, and lets nobody else do so meanwhile."""

    def deploy_shop():
        subprocess.run([*tmux, "wait-for", "-L", "deploy"], check=True)
        time.sleep(2)
        subprocess.run([*tmux, "wait-for", "-U", "deploy"], check=True)

    return deploy_shop


@hang("tmux", [rf"deploy_shop|{SLEEPS}"], lock=True, needs=["tmux"])
def tmux_wait_for(stage):
    """A script waits for a lock that tmux has (wait-for -L), and another program keeps it."""
    tmux = ["tmux", "-f", "/dev/null", "-S", stage.folder / "tmux"]
    server = stage.start(*tmux, "-D")
    until("tmux", lambda: connects(stage.folder / "tmux"))
    stage.run(*tmux, "new-session", "-d", "sleep 60")
    script = stage.errand(runs, argv=[*tmux, "wait-for", "-L", "deploy"])
    other = stage.deed(deployer, tmux=tmux)
    with stage.recording():
        other.go()
        time.sleep(0.3)
        script.go()
        client, _ = started(script.who.pid, "tmux: client")
        other.result()
        return script.truth(culprits=[other.who], others=[*client, Who(server.pid)])


def asks_line(port):
    """A client that connects for each question."""

    def ask_question():
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"question\n")
            connection.recv(100)

    return ask_question


def keeps_line(port):
    """A client that has connected, and does not ask anything."""

    def keep_line():
        with socket.create_connection(("127.0.0.1", port)):
            time.sleep(1.5)

    return keep_line


@hang("socat", [rf"keep_line|{SLEEPS}"], needs=["socat"])
def socat_child_limit(stage):
    """A client keeps the only child that a server may have (max-children), and says nothing."""
    port = free_port()
    listen = f"TCP-LISTEN:{port},bind=127.0.0.1,fork,max-children=1,reuseaddr"
    server = stage.start("socat", listen, "EXEC:cat")
    until("socat", lambda: connects(port))
    client = stage.rhythm(asks_line, port=port)
    other = stage.deed(keeps_line, port=port)
    with stage.recording(after=1.5):
        other.go()
        time.sleep(0.8)
        keeps = children(server.pid)
        other.result()
    return client.truth(culprits=[other.who, *keeps], others=[Who(server.pid)])


# Starts a daemon, which inherits the lock's file and knows nothing of that.
STARTS_DAEMON = "sleep 2.3 & exit"


def daemon_of(job):
    """The `sleep` in the session of the job, if there is one; the job itself may have ended."""
    found = subprocess.run(["pgrep", "-s", str(job.pid), "-x", "sleep"], capture_output=True)
    return Who(int(found.stdout), name="sleep") if found.stdout else None


@hang("flock", [], lock=True, needs=["flock", "pgrep"])
def flock_inherited_by_daemon(stage):
    """A job with a lock has ended, but has started a daemon, which has the file still open."""
    path = stage.folder / "lock"
    path.touch()
    script = stage.errand(runs, argv=["flock", path, "true"])
    with stage.recording():
        job = stage.start("flock", path, "sh", "-c", STARTS_DAEMON)
        sleep = until("the daemon", lambda: daemon_of(job))
        job.wait()
        time.sleep(0.2)
        script.go()
        waits, _ = started(script.who.pid, "flock")
        return script.truth(culprits=[sleep], others=waits)
