"""Servers that wait in a loop for many at once, and one of these does not answer. Others are served
all the time, so the loop's last sleep is about somebody else; and the hang has not ended when the
recording ends."""

import os
import signal
import threading

import programs.nginx as nginx
import web
from hang import Who, hang
from programs.servers import SLEEPS
from programs.unfinished import bank
from stage import HERE, children, connects, free_port, until

SOURCES = HERE / "sources/gateways"


def silent_bank(stage, *argv):
    """A gateway asks a bank that does not answer."""
    port, bank_port = free_port(), free_port()
    silent = stage.deed(bank, port=bank_port)
    gateway = stage.start(*argv, port, bank_port)
    until("the gateway", lambda: connects(port))
    stage.rhythm(web.get, port=port, path="/fast")
    client = stage.errand(web.get, port=port, path="/balance")
    with stage.recording(after=2):
        client.go()
    return client.unfinished(culprits=[Who(silent.who.pid)], others=[Who(gateway.pid)])


ASKS = [rf"find_balance|{SLEEPS}"]


@hang("Node.js", ASKS, needs=["node"])
def node_silent_bank(stage):
    """A gateway of Node.js asks a bank that does not answer."""
    return silent_bank(stage, "node", SOURCES / "gateway.js")


@hang("Python", ASKS)
def asyncio_silent_bank(stage):
    """A gateway with asyncio asks a bank that does not answer."""
    return silent_bank(stage, "python3", SOURCES / "gateway.py")


@hang("Go", ASKS, needs=["go"])
def go_silent_bank(stage):
    """A gateway in Go asks a bank that does not answer."""
    program = stage.tools / "gateway"
    if not program.exists():
        source = SOURCES / "gateway.go"
        stage.run("go", "build", "-o", program, source, env=os.environ | {"GO111MODULE": "off"})
    return silent_bank(stage, program)


FAST = """    location /fast {{ return 200 "ok"; }}
    location / {{"""


@hang("nginx", [], needs=["nginx"])
def nginx_stopped_for_good(stage):
    """Somebody has stopped the application behind, and not continued it."""
    port, upstream = free_port(), free_port()
    behind = stage.deed(nginx.application, port=upstream, flag=stage.folder / "slow")
    configuration = nginx.CONFIGURATION.replace("    location / {{", FAST)
    server = nginx.start(stage, configuration, port, upstream=upstream)
    stage.rhythm(web.get, port=port, path="/fast")
    client = stage.errand(web.get, port=port)
    stage.closing.callback(os.kill, behind.who.pid, signal.SIGCONT)
    with stage.recording(after=2):
        os.kill(behind.who.pid, signal.SIGSTOP)
        client.go()
    somebody = Who(os.getpid(), threading.get_native_id(), "test-apps")
    culprits = [Who(behind.who.pid), somebody]
    return client.unfinished(culprits=culprits, others=children(server.pid))
