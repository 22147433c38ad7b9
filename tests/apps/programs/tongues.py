"""Programs in Java, Go, JavaScript, Ruby, Perl, Rust and Python, which wait for each other by what their
language has for that: a stamped lock, an exchanger, a timer, a once, a cluster, a remote object."""

import os
import pathlib
import shutil
import sys
import threading
import time

import web
from actor import told
from hang import Who, hang
from programs.kernel import ticking
from programs.languages import JAVA, go_server
from programs.languages import SOURCES as ASSORTED
from programs.native import Program
from programs.once import runs
from programs.servers import SLEEPS, browse, customer
from stage import HERE, children, connects, free_port, thread_of, until

SOURCES = HERE / "sources/desk"
PARKS = r"LockSupport|\b[pP]ark\b|Unsafe_Park"


def java(stage, name, *arguments, options=()):
    """A program in Java that measures itself; its last argument is the flag that is returned, too."""
    classes, flag = stage.subfolder("classes"), stage.folder / "now"
    stage.run("javac", "-d", classes, ASSORTED / "Beat.java", SOURCES / f"{name}.java")
    return Program(stage, "java", *options, "-cp", classes, name, *arguments, flag), flag


def java_threads(stage, name, culprit, *arguments, options=()):
    """A hang of the thread "heartbeat", because of another one."""
    program, flag = java(stage, name, *arguments, options=options)
    with stage.recording():
        program.hang(flag)
    return program.truth(
        [thread_of(program.pid, culprit)], victim=thread_of(program.pid, "heartbeat")
    )


LEDGER = rf"addEntries|closeYear|readTotal|StampedLock|{PARKS}"


@hang("Java", [LEDGER], lock=True, needs=JAVA)
def java_stamped_lock(stage):
    """A thread computes with a StampedLock for writing, and a reader waits."""
    return java_threads(stage, "Ledger", "bookkeeper")


@hang("Java", [rf"encodePicture|takePicture|Exchanger|{PARKS}"], needs=JAVA)
def java_exchanger(stage):
    """A thread waits at an Exchanger for another one, which computes."""
    return java_threads(stage, "Camera", "encoder")


@hang("Java", [rf"sortYear|waitForReminder|CountDownLatch|TimerThread|{PARKS}"], needs=JAVA)
def java_timer_thread(stage):
    """A task of a timer computes in the only thread that the timer has, and the next one is late."""
    return java_threads(stage, "Reminders", "reminders")


CRITICAL = r"add_bytes|checksum|scanPicture|readPage|GCLocker|stall_until_clear|mem_allocate"


@hang("Java", [CRITICAL], needs=[*JAVA, "cc"])
def java_critical_array(stage):
    """A thread computes in C with an array that the collector may not move (GetPrimitiveArrayCritical), so
    nobody gets memory for which garbage has to be collected."""
    library, home = stage.folder / "libscans.so", pathlib.Path(shutil.which("javac")).resolve().parents[1]
    include = ["-I", home / "include", "-I", home / "include/linux"]
    stage.run("cc", "-O2", "-g", "-shared", "-fPIC", *include, "-o", library, SOURCES / "scans.c")
    options = ["-XX:+UseSerialGC", "-Xms12m", "-Xmx12m", "-Xmn4m"]
    return java_threads(stage, "Scans", "scanner", library, options=options)


def shows_log(path, flag):
    """A program that shows a log. Sometimes it does not read."""
    read_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(read_end, True)

    def draw_window():
        time.sleep(1.5)

    def show_lines():
        while True:
            if told(flag):
                draw_window()
            try:
                os.read(read_end, 65536)
            except BlockingIOError:
                pass
            time.sleep(0.001)

    threading.Thread(target=show_lines, daemon=True).start()
    return ticking()


def unread(stage):
    """A pipe for a log, and who shows it; a flag for that one not to read."""
    pipe, draw = stage.folder / "log", stage.folder / "draw"
    os.mkfifo(pipe)
    return pipe, stage.actor("deed", shows_log, path=pipe, flag=draw), draw


JUL = rf"draw_window|show_lines|StreamHandler|logVisit|logExport|ObjectMonitor|writeBytes|{SLEEPS}"


@hang("Java", [JUL], lock=True, needs=JAVA)
def java_logging_pipe(stage):
    """Nobody reads a log, so the thread that writes a long record to it waits, and with it the handler's
    monitor: no other thread can log."""
    pipe, reader, draw = unread(stage)
    program, flag = java(stage, "Exports", pipe)
    exporter = thread_of(program.pid, "exporter")
    with stage.recording():
        draw.touch()
        time.sleep(0.1)
        program.hang(flag)
    victim = thread_of(program.pid, "heartbeat")
    return program.truth([Who(reader.who.pid)], [exporter], victim)


@hang("Go", [r"main\.(computeTariffs|showTariff)|sha256|sync\.\(\*Once\)"], needs=["go"])
def go_once(stage):
    """A goroutine computes what all need once (sync.Once), and the others wait. No thread waits for it, so
    no answer can say lock."""
    server, port = go_server(stage, "tariffs", folder=SOURCES)
    client = stage.rhythm(web.get, port=port, path="/tariff")
    other = stage.deed(web.get, port=port, path="/change")
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid)])


