"""The table of all hangs, and whether the goals are met."""

# The share of hangs, in percent, for which each column must be right.
GOALS = {"unasked": 90, "asked": 97, "function": 80, "lock": 90}
MARKS = {True: "yes", False: "NO", None: "–"}


def place(verdict):
    """Where plain `why` has the hang; in brackets, where it has only the culprit's side of it."""
    if verdict["rank"]:
        return str(verdict["rank"])
    return f"({verdict['culprits_rank']})" if verdict["culprits_rank"] else "–"


def row(result):
    """A hang's row; a skipped one says why."""
    if "skipped" in result:
        return f"{result['name']:<24} SKIPPED: {result['skipped']}"
    verdict = result["verdict"]
    marks = "".join(f"{MARKS[verdict[column]]:<9}" for column in GOALS)
    rank = place(verdict)
    wrong = "WRONG" if verdict["confidently_wrong"] else "–"
    figures = f" {verdict['other_stalls']:>6} {result['why_seconds']:>8.2f}"
    named = "  ".join(verdict[part] or "–" for part in ("evidence", "pattern", "culprit", "named"))
    name = f"{result['name']:<24} {result['hang_seconds']:>5.2f} {rank:>5}"
    return f"{name}  {marks}{wrong:<6}{figures}  {named}"


HEAD = " ".join(
    [
        f"{'hang':<24} {'s':>5} {'place':>5} ",
        f"{'unasked':<8} {'asked':<8} {'function':<8} {'lock':<8} {'sure':<6}",
        f"{'others':>6} {'why, s':>8} ",
        "answer when asked: evidence, pattern, culprit, function",
    ]
)


def total(results, column):
    """How many are right, of how many that have the column."""
    marks = [result["verdict"][column] for result in results]
    marks = [mark for mark in marks if mark is not None]
    return sum(marks), len(marks)


def totals(results):
    """The lines below the table, and whether all goals are met."""
    lines, met = [], True
    for column, goal in GOALS.items():
        right, all_ = total(results, column)
        reached = 100 * right >= goal * all_
        met &= reached
        share = 100 * right / all_ if all_ else 100
        lines.append(
            f"{column:<18} {right:>3} of {all_:<3} {share:>5.1f} %  goal {goal} %: "
            + ("met" if reached else "NOT MET")
        )
    wrong, all_ = total(results, "confidently_wrong")
    met &= wrong == 0
    lines.append(
        f"{'confidently wrong':<18} {wrong:>3} of {all_:<3}          goal 0: "
        + ("met" if wrong == 0 else "NOT MET")
    )
    others = sum(result["verdict"]["other_stalls"] for result in results)
    seconds = sum(result["why_seconds"] for result in results)
    lines.append(f"other stalls reported: {others}; `why` took {seconds:.1f} s in all")
    return lines, met


def print_report(results):
    """Prints the table; returns whether all goals are met."""
    print(HEAD)
    for result in results:
        print(row(result))
    judged = [result for result in results if "verdict" in result]
    programs = len({result["program"] for result in judged})
    lines, met = totals(judged)
    print(f"\n{len(judged)} hangs of {programs} programs, {len(results) - len(judged)} skipped")
    print("\n".join(lines))
    return met and bool(judged)
