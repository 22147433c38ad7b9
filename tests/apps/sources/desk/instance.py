"""A program (Qt) of which one runs at most: who is started second gives its file to the first one.

    instance.py first NAME FLAG
    instance.py second NAME

The first one listens at NAME; when the file FLAG appears, it loads a big document in its main loop. The
second one does what whoever is started second does, every 20 ms, and prints when that took long.
"""

import json
import os
import sys
import time

from PyQt5.QtCore import QCoreApplication, QTimer
from PyQt5.QtNetwork import QLocalServer, QLocalSocket

PERIOD_MS, SLOW_NS, PATIENCE_MS = 20, 100_000_000, 10_000
application = QCoreApplication(sys.argv)
server = QLocalServer()


def load_document():
    end, value = time.monotonic() + 1.4, 7
    while time.monotonic() < end:
        value = (value * 31 + 7) % 1000003


def look():
    if os.path.exists(sys.argv[3]):
        os.unlink(sys.argv[3])
        load_document()


def open_file(connection):
    connection.readAll()
    connection.write(b"opened")
    connection.disconnectFromServer()


def accept():
    connection = server.nextPendingConnection()
    connection.readyRead.connect(lambda: open_file(connection))
    connection.disconnected.connect(connection.deleteLater)


def give_file():
    begin = time.monotonic_ns()
    connection = QLocalSocket()
    connection.connectToServer(sys.argv[2])
    connection.write(b"letter")
    if not connection.waitForReadyRead(PATIENCE_MS):
        sys.exit(connection.errorString())
    end = time.monotonic_ns()
    if end - begin >= SLOW_NS:
        print(json.dumps({"from": begin, "to": end}), flush=True)


timer = QTimer()
if sys.argv[1] == "first":
    server.newConnection.connect(accept)
    server.listen(sys.argv[2])
    timer.timeout.connect(look)
else:
    timer.timeout.connect(give_file)
timer.start(PERIOD_MS)
print(json.dumps({"victim": os.getpid()}), flush=True)
application.exec_()
