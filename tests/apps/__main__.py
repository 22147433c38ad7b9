"""Makes hangs of real programs, records them, and judges the answers: see README.md."""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import programs  # noqa: F401, it registers the hangs
import quiet
from hang import HANGS, DidNotHang, Missing
from judge import judge
from report import is_right_when_asked, print_report
from stage import BEFORE, Stage

ATTEMPTS = 3
# Seconds of the normal rhythm that a quick hang needs.
BEFORE_QUICK = 1.0
# How often a quick hang is made again, and has to be right, if its answer was wrong.
AGAIN = 2


def arguments():
    parser = argparse.ArgumentParser(prog="test-apps", description=__doc__)
    parser.add_argument("unhitch", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="hangs, or beginnings of their names; default all")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="what was built")
    parser.add_argument("--runs", type=int, default=1, help="how often each is made; default 1")
    parser.add_argument("--beside-load", action="store_true", help="busy processes, too")
    parser.add_argument("--quick", action="store_true", help="those of `make test`; all must be right")
    parser.add_argument("--again", action="store_true", help="do not record again")
    help = "record programs at work for so long each, and list the stalls that are told"
    parser.add_argument("--quiet", type=float, metavar="MINUTES", help=help)
    parser.add_argument("--list", action="store_true", help="only list the hangs")
    return parser.parse_args()


@contextlib.contextmanager
def load(wanted):
    """A busy process for each CPU."""
    busy = [sys.executable, "-c", "while True: pass"]
    count = (os.cpu_count() or 1) if wanted else 0
    processes = [subprocess.Popen(busy) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def make(hang, unhitch, folder, tools, before):
    """Makes the hang, and keeps trace and truth; returns how busy the machine was. Raises if it does
    not come about."""
    for program in hang.needs:
        if not shutil.which(program):
            raise Missing(f"{program} is not installed")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with Stage(unhitch, folder / "trace.hitch", tools, before, attempt) as stage:
                truth = hang.make(stage)
            if truth.seconds() < hang.at_least:
                raise DidNotHang(f"it hung for only {truth.seconds():.2f} s")
            if truth.to_ns > stage.recording_to_ns:
                raise DidNotHang(f"it hung for {truth.seconds():.2f} s, longer than the recording")
            (folder / "truth.json").write_text(json.dumps(dataclasses.asdict(truth), indent=1))
            return stage.busy
        except DidNotHang as reason:
            print(f"{hang.name}: attempt {attempt} of {ATTEMPTS}: {reason}", file=sys.stderr)
            last = reason
    raise Missing(str(last))


def why(unhitch, trace, *options):
    """An answer as text and as JSON, and the seconds that the JSON took."""
    text = subprocess.run([unhitch, "why", *options, trace], capture_output=True, text=True)
    begin = time.monotonic()
    argv = [unhitch, "why", "--json", *options, trace]
    answer = subprocess.run(argv, capture_output=True, text=True)
    seconds = time.monotonic() - begin
    # 3: no stall was found.
    if answer.returncode not in (0, 3):
        raise Missing(f"unhitch why failed: {answer.stderr.strip()}")
    return text.stdout + text.stderr, json.loads(answer.stdout), seconds


def ask(hang, unhitch, folder):
    """Asks about the trace in `folder` without and with a hint, and judges the answers."""
    truth = json.loads((folder / "truth.json").read_text())
    trace = folder / "trace.hitch"
    text, unasked, seconds = why(unhitch, trace)
    origin = unasked["trace"]["origin_ns"]
    window = [f"{(truth[end] - origin) / 1e9:.6f}s" for end in ("from_ns", "to_ns")]
    hint = [f"--victim={truth['victim']['tid']}", f"--from={window[0]}", f"--to={window[1]}"]
    asked_text, asked, _ = why(unhitch, trace, *hint)
    (folder / "unasked.txt").write_text(text)
    (folder / "asked.txt").write_text(f"$ unhitch why {' '.join(hint)} trace.hitch\n{asked_text}")
    (folder / "unasked.json").write_text(json.dumps(unasked, indent=1))
    (folder / "asked.json").write_text(json.dumps(asked, indent=1))
    return {
        "hang_seconds": (truth["to_ns"] - truth["from_ns"]) / 1e9,
        "why_seconds": seconds,
        "verdict": dataclasses.asdict(judge(truth, hang, unasked, asked)),
    }


def examine(hang, options, output):
    """Everything about one hang. A failure of one is no failure of the others."""
    folder = output / hang.name
    folder.mkdir(parents=True, exist_ok=True)
    result = {"name": hang.name, "program": hang.program}
    try:
        if not options.again:
            (folder / "truth.json").unlink(missing_ok=True)
            before = BEFORE_QUICK if options.quick else BEFORE
            unhitch = options.unhitch.resolve()
            result["busy"] = make(hang, unhitch, folder, options.tools, before)
        elif not (folder / "truth.json").exists():
            raise Missing("there is no trace")
        result |= ask(hang, options.unhitch.resolve(), folder)
    except (Missing, ImportError) as reason:
        result["skipped"] = str(reason)
    return result


def examine_doubting(hang, options, output):
    """Examines a quick hang. One wrong answer may be of a hang that came about in another way than
    it was made: it is shown, and the hang is made again."""
    result = examine(hang, options, output)
    if "skipped" in result or is_right_when_asked(result):
        return result
    print(f"{hang.name}: wrong, so it is made {AGAIN} times more. The wrong answer:")
    print((output / hang.name / "asked.txt").read_text(), flush=True)
    for n in range(1, AGAIN + 1):
        again = examine(hang, options, output / f"again-{n}")
        if "skipped" in again:
            return result
        if not is_right_when_asked(again):
            return again
    return again


def run(chosen, options, output):
    """Examines each hang once; the results are kept beside the traces and answers."""
    results = []
    for hang in chosen:
        print(f"{output.name}: {hang.name} …", file=sys.stderr, flush=True)
        examined = examine_doubting if options.quick and not options.again else examine
        results.append(examined(hang, options, output))
    with open(output / "results.jsonl", "w") as lines:
        lines.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)
    return results


def end(*_):
    """On SIGTERM, ends what was started, as Ctrl-C does."""
    raise SystemExit(1)


def choose(names, begins):
    """The names that begin so; all if nothing is asked for."""
    return [name for name in names if not begins or any(map(name.startswith, begins))]


def main():
    signal.signal(signal.SIGTERM, end)
    options = arguments()
    if options.quiet:
        output = options.output.resolve() / "nothing-hangs"
        return 0 if quiet.listed(choose(quiet.LOADS, options.names), why, options, output) else 1
    chosen = [HANGS[name] for name in choose(sorted(HANGS), options.names)]
    chosen = [hang for hang in chosen if hang.quick or not options.quick]
    if options.list:
        print("\n".join(hang.name for hang in chosen))
        return 0
    output = options.output.resolve() / ("load" if options.beside_load else "quiet")
    with load(options.beside_load and not options.again):
        runs = [run(chosen, options, output / f"{n}") for n in range(1, options.runs + 1)]
    met = print_report(runs, everything=not (options.names or options.quick), quick=options.quick)
    print(f"\n{output} has the traces and answers")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
