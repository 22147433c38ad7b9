"""Programs that no other module has: editors, servers, a file system, a media pipeline, a version control, and
what schedules commands. What hangs behind a command, somebody else's request, a lock, or who does not read."""

import os
import pathlib
import socket
import struct
import subprocess

from hang import Missing, Truth, Who, hang
from programs.fresh import SOURCES
from programs.kernel import SECONDS
from programs.native import Program, collector
from programs.once import runs, started
from programs.python import COMPUTES
from programs.queues import behind_slow_page, pages
from programs.servers import SLEEPS, SOMETIMES, script, until_asleep, write_script
from programs.shell import LZMA, numbers
from stage import children, connects, free_port, stop_for_a_while, threads, until


@hang("Emacs", [], needs=["emacs", "emacsclient"])
def emacs_busy_lisp(stage):
    """An editor that serves others (emacsclient) computes in Lisp for one of them."""
    home = os.environ | {"HOME": str(stage.folder), "XDG_RUNTIME_DIR": str(stage.folder)}
    editor = stage.start("emacs", "-Q", "--fg-daemon=desk", "-l", SOURCES / "desk.el", env=home)
    address = stage.folder / "emacs/desk"
    until("Emacs", address.exists)
    ask = ["emacsclient", "-s", address, "-e"]
    client = stage.rhythm(script, argv=[*ask, "(+ 1 1)"])
    other = stage.deed(script, argv=[*ask, "(sum-expenses)"])
    with stage.recording():
        other.go()
        other.result()
    longest = client.longest()
    others = [Who(longest["result"])]
    return Truth(client.who, longest["from"], longest["to"], [Who(editor.pid, editor.pid)], others)


def packed(text):
    """A text of less than 256 bytes in MessagePack."""
    return b"\xd9" + bytes([len(text)]) + text.encode()


