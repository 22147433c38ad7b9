"""Chromium: a page whose script computes."""

import json
import pathlib
import urllib.request

from hang import Who, hang
from stage import connects, free_port, until

SCRIPT = "const end = performance.now() + 1200; while (performance.now() < end) {}"


def browser(stage, page="data:text/html,<h1>page"):
    """A browser without a screen, which shows one page; its port for debuggers."""
    port = free_port()
    stage.start(
        *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *(f"--remote-debugging-port={port}", "--remote-allow-origins=*"),
        *(f"--user-data-dir={stage.subfolder('profile')}", page),
    )
    until("Chromium", lambda: connects(port))
    until("its page", lambda: page_of(port))
    return port


def page_of(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
        pages = [page for page in json.load(answer) if page["type"] == "page"]
    return pages and pages[0]["webSocketDebuggerUrl"]


def evaluate(port, script):
    """A program that has the page run a script, and waits for its result."""
    import websocket

    connection = websocket.create_connection(page_of(port))

    def run():
        message = {"id": 1, "method": "Runtime.evaluate", "params": {"expression": script}}
        connection.send(json.dumps(message))
        connection.recv()

    return run


def renderers():
    """The main threads of the processes that show pages. Their names are changed late."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"--type=renderer" in path.read_bytes():
                pid = int(path.parent.name)
                yield Who(pid, pid)
        except OSError:
            continue


@hang("Chromium", [], needs=["chromium"])
def chromium_script(stage):
    """A script of the page computes, so the page answers nobody."""
    port = browser(stage)
    client = stage.rhythm(evaluate, port=port, script="1")
    other = stage.deed(evaluate, port=port, script=SCRIPT)
    with stage.recording():
        other.go()
        other.result()
        culprits = list(renderers())
    return client.truth(culprits=culprits)
