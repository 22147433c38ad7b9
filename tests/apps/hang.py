"""What a hang is: how it is made, and what is known about it beforehand.

A module in `programs` makes the hangs of one program. Each of its functions marked with `@hang`
sets a stage, lets the program work in its normal rhythm, makes one hang and returns the `Truth`.
"""

import dataclasses
import typing


class Missing(Exception):
    """The hang cannot be made on this machine."""


class DidNotHang(Exception):
    """The program did not hang as long as it should: try again."""


@dataclasses.dataclass(frozen=True)
class Who:
    """A thread, or every thread of a process if `tid` is None."""

    pid: int
    tid: int | None = None
    name: str = ""


@dataclasses.dataclass
class Truth:
    """What the program itself says about its hang. Times are of CLOCK_MONOTONIC."""

    # The thread that measured the hang.
    victim: Who
    from_ns: int
    to_ns: int
    # Each of these is to blame, so an answer may name any of them.
    culprits: list[Who] = dataclasses.field(default_factory=list)
    # Threads that waited on behalf of the victim: to find their hang is to find this one.
    others: list[Who] = dataclasses.field(default_factory=list)
    # Other times at which the same happened to the victim: to find one of them is to find the hang.
    again: list[list[int]] = dataclasses.field(default_factory=list)
    # The path of the control group whose quota is to blame.
    quota: str | None = None
    # Whether a disk is to blame.
    disk: bool = False

    def seconds(self) -> float:
        return (self.to_ns - self.from_ns) / 1e9


@dataclasses.dataclass(frozen=True)
class Hang:
    """A way to make a program hang."""

    name: str
    program: str
    make: typing.Callable
    # Whether the victim, or who works for it, waits for a lock.
    lock: bool
    # Functions that an author of the program would recognise as the culprit's or as the wait's;
    # none if its binary has no such names.
    functions: tuple[str, ...]
    # Programs without which it cannot be made.
    needs: tuple[str, ...]
    # A hang shorter than this did not come about.
    at_least: float
    # Whether it is one of those that `make test` makes: in seconds, and without installing anything.
    quick: bool


HANGS: dict[str, Hang] = {}


def hang(program, functions, lock=False, needs=(), at_least=0.4, quick=False):
    """Marks a function that makes a hang; its name, with hyphens, is the hang's."""

    def register(make):
        name = make.__name__.replace("_", "-")
        rest = (lock, tuple(functions), tuple(needs), at_least, quick)
        HANGS[name] = Hang(name, program, make, *rest)
        return make

    return register
