"""Node.js: one event loop, and one pool of four threads."""

import os
import time

import web
from hang import Who, hang
from stage import HERE, children, connects, free_port, threads, until

NEEDS = ["node"]


def server(stage):
    """The server of `sources/server.js`, with names for functions of JavaScript: the compiled ones,
    and those that run in V8's interpreter."""
    names = ["--perf-basic-prof", "--interpreted-frames-native-stack"]
    port = free_port()
    process = stage.start("node", *names, HERE / "sources/server.js", port)
    until("Node.js", lambda: connects(port))
    return process.pid, port


def visit(port, path):
    """A client that asks for one expensive page."""
    return web.get(port, path)


def busy_loop(stage, path):
    """A hang of the event loop: one page keeps all others waiting."""
    pid, port = server(stage)
    client = stage.rhythm(web.get, port=port, path="/fast")
    other = stage.deed(visit, port=port, path=path)
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(pid, pid)])


@hang("Node.js", [r"JsonPars|JSON|parseOrders"], needs=NEEDS)
def node_json(stage):
    """JSON.parse of something big."""
    return busy_loop(stage, "/parse")


@hang("Node.js", [r"RegExp|validateEmail"], needs=NEEDS)
def node_regexp(stage):
    """A regular expression that backtracks."""
    return busy_loop(stage, "/email")


@hang("Node.js", [r"[sS]pawnSync|execSync|SyncProcess|convertImage|sha256|SHA256"], needs=NEEDS)
def node_child(stage):
    """execSync: the event loop waits for a child that computes."""
    pid, port = server(stage)
    client = stage.rhythm(web.get, port=port, path="/fast")
    other = stage.deed(visit, port=port, path="/child")
    with stage.recording():
        other.go()
        until("the child", lambda: len(children(pid)) == 3)
        workers = children(pid)
        other.result()
    return client.truth(culprits=workers, others=[Who(pid, pid)])


@hang("Node.js", [r"(?i)pbkdf2|sha512|hashPasswords"], needs=NEEDS)
def node_pool(stage):
    """All threads of the pool hash passwords, so no file is read."""
    pid, port = server(stage)
    before = threads(pid)
    client = stage.rhythm(web.get, port=port, path="/file")
    other = stage.deed(visit, port=port, path="/hash")
    with stage.recording(after=3):
        other.go()
        other.result()
        pool = [who for who in threads(pid) if who not in before]
    return client.truth(culprits=pool, others=[Who(pid, pid)])


@hang("Node.js", [r"readConfig|readSync|readFileSync|FSReq|uv_fs|ReadFile"], needs=NEEDS)
def node_sync_read(stage):
    """readFileSync of a pipe that nobody writes to keeps the event loop."""
    pid, port = server(stage)
    client = stage.rhythm(web.get, port=port, path="/fast")
    fifo = stage.folder / "settings"
    os.mkfifo(fifo)
    other = stage.deed(visit, port=port, path=f"/read?{fifo}")
    writer = stage.deed(writes_late, path=fifo)
    with stage.recording():
        other.go()
        writer.go()
        other.result()
    return client.truth(culprits=[writer.who], others=[Who(pid, pid)])


def writes_late(path):
    """A program that opens a pipe at once and writes to it late."""

    def write():
        with open(path, "w") as pipe:
            time.sleep(1.2)
            pipe.write("{}")

    return write
