"""Compares the answers of `unhitch why --json` with the truth."""

import dataclasses
import re

LOCK_PATTERNS = {
    "lock_starvation",
    "long_hold",
    "saturated_lock",
    "serialized_exit",
    "lock_convoy",
    "priority_inversion",
}
# "waits for a lock", "the row lock", "which holds the lock", but not LockAcquire or flock.
LOCK_WORDS = re.compile(r"(?i)\b(a|an|the|row|table|file|interpreter|this|one) (\w+ )?locks?\b")
# Paragraphs that speak of locks whatever the stall is about.
GENERAL = re.compile(r"(?m)^(EVIDENCE|REMEDY) .*(\n {2,}.*)*")
# An address without a name.
ADDRESS = re.compile(r"\S+\+0x[0-9a-f]+")
# Stalls that are told first.
FIRST = 3


@dataclasses.dataclass
class Verdict:
    """What is right about the answers to one hang."""

    unasked: bool = False
    # The place of the first right stall in the unasked answer, from 1; 0 if there is none.
    rank: int = 0
    # The same, if the culprit itself may be the victim.
    culprits_rank: int = 0
    asked: bool = False
    # None if the program has no names in it that anybody could recognise.
    function: bool | None = None
    # None if there is no lock in it.
    lock: bool | None = None
    confidently_wrong: bool = False
    # Stalls reported that are not this hang.
    other_stalls: int = 0
    # What the asked answer names.
    pattern: str = ""
    culprit: str = ""
    named: str = ""
    evidence: str = ""


def is_who(who, thread):
    """Whether `thread` of an answer is `who` of the truth."""
    return who["pid"] == thread["pid"] and who["tid"] in (None, thread["tid"])


def is_any(people, thread):
    return thread is not None and any(is_who(who, thread) for who in people)


def right_culprit(truth, cause):
    """Whether the cause is the true one: one of the culprits, a quota or a disk."""
    if truth["quota"]:
        return bool(cause["throttling"]) and cause["throttling"]["group"] == truth["quota"]
    if truth["disk"] and cause["pattern"] == "io_wait":
        return True
    return is_any(truth["culprits"], cause["culprit"])


def common_ns(truth, stall):
    """How much of the hang is in the stall."""
    end, start = min(truth["to_ns"], stall["end_ns"]), max(truth["from_ns"], stall["start_ns"])
    return max(0, end - start)


def cover(truth, stalls):
    """Whether the stalls, which may be pieces of one hang, have at least half of it in them."""
    hang_ns = truth["to_ns"] - truth["from_ns"]
    return 2 * sum(common_ns(truth, stall) for stall in stalls) >= hang_ns


def is_of_this_hang(truth, stall):
    """Whether the stall is the hang as its victim, or who waited on its behalf, saw it."""
    people = [truth["victim"], *truth["others"]]
    victims = [stall["victim"], *stall["other_victims"]]
    return common_ns(truth, stall) > 0 and any(is_any(people, thread) for thread in victims)


def is_inside(truth, thread):
    """Whether the thread is in a process that has a part in the hang."""
    people = [truth["victim"], *truth["others"], *truth["culprits"]]
    return thread is not None and thread["pid"] in {who["pid"] for who in people}


def involves(truth, stall):
    """Whether the stall is a tenth of the hang or more, and of a process that has a part in it. What
    other programs of the machine did meanwhile, no truth knows."""
    people = [stall["victim"], *stall["other_victims"], stall["cause"]["culprit"]]
    matters = 10 * common_ns(truth, stall) >= truth["to_ns"] - truth["from_ns"]
    return matters and any(is_inside(truth, thread) for thread in people)


def sentences(stall):
    """The stall in words, without the tables that prove it, and without what is said of any: how well
    it is known, and what may help."""
    words = stall["text"].split("\n  wait chain")[0]
    return GENERAL.sub("", words)


def named_function(functions, stall):
    """The function that the answer names, and whether the program's author would recognise it."""
    name = stall["cause"]["function"] or ""
    if not functions:
        return name, None
    names = ADDRESS.sub("", name)
    return name, any(re.search(function, names) for function in functions)


def calls_it_lock(stall):
    """Whether the answer says that somebody waited for a lock: by its pattern, by the class of a
    wait that fills half of it, or in words."""
    half = stall["duration_ns"] / 2
    by_class = any(
        part["class"] == "lock" and (part["waited_ns"] or 0) >= half for part in stall["chain"]
    )
    return (
        stall["cause"]["pattern"] in LOCK_PATTERNS
        or by_class
        or bool(LOCK_WORDS.search(sentences(stall)))
    )


def is_confidently_wrong(truth, stall):
    """Told as direct evidence, with a cause that is not the true one. That somebody else than who
    hung got no CPU is a fact of its own: it depends on what else the machine does."""
    cause = stall["cause"]
    starved = cause["pattern"] == "cpu_starvation" and not is_of_this_hang(truth, stall)
    definite = cause["pattern"] not in ("unknown", "dead_end") and not starved
    return definite and cause["evidence"] == "direct" and not right_culprit(truth, cause)


def describe(thread):
    return f"{thread['thread']} {thread['tid']}" if thread else ""


def place(truth, stalls):
    """The place in the answer of the first of these stalls; 0 if they do not cover the hang."""
    within = [stall["id"] for stall in stalls if common_ns(truth, stall)]
    return min(within) if within and cover(truth, stalls) else 0


def occurrences(truth):
    """The truth for each time at which it happened, the longest first."""
    times = [[truth["from_ns"], truth["to_ns"]], *truth.get("again", [])]
    return [truth | {"from_ns": begin, "to_ns": end} for begin, end in times]


def earliest(truths, stalls):
    """The place of the first hang that these stalls cover; 0 if they cover none."""
    return min((found for truth in truths if (found := place(truth, stalls))), default=0)


def judge(truth, hang, unasked, asked):
    """The verdict on two answers, both from JSON: to plain `why`, and to `why` with the victim and
    the time."""
    verdict = Verdict()
    stalls, truths = unasked["stalls"], occurrences(truth)
    mine = [stall for stall in stalls if any(is_of_this_hang(each, stall) for each in truths)]
    first = [stall for stall in stalls[:FIRST] if stall in mine]
    right = [stall for stall in stalls if right_culprit(truth, stall["cause"])]
    verdict.rank = earliest(truths, [stall for stall in right if stall in mine])
    inside = [stall for stall in right if is_inside(truth, stall["victim"])]
    verdict.culprits_rank = earliest(truths, inside)
    told_first = [stall for stall in first if stall in right]
    verdict.unasked = any(cover(each, told_first) for each in truths)
    verdict.other_stalls = len(unasked["stalls"]) - len(mine)
    answer = next(iter(asked["stalls"]), None)
    all_told = [*stalls, *asked["stalls"]]
    told = [stall for stall in all_told if any(involves(each, stall) for each in truths)]
    verdict.confidently_wrong = any(
        all(is_confidently_wrong(each, stall) for each in truths) for stall in told
    )
    if hang.lock:
        verdict.lock = bool(answer) and calls_it_lock(answer)
    if hang.functions:
        verdict.function = False
    if answer:
        cause = answer["cause"]
        verdict.asked = right_culprit(truth, cause)
        verdict.named, verdict.function = named_function(hang.functions, answer)
        verdict.pattern, verdict.evidence = cause["pattern"], cause["evidence"]
        verdict.culprit = describe(cause["culprit"])
        if cause["throttling"]:
            verdict.culprit = f"quota of {cause['throttling']['group']}"
    return verdict
