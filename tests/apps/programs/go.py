"""Go: goroutines that wait for each other, seen from a client of their server."""

import os

import web
from hang import Who, hang
from stage import HERE, children, connects, free_port, until

NEEDS = ["go"]
COMPUTES = r"computeTotal|sha256|sendMails"


def server(stage):
    """The server of `sources/server.go`; it is built once."""
    binary = stage.tools / "go-server"
    source = HERE / "sources/server.go"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        stage.run("go", "build", "-o", binary, source, env=os.environ | {"GO111MODULE": "off"})
    port, file = free_port(), stage.folder / "lock"
    file.touch()
    process = stage.start(binary, port, file)
    until("the server", lambda: connects(port))
    return process.pid, port, file


def visit(port, path):
    """A client that asks for one expensive page."""
    return web.get(port, path)


def busy_goroutine(stage, path, expensive):
    """A hang: the page `expensive` keeps those of `path` waiting."""
    pid, port, _ = server(stage)
    client = stage.rhythm(web.get, port=port, path=path)
    other = stage.deed(visit, port=port, path=expensive)
    with stage.recording(after=2.5):
        other.go()
        other.result()
    return client.truth(culprits=[Who(pid)])


@hang("Go", [COMPUTES, r"main\.fill"], needs=NEEDS, quick=True)
def go_mutex(stage):
    """A goroutine computes with a mutex. No thread waits for it, so no answer can say lock."""
    return busy_goroutine(stage, "/cart", "/total")


@hang("Go", [COMPUTES], needs=NEEDS)
def go_channel(stage):
    """A goroutine that should receive from a channel computes."""
    return busy_goroutine(stage, "/mail", "/bigmail")


@hang("Go", [r"main\.(lockFile|fill)|syscall\.Flock"], needs=NEEDS + ["flock"])
def go_system_call(stage):
    """A goroutine with a mutex is in a system call that another program lets wait."""
    pid, port, file = server(stage)
    client = stage.rhythm(web.get, port=port, path="/cart")
    other = stage.deed(visit, port=port, path="/export")
    with stage.recording():
        holder = stage.start("flock", file, "sleep", "1.2")
        culprits = [Who(holder.pid), *until("the command", lambda: children(holder.pid))]
        other.go()
        other.result()
    return client.truth(culprits=culprits, others=[Who(pid)])
