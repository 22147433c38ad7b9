"""The table of all hangs over all runs, and whether the goals are met."""

import statistics

# The share of answers, in percent, for which each column must be right.
GOALS = {"unasked": 90, "asked": 97, "function": 80, "lock": 90}
# What a run of everything has to make.
HANGS, PROGRAMS = 30, 12
# A machine is busy if some thread had no CPU for this share of the time.
BUSY = 0.25


def place(verdict):
    """Where plain `why` has the hang; in brackets, where it has only the culprit's side of it."""
    if verdict["rank"]:
        return str(verdict["rank"])
    return f"({verdict['culprits_rank']})" if verdict["culprits_rank"] else "–"


def count(verdicts, column):
    """How many are right, of how many that have the column."""
    marks = [verdict[column] for verdict in verdicts if verdict[column] is not None]
    return sum(marks), len(marks)


def mark(verdicts, column):
    """How often it is right: a word if always or never."""
    right, all_ = count(verdicts, column)
    if 0 < right < all_:
        return f"{right}/{all_}"
    return "–" if not all_ else "yes" if right else "NO"


def wrong(verdicts):
    often, _ = count(verdicts, "confidently_wrong")
    return "–" if not often else "WRONG" if often == 1 else f"{often}×WR"


def is_right(verdict, columns):
    """Whether it has nothing wrong in these columns."""
    fine = all(verdict[column] is not False for column in columns)
    return fine and not verdict["confidently_wrong"]


def is_right_when_asked(result):
    """Whether what was asked is right; which stall comes first depends on what else the machine does."""
    return is_right(result["verdict"], [column for column in GOALS if column != "unasked"])


def was_busy(result):
    """Whether the machine had no CPU for the hang: threads that are kept from CPUs by others hang for
    another reason than the one that was made."""
    return result.get("busy", 0) > BUSY


def test_line(result):
    """What `tools/test` counts of a quick hang that was not right; nothing if it was."""
    name = f"hang::{result['name'].replace('-', '_')}"
    if "skipped" in result:
        return f"SKIPPED {name}: {result['skipped']}\n"
    if is_right_when_asked(result):
        return ""
    if was_busy(result):
        percent = 100 * result["busy"]
        return f"SKIPPED {name}: some thread had no CPU for {percent:.0f} % of the time\n"
    return f"{name} FAILED: {answer(result['verdict'])}\n"


def answer(verdict):
    """What was answered when asked, in a line."""
    return "  ".join(verdict[part] or "–" for part in ("evidence", "pattern", "culprit", "named"))


def row(results):
    """A hang's row, of its results in all runs."""
    judged = [result for result in results if "verdict" in result]
    if not judged:
        return f"{results[0]['name']:<24} SKIPPED: {results[0]['skipped']}"
    verdicts = [result["verdict"] for result in judged]
    # The answer that is shown is one that something is wrong with.
    shown = next((verdict for verdict in verdicts if not is_right(verdict, GOALS)), verdicts[0])
    seconds = statistics.median(result["hang_seconds"] for result in judged)
    slowest = max(result["why_seconds"] for result in judged)
    others = sum(verdict["other_stalls"] for verdict in verdicts)
    marks = "".join(f"{mark(verdicts, column):<9}" for column in GOALS)
    name = f"{results[0]['name']:<24} {seconds:>5.2f} {place(shown):>5}"
    return f"{name}  {marks}{wrong(verdicts):<6} {others:>6} {slowest:>8.2f}  {answer(shown)}"


HEAD = " ".join(
    [
        f"{'hang':<24} {'s':>5} {'place':>5} ",
        f"{'unasked':<8} {'asked':<8} {'function':<8} {'lock':<8} {'sure':<6}",
        f"{'others':>6} {'why, s':>8} ",
        "answer when asked: evidence, pattern, culprit, function",
    ]
)


def totals(judged):
    """The lines below the table, and whether all goals are met."""
    verdicts = [result["verdict"] for result in judged]
    lines, met = [], True
    for column, goal in GOALS.items():
        right, all_ = count(verdicts, column)
        reached = 100 * right >= goal * all_
        met &= reached
        share = 100 * right / all_ if all_ else 100
        lines.append(
            f"{column:<18} {right:>3} of {all_:<3} {share:>5.1f} %  goal {goal} %: "
            + ("met" if reached else "NOT MET")
        )
    often, all_ = count(verdicts, "confidently_wrong")
    met &= often == 0
    lines.append(
        f"{'confidently wrong':<18} {often:>3} of {all_:<3}          goal 0: "
        + ("met" if often == 0 else "NOT MET")
    )
    others = sum(verdict["other_stalls"] for verdict in verdicts)
    seconds = sum(result["why_seconds"] for result in judged)
    lines.append(f"other stalls reported: {others}; `why` took {seconds:.1f} s in all")
    return lines, met


def print_report(runs, everything, quick):
    """Prints the table of all runs, each a list of results of the same hangs; returns whether all
    goals are met. `everything`: no hang was left out on purpose. `quick`: all that are asked have to
    be right, unless the machine was busy."""
    print(HEAD)
    for results in zip(*runs):
        print(row(results))
    results = [result for run in runs for result in run]
    judged = [result for result in results if "verdict" in result]
    hangs = len({result["name"] for result in judged})
    programs = len({result["program"] for result in judged})
    lines, met = totals(judged)
    print(f"\n{hangs} hangs of {programs} programs, {len(judged)} answers in {len(runs)} runs")
    print(end="".join(test_line(result) for result in results if quick or "skipped" in result))
    print("\n".join(lines))
    if everything and (hangs < HANGS or programs < PROGRAMS):
        print(f"too few: {HANGS} hangs of {PROGRAMS} programs have to be made")
        met = False
    if quick:
        return all(is_right_when_asked(result) or was_busy(result) for result in judged)
    return met and bool(judged)
