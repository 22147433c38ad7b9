"""Programs that wait within a library or a runtime, and programs that wait for each other's locks,
signals, terminals and agents: mutexes with a time limit or in shared memory, a lock that a child
inherits, a debugger, a name server."""

import dataclasses
import json
import multiprocessing
import os
import pathlib
import pty
import shlex
import shutil
import socket
import subprocess
import threading
import time
import urllib.request

import web
from hang import Missing, Truth, Who, hang
from programs.fresh import by_thread, jars, rust
from programs.kernel import SECONDS
from programs.languages import JAVA, WAITS
from programs.languages import SOURCES as ASSORTED
from programs.native import NAME_SERVER, RESOLVER, Program, between_threads, compiled, name_server
from programs.once import runs, started
from programs.runtimes import NODE_NAMES
from programs.servers import (
    PYTHON,
    SLEEPS,
    script,
    shared_connection,
    site,
    until_asleep,
    write_script,
)
from programs.windows import desktop
from stage import HERE, children, connects, free_port, thread_of, until

SOURCES = HERE / "sources/fresh3"


@hang(
    "C++",
    [r"print_(poster|tickets)|sell_ticket|timed_mutex|mutex_(clock|timed)?lock"],
    lock=True,
    needs=["c++"],
)
def cpp_timed_mutex(stage):
    """A thread computes with a mutex, and main gives up waiting for it after 100 ms, and tries
    again (try_lock_for)."""
    return between_threads(stage, SOURCES / "tickets.cpp", "printer")


RATES = r"(sum|audit|read)_rates?|update_rate|rates::|parking_lot|RwLock|RawRwLock"


@hang("parking_lot", [RATES], lock=True, needs=["cargo"])
def parking_lot_queue(stage):
    """A thread computes as a reader, a writer waits for it, and another reader waits behind that
    one."""
    flag = stage.folder / "now"
    program = Program(stage, rust(stage, "rates", SOURCES), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread("auditor")], [program.thread("updater")])


@hang(
    "crossbeam",
    [r"print_letters?|send_letter|letters::|crossbeam|Sender|Receiver|\bpark"],
    needs=["cargo"],
)
def crossbeam_full_channel(stage):
    """Who receives computes, so a channel (bounded) is full, and who sends waits."""
    return by_thread(stage, "printer", rust(stage, "letters", SOURCES))


def in_java(stage, name, culprit, inside=shlex.split, path="", slow=None):
    """A hang of the thread "heartbeat" of a program in Java because of another one. What makes
    somebody slow exists from the recording on. The command that starts it is what `inside` makes of
    the usual one."""
    classes, flag = stage.subfolder("classes"), stage.folder / "now"
    libraries = ["-cp", path] if path else []
    stage.run("javac", "-d", classes, *libraries, ASSORTED / "Beat.java", SOURCES / f"{name}.java")
    program = Program(
        stage, *inside(f"java -Djava.net.preferIPv4Stack=true -cp '{classes}:{path}' {name} {flag}")
    )
    victim, other = (thread_of(program.pid, each) for each in ("heartbeat", culprit))
    with stage.recording():
        if slow:
            slow.touch()
        program.hang(flag)
    return program.truth([other], victim=victim)


BUFFET = (
    r"cookFeast|serveMeal|takeMeal|Object.*wait|ObjectMonitor|ObjectSynchronizer|MonitorWait|sqrt"
)


@hang("Java", [BUFFET], needs=JAVA)
def java_object_wait(stage):
    """A thread waits until there is something (Object.wait), and the one that makes it computes."""
    return in_java(stage, "Buffet", "cook")


LEDGER = rf"sumInvoices|closeYear|showInvoice|hsqldb|CountUpDownLatch|executeQuery|sqrt|{WAITS}"


@hang("HSQLDB", [LEDGER], lock=True, needs=JAVA)
def hsqldb_table_lock(stage):
    """A thread computes in a transaction that has a table locked, and another one cannot read
    that."""
    return in_java(stage, "Ledger", "year-end", path=jars("hsqldb*.jar", "libhsqldb-java"))


