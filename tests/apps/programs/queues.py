"""Queues between programs: sockets that nobody accepts, message queues, pools, proxies, jump hosts."""

import ctypes
import http.server
import os
import pathlib
import socket
import subprocess
import threading
import time

import web
from actor import told
from hang import Missing, Truth, Who, hang
from programs.kernel import SECONDS, ticking
from programs.python import COMPUTES, validate_input
from stage import children, connects, free_port, threads, until


def caller(path):
    """A client that connects to a service for each question."""

    def call_service():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)

    return call_service


def receptionist(path, flag):
    """The service, which does not accept for a while."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)

    def accept_calls():
        while True:
            if told(flag):
                time.sleep(SECONDS)
            listener.accept()[0].close()

    threading.Thread(target=accept_calls, daemon=True).start()
    return ticking()


@hang("Unix sockets", [r"accept_calls"])
def unix_backlog(stage):
    """A service does not accept, so that its clients cannot even connect."""
    path, flag = stage.folder / "service", stage.folder / "think"
    server = stage.actor("deed", receptionist, path=path, flag=flag)
    until("the service", lambda: connects(path))
    client = stage.rhythm(caller, path=path)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(server.who.pid)])


class Letter(ctypes.Structure):
    """`struct msgbuf`."""

    _fields_ = [("kind", ctypes.c_long), ("text", ctypes.c_char * 16)]


def mailbox(queue, kind, answer, flag=None):
    """One side of a conversation by messages of System V."""
    libc = ctypes.CDLL(None, use_errno=True)

    def send(kind):
        libc.msgsnd(queue, ctypes.byref(Letter(kind, b"?")), 16, 0)

    def receive(kind):
        libc.msgrcv(queue, ctypes.byref(Letter()), 16, kind, 0)

    def ask_by_letter():
        send(answer)
        receive(kind)

    def answer_letters():
        while True:
            receive(kind)
            if told(flag):
                time.sleep(SECONDS)
            send(answer)

    if flag is None:
        return ask_by_letter
    threading.Thread(target=answer_letters, daemon=True).start()
    return ticking()


@hang("System V messages", [r"answer_letters"])
def system_v_messages(stage):
    """Who answers messages of System V is slow."""
    libc, flag = ctypes.CDLL(None), stage.folder / "think"
    queue = libc.msgget(os.getpid(), 0o600 | 0o1000)
    stage.closing.callback(libc.msgctl, queue, 0, 0)
    server = stage.actor("deed", mailbox, queue=queue, kind=1, answer=2, flag=flag)
    client = stage.rhythm(mailbox, queue=queue, kind=2, answer=1)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(server.who.pid)])


def joining(flag):
    """A program that starts a thread for each task, and waits for its end."""

    def count_words():
        if told(flag):
            validate_input()

    def count_all():
        worker = threading.Thread(target=count_words)
        worker.start()
        worker.join()

    return count_all


@hang("Python threads", [COMPUTES, r"count_words"])
def thread_join(stage):
    """A program waits for the end of a thread that computes."""
    flag = stage.folder / "slow"
    program = stage.rhythm(joining, flag=flag)
    with stage.recording(after=3):
        flag.touch()
    return program.truth(culprits=[Who(program.who.pid)])


HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  timeout queue 30s
frontend all
  bind 127.0.0.1:{port}
  default_backend application
backend application
  server one 127.0.0.1:{upstream} maxconn 1
"""


def pages(port):
    """A web application, one page of which takes a second."""

    def answer(path):
        if path == "/slow":
            validate_input()
        return b"page"

    web.serve(port, answer, http.server.ThreadingHTTPServer)
    return lambda: None


def fetch(port):
    """A client of the slow page."""
    return web.get(port, "/slow")


def behind_slow_page(stage, port):
    """Records a client that has to wait while another one's page is made."""
    client = stage.rhythm(web.get, port=port)
    other = stage.deed(fetch, port=port)
    with stage.recording(after=2):
        other.go()
        other.result()
    return client


@hang("HAProxy", [COMPUTES, r"\banswer\b"], needs=["haproxy"])
def haproxy_queue(stage):
    """The proxy lets one request at a time through, and that one is slow."""
    port, upstream = free_port(), free_port()
    behind = stage.deed(pages, port=upstream)
    file = stage.folder / "haproxy.cfg"
    file.write_text(HAPROXY.format(port=port, upstream=upstream))
    proxy = stage.start("haproxy", "-db", "-f", file)
    until("HAProxy", lambda: connects(port))
    client = behind_slow_page(stage, port)
    return client.truth(culprits=[Who(behind.who.pid)], others=[Who(proxy.pid), *children(proxy.pid)])