def plugin(path, method, argument):
    """A program that has Neovim do something, over its socket."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    # Of four parts: a request, its number, the method, and a list of one argument.
    request = b"\x94\x00\x07" + packed(method) + b"\x91" + packed(argument)

    def call_editor():
        connection.sendall(request)
        connection.recv(1000)

    return call_editor


FORMATS = """#!/bin/sh
sleep 1.2
"""


@hang("Neovim", [r"nanosleep|wait4|waitpid|process_wait|f_system|\bos_system\b"], needs=["nvim"])
def neovim_runs_formatter(stage):
    """An editor waits for a command that formats a text (system()), and answers no plugin meanwhile."""
    address = stage.folder / "nvim.socket"
    formatter = write_script(stage.folder / "format-text", FORMATS)
    editor = stage.start("nvim", "--headless", "--clean", "--listen", address)
    until("Neovim", address.exists)
    client = stage.rhythm(plugin, path=address, method="nvim_eval", argument="1 + 1")
    command = f"call system('{formatter}')"
    other = stage.deed(plugin, path=address, method="nvim_command", argument=command)
    with stage.recording():
        other.go()
        culprits = until_asleep("format-text")
        other.result()
    return client.truth(culprits=culprits, others=[Who(editor.pid)])


CADDY = """
{{
	admin off
	auto_https off
}}
http://:{port} {{
	bind 127.0.0.1
	reverse_proxy 127.0.0.1:{upstream} {{
		transport http {{
			max_conns_per_host 1
		}}
	}}
}}
"""


@hang("Caddy", [COMPUTES, r"\banswer\b"], needs=["caddy"])
def caddy_one_connection(stage):
    """A proxy has one connection to the application behind it, which makes a slow page for somebody."""
    port, upstream, file = free_port(), free_port(), stage.folder / "Caddyfile"
    file.write_text(CADDY.format(port=port, upstream=upstream))
    behind = stage.deed(pages, port=upstream)
    home = os.environ | {"HOME": str(stage.folder)}
    proxy = stage.start("caddy", "run", "--config", file, "--adapter", "caddyfile", env=home)
    until("Caddy", lambda: connects(port))
    client = behind_slow_page(stage, port)
    return client.truth(culprits=[Who(behind.who.pid)], others=[Who(proxy.pid)])


def microphone(path):
    """A program that records sound into a pipe."""
    pipe = open(path, "wb", buffering=0)
    samples = bytes(65536)

    def record_sound():
        pipe.write(samples)

    return record_sound


PIPELINE = "fdsrc blocksize=65536 ! queue max-size-buffers=1 max-size-bytes=0 max-size-time=0 ! fdsink"


@hang("GStreamer", [rf"collect_lines|record_sound|\bgst_|fd_?sink|{SLEEPS}"], needs=["gst-launch-1.0"])
def gstreamer_slow_reader(stage):
    """Nobody takes the sound out of a pipeline, so its queue is full, and who records waits."""
    sound, film, flag = (stage.folder / name for name in ("sound", "film", "think"))
    os.mkfifo(sound)
    os.mkfifo(film)
    reader = stage.actor("deed", collector, path=film, flag=flag, seconds=SECONDS + 0.3)
    command = f"exec gst-launch-1.0 -q {PIPELINE} <{sound} >{film}"
    pipeline = stage.start("sh", "-c", command, env=os.environ | {"HOME": str(stage.folder)})
    program = stage.rhythm(microphone, path=sound)
    until("GStreamer", lambda: len(threads(pipeline.pid)) >= 2)
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(reader.who.pid)], others=[Who(pipeline.pid)])


# Once, it takes long for what it does.
DISK = """
case "$1" in
get_size) echo 1M ;;
pread) head -c "$3" /dev/zero ;;
*) exit 2 ;;
esac
"""


def virtual_machine(port):
    """A program whose disk is at the other end of a connection (NBD, in the old style)."""
    connection = socket.create_connection(("127.0.0.1", port))
    answers = connection.makefile("rb")
    answers.read(152)
    request = struct.pack(">IHHQQI", 0x25609513, 0, 0, 7, 0, 512)

    def read_sector():
        connection.sendall(request)
        if len(answers.read(16 + 512)) < 16 + 512:
            raise SystemExit("nbdkit has gone")

    return read_sector


@hang("nbdkit", [r"nanosleep|wait4|waitpid|\bpoll\b|call_read|sh_pread|read_sector"], needs=["nbdkit"])
def nbdkit_script(stage):
    """A virtual machine reads its disk over the network, whose server runs a script for that, and once that
    takes long."""
    port, flag = free_port(), stage.folder / "slow"
    disk = write_script(stage.folder / "shop-disk", SOMETIMES.format(flag=flag) + DISK)
    server = stage.start("nbdkit", "-f", "-o", "-i", "127.0.0.1", "-p", port, "sh", disk)
    until("nbdkit", lambda: connects(port))
    client = stage.rhythm(virtual_machine, port=port)
    with stage.recording(after=2):
        flag.touch()
        # The server's command line has the script in it, too.
        culprits = [who for who in until_asleep("shop-disk") if who.pid != server.pid]
    return client.truth(culprits=culprits, others=[Who(server.pid)])


LABELS = """#!/bin/sh
read -r label
case "$label" in big) sleep 1.3 ;; esac
echo done
"""


@hang("Gearman", [r"nanosleep|wait4|waitpid"], needs=["gearmand", "gearman"])
def gearman_one_worker(stage):
    """The only worker behind a queue of jobs runs a command for somebody else, and a client waits."""
    port, label = free_port(), write_script(stage.folder / "print-label", LABELS)
    queue = stage.start("gearmand", "-L", "127.0.0.1", "-p", port, "-l", stage.folder / "jobs.log")
    until("Gearman", lambda: connects(port))
    gearman = ["gearman", "-h", "127.0.0.1", "-p", str(port), "-f", "label"]
    worker = stage.start(*gearman, "-w", "--", label)
    client = stage.rhythm(script, argv=[*gearman, "small"])
    other = stage.deed(script, argv=[*gearman, "big"])
    with stage.recording():
        other.go()
        culprits = [who for who in until_asleep("print-label") if who.pid != worker.pid]
        other.result()
    longest = client.longest()
    others = [Who(queue.pid), Who(worker.pid), Who(longest["result"])]
    return Truth(client.who, longest["from"], longest["to"], culprits, others)


@hang("GNU parallel", [r"nanosleep|wait4|waitpid|select"], needs=["sem"])
def parallel_semaphore(stage):
    """A backup has the only place at a tape (sem), and another command looks again and again whether that is
    free."""
    home, tape = {"HOME": str(stage.folder)}, ["sem", "--fg", "--id", "tape"]
    client = stage.errand(runs, argv=[*tape, "true"], **home)
    with stage.recording():
        holder = stage.start(*tape, "sleep", "2", env=os.environ | home)
        sleep, rest = started(holder.pid, "sleep")
        client.go()
        waits = until("the other one", lambda: children(client.who.pid))
        return client.truth(culprits=[*sleep, *rest, Who(holder.pid)], others=waits)


CHECKS = """#!/bin/sh
sleep 2
"""


@hang("Mercurial", [rf"nanosleep|wait4|waitpid|trylock|\block\b|{SLEEPS}"], lock=True, needs=["hg"])
def mercurial_lock(stage):
    """hg waits for the lock of a working folder, which another one has while its hook checks a commit; it looks
    every second."""
    folder, user = stage.subfolder("shop"), {"HGRCPATH": "", "HGUSER": "a"}
    environment = os.environ | user
    (folder / "letter").write_text("Dear Sir")
    for command in ("init", "add"):
        stage.run("hg", command, "--quiet", cwd=folder, env=environment)
    hook = write_script(stage.folder / "check-commit", CHECKS)
    commit = ["hg", "commit", "-m", "a", "--config", f"hooks.pretxncommit={hook}"]
    client = stage.errand(runs, argv=["hg", "branch", "spring"], cwd=folder, **user)
    with stage.recording():
        holder = stage.start(*commit, cwd=folder, env=environment)
        sleep, rest = started(holder.pid, "sleep")
        client.go()
        waits, _ = started(client.who.pid, "hg")
        return client.truth(culprits=[*sleep, *rest, Who(holder.pid)], others=waits)


@hang("Expect", [*LZMA, r"wait4|waitpid|\bexpect\b|exp_\w+"], needs=["expect", "xz"])
def expect_dialogue(stage):
    """A script types a command into a shell's terminal, and waits for the end of that, which computes."""
    flag, file = stage.folder / "now", numbers(stage, 170_000)
    slow = f"xz -T1 -3 -c {file} >/dev/null"
    program = Program(stage, "expect", SOURCES / "dialogue.exp", flag, slow, time_of_day=True)
    with stage.recording():
        flag.touch()
        culprits, others = started(program.pid, "xz")
        until("the hang", program.longest)
    return program.truth(culprits, others)


