"""Records programs at work, in which nothing hangs, and lists every stall that is told of them.

Whether an engineer of the program would call it one is judged by a person: docs/figures.md has the
list of a run.
"""

import json
import time

import programs.chromium as chromium
import programs.nginx as nginx
import programs.postgres as postgres
import web
from hang import DidNotHang, Missing
from stage import Stage, connects, free_port, until

LOADS = {}
# More stalls than there are.
EVERY = 10_000


def load(start):
    """Marks a function that sets a load going on a stage."""
    LOADS[start.__name__.replace("_", "-")] = start
    return start


@load
def idle(_):
    """Whatever else the machine does."""


@load
def build(stage):
    """Cargo builds a small program, again and again."""
    stage.run("cargo", "init", "--quiet", "--vcs", "none", "--name", "small", stage.folder)
    stage.start("sh", "-c", "while :; do touch src/main.rs; cargo build --quiet; sleep 1; done")


ANIMATION = (
    "data:text/html,<canvas id=c width=800 height=600></canvas><script>"
    "const c = document.getElementById('c').getContext('2d');"
    "function draw(t) { c.clearRect(0, 0, 800, 600); c.fillRect(t / 4 % 800, 300, 40, 40);"
    " requestAnimationFrame(draw) } requestAnimationFrame(draw)</script>"
)


@load
def animation(stage):
    """A browser animates a page."""
    chromium.browser(stage, ANIMATION)


@load
def pgbench(stage):
    """A database under its own benchmark."""
    port = postgres.server(stage)
    at = ["-h", "127.0.0.1", "-p", port, "-U", postgres.USER]
    stage.run("pgbench", "--quiet", "-i", *at, "postgres")
    stage.start("pgbench", "-c", 4, "-T", 3600, *at, "postgres")


@load
def redis_benchmark(stage):
    """Redis under its own benchmark."""
    port = free_port()
    stage.start("redis-server", "--port", port, "--save", "", "--dir", stage.subfolder("redis"))
    until("Redis", lambda: connects(port))
    stage.start("redis-benchmark", "-p", port, "-c", 20, "-l", "-q", "-t", "get,set")


@load
def web_server(stage):
    """nginx passes requests on to an application, for two clients that never rest."""
    port = nginx.proxy(stage)[0]
    for _ in range(2):
        stage.deed(visits, port=port).go()


def visits(port):
    """A client that asks for one page after the other."""
    visit = web.get(port)

    def repeat():
        while True:
            visit()

    return repeat


def describe(thread):
    return f"{thread['thread']} {thread['tid']}" if thread else "–"


def row(name, stall):
    cause = stall["cause"]
    named = [describe(stall["victim"]), describe(cause["culprit"]), cause["pattern"]]
    at = f"{stall['duration_ns'] / 1e6:.0f} ms"
    return "| " + " | ".join([name, at, *named, cause["evidence"], cause["function"] or "–"]) + " |"


def record(name, unhitch, folder, tools, minutes):
    """Records a load for so long; returns whether it could be made."""
    try:
        with Stage(unhitch, folder / "trace.hitch", tools, before=60 * minutes) as stage:
            LOADS[name](stage)
            with stage.recording():
                pass
    except (DidNotHang, Missing) as reason:
        print(f"skipped: {name}: {reason}")
        return False
    return True


def listed(names, why, options, output):
    """Records and explains each load; prints its stalls. Returns how many loads there were."""
    print(f"each for {options.quiet:g} minutes, from {time.strftime('%H:%M')}\n")
    print("| load | length | victim | culprit | pattern | evidence | function |")
    print("|---|---|---|---|---|---|---|")
    made = 0
    unhitch = options.unhitch.resolve()
    for name in names:
        folder = output / name
        folder.mkdir(parents=True, exist_ok=True)
        if not options.again and not record(name, unhitch, folder, options.tools, options.quiet):
            continue
        text, answer, _ = why(unhitch, folder / "trace.hitch", f"--top={EVERY}")
        (folder / "why.txt").write_text(text)
        (folder / "why.json").write_text(json.dumps(answer, indent=1))
        for stall in answer["stalls"]:
            print(row(name, stall), flush=True)
        if not answer["stalls"]:
            print(f"| {name} | no stall |", flush=True)
        made += 1
    return made