@hang("Node.js", [r"sumReport"], needs=["node"])
def node_cluster_worker(stage):
    """A cluster gives connections to its processes in turn, and one of these computes."""
    port = free_port()
    names = ["--perf-basic-prof", "--interpreted-frames-native-stack"]
    primary = stage.start("node", *names, SOURCES / "cluster.js", port)
    until("Node.js", lambda: len(children(primary.pid)) == 2 and connects(port))
    time.sleep(0.5)
    client = stage.rhythm(browse, port=port, path="/page")
    other = stage.deed(returns_page, port=port, path="/report")
    with stage.recording():
        other.go()
        busy = int(other.result()["result"])
    return client.truth(culprits=[Who(busy, busy)], others=[Who(primary.pid)])


def returns_page(port, path):
    """A browser; what it got is the deed's result."""
    return browse(port, path)


@hang("Ruby", [r"ask_warehouse|count_article|monitor|mutex|rb_f_sleep"], lock=True, needs=["ruby"])
def ruby_remote_object(stage):
    """A program calls an object of another process (DRb), in which a thread sleeps with the object's
    monitor."""
    flag, address = stage.folder / "ask", f"druby://127.0.0.1:{free_port()}"
    stock = Program(stage, "ruby", SOURCES / "stock.rb", address, flag)
    till = Program(stage, "ruby", SOURCES / "till.rb", address)
    asking = stock.thread("asking")
    with stage.recording():
        till.hang(flag)
        tids = [int(tid) for tid in os.listdir(f"/proc/{stock.pid}/task")]
    return till.truth([asking], [Who(stock.pid, tid) for tid in tids if tid != asking.tid])


@hang("Perl", [r"Perl_|\bS_|recursive_lock|pthread_cond|ithread"], lock=True, needs=["perl"])
def perl_shared_variable(stage):
    """A thread computes while it has a shared variable locked, which another one needs."""
    flag = stage.folder / "now"
    program = Program(stage, "perl", SOURCES / "scores.pl", flag)
    with stage.recording():
        program.hang(flag)
    return program.truth([program.thread("counting")])


COPIES = r"draw_window|show_lines|copies::(complain|list_files)|eprint|[sS]tderr|ReentrantLock|ReentrantMutex"


@hang("Rust", [rf"{COPIES}|{SLEEPS}"], lock=True, needs=["rustc"])
def rust_stderr_lock(stage):
    """Nobody reads what a program complains of, so the thread that prints much waits, and with it the lock
    of the standard error: main cannot print a line."""
    pipe, reader, draw = unread(stage)
    flag, binary = stage.folder / "now", stage.folder / "copies"
    options = ["-C", "opt-level=2", "-g", "--edition", "2021", "-o", binary]
    stage.run("rustc", *options, SOURCES / "copies.rs", env=os.environ)
    with open(pipe, "wb") as errors:
        program = Program(stage, binary, flag, stderr=errors)
    with stage.recording():
        draw.touch()
        time.sleep(0.1)
        program.hang(flag)
    return program.truth([Who(reader.who.pid)], [program.thread("exporter")])


# A server that writes each visit to its console.
VISITS = """
-module(visits).
-export([start/1]).

start([Port]) ->
    Options = [binary, {packet, line}, {active, false}, {reuseaddr, true}, {ip, {127, 0, 0, 1}}],
    {ok, Listener} = gen_tcp:listen(list_to_integer(Port), Options),
    accept(Listener).

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Pid = spawn(fun() -> receive go -> serve(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    accept(Listener).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            log_visit(Line),
            ok = gen_tcp:send(Socket, "page\\n"),
            serve(Socket);
        {error, closed} ->
            gen_tcp:close(Socket)
    end.

log_visit(Line) ->
    io:format("visit ~s ~s~n", [string:trim(Line), lists:duplicate(9000, $x)]).
"""


@hang("Erlang", [rf"draw_window|show_lines|log_visit|{SLEEPS}"], needs=["erl", "erlc"])
def erlang_console_unread(stage):
    """Nobody reads what a server writes to its console, so the one process that writes there waits, and
    with it all that have something for it (io:format)."""
    pipe, reader, draw = unread(stage)
    port, file = free_port(), stage.folder / "visits.erl"
    file.write_text(VISITS)
    stage.run("erlc", "-o", stage.folder, file)
    options = ["+S", "2", "-noinput", "-pa", stage.folder]
    with open(pipe, "wb") as output:
        server = stage.start("erl", *options, "-run", "visits", "start", port, stdout=output)
    until("Erlang", lambda: connects(port))
    client = stage.rhythm(customer, port=port, question="page")
    with stage.recording(after=3):
        draw.touch()
    others = [Who(server.pid), *children(server.pid)]
    return client.truth(culprits=[Who(reader.who.pid)], others=others)


@hang("Python", [r"count_words|thread_join|wait_for_thread_shutdown|_shutdown"])
def python_does_not_end(stage):
    """A command has done its work, and does not end, because a thread of it still computes."""
    command = [sys.executable, SOURCES / "summary.py", 14_000_000 * stage.attempt]
    script = stage.errand(runs, argv=[str(word) for word in command], cwd=stage.folder)
    with stage.recording():
        script.go()
        pid = until("the command", lambda: children(script.who.pid))[0].pid
        summary = stage.folder / "summary"
        until("the summary", lambda: summary.exists() and summary.stat().st_size)
        # Its own thread, and the one that computes.
        tids = [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
        counting = [Who(pid, tid) for tid in tids if tid != pid]
        return script.truth(culprits=counting, others=[Who(pid, pid)])