def names(stage):
    """A slow name server; its process, the flag that makes it slow once, and what makes of a
    command one that uses it."""
    configuration, flag = stage.folder / "resolv.conf", stage.folder / "think"
    configuration.write_text(f"nameserver {NAME_SERVER}\noptions timeout:10 attempts:1\n")
    server = stage.actor("deed", name_server, flag=flag)
    before = f"mount --bind {configuration} {os.path.realpath('/etc/resolv.conf')}"
    return (
        server,
        flag,
        lambda command: ["unshare", "--mount", "sh", "-c", f"{before}; exec {command}"],
    )


ADDRESS = (
    r"lookUpWarehouse|planWarehouse|InetAddress|NameService|lookupAllHostAddr|ObjectMonitor"
    rf"|{SLEEPS}"
)


@hang("Java", [RESOLVER, ADDRESS], lock=True, needs=[*JAVA, "unshare"])
def java_host_lookup(stage):
    """A thread looks a name up, which comes late, and another one needs the same name: Java has a
    lock for each."""
    server, slow, inside = names(stage)
    truth = in_java(stage, "Warehouses", "planner", inside, slow=slow)
    return dataclasses.replace(truth, culprits=[Who(server.who.pid)], others=truth.culprits)


@hang(
    "curl", [RESOLVER, r"getaddrinfo_thread|multi_(wait|poll)|\bpoll\b"], needs=["curl", "unshare"]
)
def curl_slow_name_server(stage):
    """curl has a thread of its own look up a name, and that waits for a name server."""
    port = free_port()
    stage.deed(site, port=port)
    server, slow, inside = names(stage)
    curl = f"curl --silent --ipv4 --output /dev/null http://shop.example:{port}/"
    client = stage.errand(runs, argv=inside(curl))
    with stage.recording():
        slow.touch()
        client.go()
        waits, others = started(client.who.pid, "curl")
        return client.truth(culprits=[Who(server.who.pid)], others=[*waits, *others])


def debugger(port):
    """Somebody who stops a program in JavaScript, looks at it, and has it go on."""
    import websocket

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
        address = json.load(answer)[0]["webSocketDebuggerUrl"]
    connection = websocket.create_connection(address)

    def tell(method):
        connection.send(json.dumps({"id": 1, "method": f"Debugger.{method}"}))

    tell("enable")

    def look_at_variables():
        tell("pause")
        time.sleep(SECONDS)
        tell("resume")

    return look_at_variables


PAUSED = (
    r"look_at_variables|[iI]nspector|[dD]ebug|Debugger|showMenu|WaitForFrontendEvent" rf"|{SLEEPS}"
)


@hang("Node.js", [PAUSED], needs=["node"])
def node_debugger(stage):
    """Somebody has stopped a server in JavaScript with a debugger (--inspect), and it answers
    nobody."""
    port, inspects = free_port(), free_port()
    program = [f"--inspect=127.0.0.1:{inspects}", SOURCES / "menu.js", port]
    server = stage.start("node", *NODE_NAMES, *program)
    stage.closing.callback(pathlib.Path(f"/tmp/perf-{server.pid}.map").unlink, missing_ok=True)
    until("Node.js", lambda: connects(port) and connects(inspects))
    client = stage.rhythm(web.get, port=port)
    somebody = stage.deed(debugger, port=inspects)
    with stage.recording():
        somebody.go()
        somebody.result()
    return client.truth(culprits=[somebody.who], others=[Who(server.pid)])


def forks():
    """A program that has a process of its own draw a page. It is forked while a thread has a lock,
    and inherits that as it is."""
    lock, page, fork = threading.Lock(), threading.Event(), multiprocessing.get_context("fork")

    def save_settings():
        page.wait()
        with lock:
            time.sleep(0.2)

    def draw_page():
        with lock:
            pass

    def print_page():
        page.set()
        while not lock.locked():
            time.sleep(0.001)
        child = fork.Process(target=draw_page)
        child.start()
        child.join()

    thread = threading.Thread(target=save_settings, daemon=True)
    thread.start()
    return print_page, {"thread": thread.native_id}


FORKED = (
    r"draw_page|save_settings|print_page|lock_acquire|acquire_timed|sem_|futex|\bfork|popen_fork"
    r"|wait4|waitpid"
)


