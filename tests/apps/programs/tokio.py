"""tokio: a worker that is blocked, and a lock that is held across an await."""

import os
import socket

from hang import Who, hang
from stage import HERE, connects, free_port, until

NEEDS = ["cargo"]


def server(stage):
    """The server of `sources/tokio`; cargo builds it once."""
    target = stage.tools / "tokio"
    manifest = HERE / "sources/tokio/Cargo.toml"
    stage.run(
        *("cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", manifest),
        *("--target-dir", target),
        env=os.environ,
    )
    port = free_port()
    process = stage.start(target / "release/echo-server", port)
    until("the server", lambda: connects(port))
    return process.pid, port


def send(port, line):
    """A client that sends a line and waits for it to come back."""
    connection = socket.create_connection(("127.0.0.1", port))
    replies = connection.makefile("rb")

    def call():
        connection.sendall(line.encode() + b"\n")
        replies.readline()

    return call


def disturbed(stage, line):
    pid, port = server(stage)
    client = stage.rhythm(send, port=port, line="hello")
    other = stage.deed(send, port=port, line=line)
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(pid)])


@hang("tokio", [r"render_report|echo_server::answer"], needs=NEEDS)
def tokio_blocked_worker(stage):
    """A task computes and never awaits, on the only worker."""
    return disturbed(stage, "report")


@hang("tokio", [r"echo_server::|tokio::(runtime::)?(time|sync)::"], needs=NEEDS)
def tokio_lock_across_await(stage):
    """A task sleeps while it has a lock that all others need."""
    return disturbed(stage, "refresh")
