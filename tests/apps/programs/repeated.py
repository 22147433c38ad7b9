"""Operations that are late many times, always because of the same: a lock that is kept again and
again, a collector, a quota, a real-time thread. Each time it is a tenth of a second or
two."""

import json
import os
import signal
import time

import programs.nginx as nginx
import programs.postgres as postgres
import programs.redis as redis
import web
from hang import DidNotHang, Truth, Who, hang
from programs.java import NEEDS as JAVA
from programs.native import Program
from programs.once import SOURCES
from programs.servers import SLEEPS
from programs.shell import quota_group
from stage import children, connects, free_port, thread_of, until

# How often the culprit does what it does, and how often the victim has to be late at least.
TIMES, AT_LEAST = 11, 6
# The shortest that counts.
LATE = 0.08


def often(step, pause):
    """Does something again and again, with pauses that differ a little."""

    def do_often():
        for turn in range(TIMES):
            step()
            time.sleep(pause * (0.8 + turn % 5 / 10))

    return do_often


def meanwhile(stage, other):
    """Records what somebody does often."""
    with stage.recording(after=0.5):
        other.go()
        other.result()


def keeps_row(port):
    """A client whose transactions are not long, but longer than those of others."""
    connection = postgres.connect(port)

    def book_order():
        connection.run("begin")
        connection.run("update accounts set amount = 0 where id = 7")
        time.sleep(0.15)
        connection.run("commit")

    return often(book_order, 0.2), postgres.backend_of(connection)


@hang("PostgreSQL", [*postgres.LOCKS, rf"book_order|{SLEEPS}"], True, postgres.NEEDS, LATE)
def postgres_row_often(stage):
    """A client keeps a row locked for 150 ms, again and again."""
    port = postgres.server(stage)
    payer = stage.rhythm(postgres.pay, port=port)
    other = stage.deed(keeps_row, port=port)
    meanwhile(stage, other)
    return payer.repeated(
        AT_LEAST,
        culprits=[other.who, Who(other.facts["backend"])],
        others=[Who(payer.facts["backend"])],
    )


COLLECTS = r"MarkSweep|GenCollect|Compact|mark_and_push|follow_|oop_iterate|adjust_pointer|Generat"


@hang("Java", [COLLECTS], False, JAVA, LATE)
def java_collections_often(stage):
    """A thread has all garbage collected, again and again, and the world stops for each."""
    classes = stage.subfolder("classes")
    stage.run("javac", "-d", classes, SOURCES / "Catalogue.java")
    options = ["-XX:+UseSerialGC", "-Xms1g", "-Xmx1g"]
    program = Program(stage, "java", *options, "-cp", classes, "Catalogue")
    victim, collector = (thread_of(program.pid, name) for name in ("heartbeat", "VM Thread"))
    with stage.recording():
        pass
    began, ended = stage.recording_from_ns, stage.recording_to_ns
    inside = [[*span] for span in program.slow if began <= span[0] and span[1] <= ended]
    if len(inside) < AT_LEAST:
        raise DidNotHang(f"it was late {len(inside)} times")
    longest, *again = sorted(inside, key=lambda span: span[0] - span[1])
    return Truth(victim, *longest, culprits=[collector], again=again)


@hang("nginx", [r"priceCart"], False, ["nginx", "node"], LATE)
def nginx_large_carts(stage):
    """The application behind a proxy takes 130 ms for each eighth request."""
    port, upstream = free_port(), free_port()
    names = ["--perf-basic-prof", "--interpreted-frames-native-stack"]
    shop = stage.start("node", *names, SOURCES / "carts.js", upstream)
    until("Node.js", lambda: connects(upstream))
    proxy = nginx.start(stage, nginx.CONFIGURATION, port, upstream=upstream)
    client = stage.rhythm(web.get, port=port)
    with stage.recording():
        pass
    return client.repeated(AT_LEAST, culprits=[Who(shop.pid, shop.pid)], others=children(proxy.pid))