def over_pipes(path):
    """A client that has a command run for each question, which reads a named pipe."""

    def read_settings():
        subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)

    return read_settings


def settings(path, flag):
    """Who writes into the pipe, and is slow once."""

    def write_settings():
        while True:
            with open(path, "wb") as pipe:
                if told(flag):
                    time.sleep(SECONDS)
                pipe.write(b"x")
            time.sleep(0.02)

    threading.Thread(target=write_settings, daemon=True).start()
    return ticking()


@hang("named pipes", [r"write_settings"])
def named_pipe(stage):
    """A command waits for whoever writes into a named pipe."""
    path, flag = stage.folder / "settings", stage.folder / "think"
    os.mkfifo(path)
    writer = stage.actor("deed", settings, path=path, flag=flag)
    client = stage.rhythm(over_pipes, path=path)
    with stage.recording(after=2.5):
        flag.touch()
    return client.truth(culprits=[Who(writer.who.pid)])


WORKER = """
const { Worker, isMainThread, parentPort } = require("node:worker_threads");
const http = require("node:http"), fs = require("node:fs");
function resizeImage(slow) {
  for (const end = performance.now() + (slow ? 1200 : 1); performance.now() < end; );
}
if (isMainThread) {
  const worker = new Worker(__filename), waiting = [];
  worker.on("message", () => waiting.shift().end("image"));
  http.createServer((request, response) => {
    waiting.push(response);
    worker.postMessage(request.url === "/slow");
  }).listen(Number(process.argv[2]), "127.0.0.1");
} else {
  parentPort.on("message", (slow) => { resizeImage(slow); parentPort.postMessage("done"); });
}
"""


@hang("Node.js workers", [r"resizeImage"], needs=["node"])
def node_worker(stage):
    """All images go through one worker thread, which has a large one."""
    file, port = stage.folder / "images.js", free_port()
    file.write_text(WORKER)
    names = ["--perf-basic-prof", "--interpreted-frames-native-stack"]
    server = stage.start("node", *names, file, port)
    until("Node.js", lambda: connects(port))
    client = behind_slow_page(stage, port)
    return client.truth(culprits=threads(server.pid), others=[Who(server.pid, server.pid)])


QT = """
import sys, time
from PyQt5.QtCore import QTimer
from PyQt5.QtWidgets import QApplication, QLabel
import pathlib
application = QApplication(sys.argv)
label = QLabel("0")
label.show()
flag = pathlib.Path(sys.argv[1])
last, ticks = time.monotonic_ns(), []

def recalculate_sheet():
    return sum(number * number % 7 for number in range(12_000_000))

def tick():
    global last
    if flag.exists():
        flag.unlink()
        recalculate_sheet()
    label.setText(str(len(ticks)))
    now = time.monotonic_ns()
    ticks.append((now - last, last, now))
    last = now
    if pathlib.Path(sys.argv[1] + ".end").exists():
        print(*max(ticks)[1:], flush=True)
        application.quit()

timer = QTimer()
timer.timeout.connect(tick)
timer.start(50)
application.exec()
"""


@hang("Qt", [r"recalculate_sheet"])
def qt_computes(stage):
    """A program with windows computes in its event loop."""
    qt = ["/usr/bin/python3", "-c", "import PyQt5.QtWidgets"]
    if subprocess.run(qt, stderr=subprocess.DEVNULL, check=False).returncode:
        raise Missing("python3-pyqt5 is not installed")
    file, flag = stage.folder / "sheet.py", stage.folder / "slow"
    file.write_text(QT)
    environment = dict(os.environ, QT_QPA_PLATFORM="offscreen")
    process = stage.start(
        "/usr/bin/python3", file, flag, env=environment, stdout=subprocess.PIPE, text=True
    )
    time.sleep(1)
    with stage.recording(after=3):
        flag.touch()
    pathlib.Path(str(flag) + ".end").touch()
    began, ended = (int(time) for time in process.stdout.readline().split())
    return Truth(Who(process.pid, process.pid), began, ended, [Who(process.pid)])