SFTP = pathlib.Path("/usr/lib/openssh/sftp-server")
# The other side without a network: sshfs starts it as it would start ssh.
CONNECTS = """#!/bin/sh
echo $$ >{folder}/sftp.pid
exec {program}
"""


def archive(folder):
    """A program that makes a folder and removes it."""
    month = pathlib.Path(folder, "month")

    def use_archive():
        month.mkdir()
        month.rmdir()

    return use_archive


@hang("sshfs", [], needs=["sshfs", "fusermount3"])
def sshfs_stopped(stage):
    """A file system is at another machine (sshfs), where somebody has stopped the program that serves it."""
    if not SFTP.exists():
        raise Missing("openssh-sftp-server is not installed")
    real, mounted = stage.subfolder("real"), stage.subfolder("mounted")
    connect = CONNECTS.format(folder=stage.folder, program=SFTP)
    options = f"ssh_command={write_script(stage.folder / 'connect', connect)}"
    server = stage.start("sshfs", "-f", "-o", options, f"archive:{real}", mounted)
    stage.closing.callback(subprocess.run, ["umount", "-l", mounted])
    until("sshfs", lambda: os.path.ismount(mounted))
    client = stage.rhythm(archive, folder=mounted)
    other_side = int((stage.folder / "sftp.pid").read_text())
    with stage.recording():
        somebody = stop_for_a_while(other_side)
    return client.truth(culprits=[Who(other_side), somebody], others=[Who(server.pid)])