def prints_invoices():
    """A program that computes a little, and now and then more than its quota is."""
    turns = iter(range(1, 1_000_000))

    def print_invoice():
        end = time.thread_time() + (0.0005 if next(turns) % 10 else 0.021)
        while time.thread_time() < end:
            json.dumps({"invoice": end})

    return print_invoice


@hang("a control group", [], at_least=LATE)
def quota_often(stage):
    """A control group's quota is used up again and again."""
    folder, path = quota_group(stage)
    program = stage.rhythm(prints_invoices)
    (folder / "cgroup.procs").write_text(str(program.who.pid))
    with stage.recording():
        pass
    truth = program.repeated(AT_LEAST, quota=path)
    stage.end(program.process)
    return truth


def plays(cpu):
    """A program that has to stay on one CPU."""
    os.sched_setaffinity(0, {cpu})

    def play_note():
        json.dumps({"note": 440})
        time.sleep(0.01)

    return play_note


@hang("the scheduler", [r"Perl_"], False, ["chrt", "taskset", "perl"], LATE)
def real_time_often(stage):
    """A real-time process has a CPU for 130 ms, again and again."""
    player = stage.rhythm(plays, cpu=0)
    mixer = stage.start("chrt", "-f", "10", "taskset", "-c", "0", "perl", SOURCES / "mixing.pl")
    with stage.recording():
        pass
    return player.repeated(AT_LEAST, culprits=[Who(mixer.pid)])


RANKS = """
local begin, n = redis.call('time'), 0
repeat
    for i = 1, 20000 do n = (n * 31 + i) % 1000003 end
    local now = redis.call('time')
until (now[1] - begin[1]) * 1000000 + now[2] - begin[2] > ARGV[1] * 1000
return n
"""


def lua(milliseconds):
    """The command for a script that computes for so long."""
    return f'eval "{" ".join(RANKS.split())}" 0 {milliseconds}'


def ranks(port):
    """A client that has the server rank something now and then."""
    connection = redis.connect(port)
    return often(lambda: redis.ask(connection, lua(140)), 0.22)


def redis_server(stage):
    """A fresh server; its process and its port."""
    port, folder = free_port(), stage.subfolder("redis", "nobody")
    options = ["--save", "", "--appendonly", "no", "--dir", folder, "--bind", "127.0.0.1"]
    server = stage.start("redis-server", "--port", port, *options, user="nobody")
    until("Redis", lambda: connects(port))
    return server, port


LUA = r"\blua[A-Z_]|evalGenericCommand|evalCommand|scriptCall"


@hang("Redis", [LUA], False, redis.REDIS, LATE)
def redis_script_often(stage):
    """A client's script takes 140 ms, again and again."""
    server, port = redis_server(stage)
    client = stage.rhythm(redis.get, port=port)
    other = stage.deed(ranks, port=port)
    meanwhile(stage, other)
    return client.repeated(AT_LEAST, culprits=[Who(server.pid, server.pid)])


def limiter(pid):
    """A program that keeps another one from using too much of a CPU, as cpulimit does."""

    def stop_a_moment():
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.14)
        os.kill(pid, signal.SIGCONT)

    return often(stop_a_moment, 0.24)


@hang("memcached", [rf"stop_a_moment|{SLEEPS}"], False, ["memcached"], LATE)
def memcached_limited(stage):
    """A program stops the server with a signal, again and again, to save energy."""
    port = free_port()
    server = stage.start("memcached", "-p", port, "-l", "127.0.0.1", "-u", "nobody", "-t", "1")
    until("memcached", lambda: connects(port))
    client = stage.rhythm(redis.get, port=port)
    other = stage.deed(limiter, pid=server.pid)
    meanwhile(stage, other)
    return client.repeated(AT_LEAST, culprits=[Who(server.pid), other.who])