@hang("Python", [rf"{FORKED}|{SLEEPS}"], lock=True)
def python_forked_lock(stage):
    """A child still waits for a lock that another thread had when it was forked, and that nobody in
    it can release; its parent waits for its end."""
    program = stage.errand(forks)
    with stage.recording(after=1.8):
        program.go()
        child = until("the child", lambda: children(program.who.pid))
    saver = Who(program.who.pid, program.facts["thread"])
    return program.unfinished(culprits=[*child, saver])


@hang(
    "Qt",
    [rf"read_camera|read_often|show_picture|Q(Basic)?Mutex|futex|{SLEEPS}"],
    lock=True,
    needs=[PYTHON],
)
def qt_mutex(stage):
    """A thread has a mutex (QMutex) while a camera is slow, and the window needs that to show a
    picture."""
    if subprocess.run(
        [PYTHON, "-c", "import PyQt5.QtWidgets"], capture_output=True, check=False
    ).returncode:
        raise Missing("python3-pyqt5 is not installed")
    flag = stage.folder / "slow"
    program = desktop(stage, "", "../fresh3/camera.py", flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread("camera")])


SHELF = r"weigh_articles|take_stock|sell_article|\btake\b|pthread_mutex|nanosleep"


@hang("C", [SHELF], lock=True, needs=["cc"])
def c_robust_mutex(stage):
    """A process sleeps with a mutex in shared memory (robust), and another one needs that."""
    flag = stage.folder / "now"
    program = Program(stage, compiled(stage, SOURCES / "shelf.c"), stage.folder / "stock", flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(program.facts["stocktaker"])])


