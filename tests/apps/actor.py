"""A process on the stage: it plays a client, a server or whoever is to blame.

    python3 actor.py rhythm|deed MODULE FUNCTION ARGUMENTS

FUNCTION of MODULE is called with ARGUMENTS, a JSON object. It prepares everything and returns an
operation, or an operation and facts for the harness. `rhythm` repeats the operation every 20 ms,
until SIGTERM, and then prints those that took 100 ms or more. `deed` runs it once for each line on
standard input, and prints its times and its result.
"""

import importlib
import json
import os
import signal
import sys
import threading
import time

PERIOD = 0.02
SLOW_NS = 100_000_000


def say(fact):
    print(json.dumps(fact), flush=True)


def name_process(name):
    """As `top` shows it, and as answers name it."""
    with open("/proc/self/comm", "w") as comm:
        comm.write(name[:15])


def told(flag):
    """Whether the harness has made the file `flag` since the last call."""
    try:
        os.unlink(flag)
    except FileNotFoundError:
        return False
    return True


def rhythm(operation):
    """Repeats `operation` until SIGTERM. Its own clock decides what was slow."""
    stopped = False

    def stop(*_):
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    slow = []
    while not stopped:
        begin = time.monotonic_ns()
        result = operation()
        end = time.monotonic_ns()
        if end - begin >= SLOW_NS:
            slow.append({"from": begin, "to": end, "result": result})
        time.sleep(PERIOD)
    say({"slow": slow})


def deeds(operation):
    for _ in sys.stdin:
        begin = time.monotonic_ns()
        result = operation()
        say({"from": begin, "to": time.monotonic_ns(), "result": result})


def main():
    mode, module, function, arguments = sys.argv[1:]
    name_process(function.replace("_", "-"))
    prepared = getattr(importlib.import_module(module), function)(**json.loads(arguments))
    operation, facts = prepared if isinstance(prepared, tuple) else (prepared, {})
    say({"pid": os.getpid(), "tid": threading.get_native_id(), **facts})
    rhythm(operation) if mode == "rhythm" else deeds(operation)


if __name__ == "__main__":
    main()
