"""A window (Qt) that shows what a camera sees, every 20 ms; the picture has a mutex (QMutex).

camera.py FLAG

When the file FLAG appears, the thread that reads the camera has the mutex while that is slow.
Prints when the window was away for long."""

import json
import os
import sys
import threading
import time

from PyQt5.QtCore import QMutex, QTimer
from PyQt5.QtWidgets import QApplication, QLabel

PERIOD_MS, SLOW_NS = 20, 100_000_000
mutex = QMutex()
picture = 0


def read_camera():
    global picture
    mutex.lock()
    if os.path.exists(sys.argv[1]):
        os.unlink(sys.argv[1])
        time.sleep(1.2)
    picture += 1
    mutex.unlock()


def read_often():
    while True:
        read_camera()
        time.sleep(0.01)


def show_picture():
    begin = time.monotonic_ns()
    mutex.lock()
    window.setText(str(picture))
    mutex.unlock()
    end = time.monotonic_ns()
    if end - begin >= SLOW_NS:
        print(json.dumps({"from": begin, "to": end}), flush=True)


application = QApplication([sys.argv[0], "-platform", "offscreen"])
window, timer = QLabel("0"), QTimer()
window.show()
reader = threading.Thread(target=read_often, daemon=True)
reader.start()
timer.timeout.connect(show_picture)
timer.start(PERIOD_MS)
print(json.dumps({"victim": os.getpid(), "camera": reader.native_id}), flush=True)
application.exec_()