@hang("C", [r"paint_(page|when_told)|show_page|wait_for_signal|sigwait|sigtimedwait"], needs=["cc"])
def c_waits_for_signal(stage):
    """A program waits for the signal (sigwait) of another process, which computes."""
    flag = stage.folder / "now"
    program = Program(stage, compiled(stage, SOURCES / "signals.c"), flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([Who(program.facts["painter"])])


EDITS = """#!/bin/sh
sleep 2
"""


@hang(
    "useradd",
    [r"nanosleep|wait4|waitpid|lckpwdf|fcntl"],
    lock=True,
    needs=["useradd", "vipw", "unshare"],
)
def useradd_behind_vipw(stage):
    """Somebody edits the list of all users (vipw), which is locked so long, and nobody can add one
    (useradd). Both see a copy of /etc."""
    settings = shutil.copytree("/etc", stage.folder / "etc", symlinks=True)
    for left in ("passwd.lock", "group.lock", "shadow.lock", "gshadow.lock"):
        (settings / left).unlink(missing_ok=True)
    editor = write_script(stage.folder / "edit", EDITS)
    inside = ["unshare", "--mount", "sh", "-c"]
    before = f"mount --bind {settings} /etc; exec"
    client = stage.errand(
        runs, argv=[*inside, f"{before} useradd --no-create-home --no-log-init clerk"]
    )
    with stage.recording():
        holder = stage.start(*inside, f"{before} vipw", env=os.environ | {"VISUAL": str(editor)})
        sleep, rest = started(holder.pid, "sleep")
        client.go()
        waits, _ = started(client.who.pid, "useradd")
        return client.truth(culprits=[*sleep, *rest, Who(holder.pid)], others=waits)


def imports_keys(path):
    """Another program that has the keyring locked, as GnuPG does: a file says who has."""

    def import_keys():
        with open(path, "x") as lock:
            lock.write(f"{os.getpid():10}\n{socket.gethostname()}\n")
        time.sleep(SECONDS + 0.3)
        os.unlink(path)

    return import_keys


@hang(
    "GnuPG",
    [rf"import_keys|dotlock|gnupg_(u?sleep|select)|\bselect\b|{SLEEPS}"],
    lock=True,
    needs=["gpg"],
)
def gpg_lock_file(stage):
    """Another program has the keyring locked by a file with its number, and gpg looks again and
    again whether that is still there."""
    home = stage.subfolder("keys")
    home.chmod(0o700)
    argv = ["gpg", "--no-autostart", "--batch", "--homedir", str(home), "--list-keys"]
    client = stage.errand(runs, argv=argv)
    other = stage.deed(imports_keys, path=home / "pubring.kbx.lock")
    with stage.recording():
        other.go()
        until("the lock", (home / "pubring.kbx.lock").exists)
        client.go()
        waits, _ = started(client.who.pid, "gpg")
        return client.truth(culprits=[other.who], others=waits)


def at_terminal():
    """A script at a terminal that runs a command in the background, which asks something."""
    _, theirs = pty.openpty()
    # As the first one that the leader of a session opens, it is the terminal of that.
    os.close(os.open(os.ttyname(theirs), os.O_RDWR))

    def run_job():
        subprocess.Popen(["sh", "-c", "read answer </dev/tty"], preexec_fn=os.setpgrp).wait()

    return run_job


def stopped(pid):
    """The processes that a program has started, if one of them has been stopped."""
    found = children(pid)
    return (
        any("\nState:\tT" in pathlib.Path(f"/proc/{who.pid}/status").read_text() for who in found)
        and found
    )


@hang(
    "a terminal",
    [r"job_control_stop|do_signal_stop|n_tty_read|\bread\b|run_job|wait4|waitpid|\bwait\b"],
)
def terminal_stops_job(stage):
    """A job in the background wants to read from the terminal, and the kernel has stopped it for
    that (SIGTTIN); a script still waits for its end."""
    client = stage.errand(at_terminal)
    with stage.recording(after=1.8):
        client.go()
        job = until("the job", lambda: stopped(client.who.pid))
    return client.unfinished(culprits=job)


CONSENT = """#!/bin/sh
sleep 1.2
"""


@hang(
    "OpenSSH", [r"nanosleep|wait4|waitpid|\bread\b"], needs=["ssh-agent", "ssh-add", "ssh-keygen"]
)
def ssh_agent_confirm(stage):
    """An agent asks somebody whether a key may be used (ssh-add -c), and answers nobody else until
    that is clear."""
    address, key, letter = (stage.folder / name for name in ("agent", "key", "letter"))
    letter.write_text("Dear Sir")
    asks = write_script(stage.folder / "ask-consent", CONSENT)
    settings = os.environ | {
        "SSH_ASKPASS": str(asks),
        "SSH_ASKPASS_REQUIRE": "force",
        "DISPLAY": ":0",
    }
    agent = stage.start("ssh-agent", "-D", "-a", address, env=settings)
    until("the agent", lambda: address.exists() and connects(address))
    stage.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    with_agent = ["env", f"SSH_AUTH_SOCK={address}"]
    stage.run(*with_agent, "ssh-add", "-q", "-c", key)
    client = stage.rhythm(script, argv=[*with_agent, "ssh-add", "-l"])
    sign = ["ssh-keygen", "-Y", "sign", "-f", f"{key}.pub", "-n", "git", letter]
    other = stage.deed(script, argv=[*with_agent, *sign])
    with stage.recording():
        other.go()
        culprits = until_asleep("ask-consent")
        other.result()
    longest = client.longest()
    others = [Who(agent.pid), Who(longest["result"])]
    return Truth(client.who, longest["from"], longest["to"], culprits, others)


LOGIN = """#!/bin/sh
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""


@hang("OpenSSH", [r"nanosleep"], needs=["sshd", "ssh", "ssh-keygen"])
def ssh_leaves_daemon(stage):
    """A command over ssh has ended, but has started a daemon, which has its output still open; ssh
    waits until that is closed."""
    server, _, ssh = shared_connection(stage, LOGIN)
    number = stage.folder / "daemon"
    # A connection of its own.
    command = [*ssh[:-1], "-S", "none", ssh[-1], f"sleep 2 & echo $! >{number}"]
    client = stage.errand(runs, argv=command)
    with stage.recording():
        client.go()
        until("the daemon", lambda: number.exists() and number.read_text())
        waits, _ = started(client.who.pid, "ssh")
        daemon = Who(int(number.read_text()))
        others = [who for who in children(server.pid) if who.pid != daemon.pid]
        return client.truth(culprits=[daemon], others=[*waits, Who(server.pid), *others])
