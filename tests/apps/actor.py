"""A process on the stage: it plays a client, a server or whoever is to blame.

    python3 actor.py rhythm|deed|errand MODULE FUNCTION ARGUMENTS

FUNCTION of MODULE is called with ARGUMENTS, a JSON object. It prepares everything and returns an
operation, or an operation and facts for the harness. `rhythm` repeats the operation every 20 ms,
until SIGTERM, and then prints those that took 100 ms or more. `deed` runs it once for each line on
standard input, and prints its times and its result. `errand` works in no rhythm, and runs it once
in the midst of that, when a line is on standard input. It prints when that began, too, in case it
does not end.
"""

import importlib
import json
import os
import pathlib
import random
import select
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


def potter(chance):
    """Some work as it happens to come: a few files, a little computing, a short rest."""
    kind = chance.randrange(3)
    if kind == 0:
        files = list(pathlib.Path(os.__file__).parent.glob("*.py"))
        for file in chance.sample(files, chance.randrange(1, 6)):
            file.read_bytes()
    elif kind == 1:
        sum(number % 7 for number in range(chance.randrange(200_000)))
    else:
        time.sleep(chance.uniform(0.001, 0.07))


def errand(operation):
    """Runs `operation` once, with other work before and after."""
    chance = random.Random(os.getpid())
    while not select.select([sys.stdin], [], [], 0)[0]:
        potter(chance)
    sys.stdin.readline()
    begin = time.monotonic_ns()
    say({"from": begin})
    result = operation()
    say({"from": begin, "to": time.monotonic_ns(), "result": result})
    while True:
        potter(chance)


MODES = {"rhythm": rhythm, "deed": deeds, "errand": errand}


def main():
    mode, module, function, arguments = sys.argv[1:]
    name_process(function.replace("_", "-"))
    prepared = getattr(importlib.import_module(module), function)(**json.loads(arguments))
    operation, facts = prepared if isinstance(prepared, tuple) else (prepared, {})
    say({"pid": os.getpid(), "tid": threading.get_native_id(), **facts})
    MODES[mode](operation)


if __name__ == "__main__":
    main()
