"""Many who wait for one, those who wait often, and those who still wait at the end: threads, customers, mail
programs, a database's fibers, a shell over a shared connection, a transfer."""

import fcntl
import os
import signal
import threading
import time

from hang import Who, hang
from programs.crowds import Crowd, truth_of
from programs.languages import JAVA
from programs.native import compiled
from programs.offices import calls, tarantool
from programs.once import runs, started
from programs.repeated import AT_LEAST, LATE, meanwhile, often
from programs.servers import SLEEPS, shared_connection
from programs.visitors import dovecot, mail_program
from stage import HERE, children, thread_of, until

SOURCES = HERE / "sources/desk"


@hang("C++", [r"load_film|show_film|atomic_wait"], needs=["c++"])
def cpp_twenty_wait_for_value(stage):
    """Twenty threads wait until a variable has a value (std::atomic::wait), which another one computes."""
    flag = stage.folder / "now"
    program = Crowd(stage, compiled(stage, SOURCES / "parts.cpp", "-std=c++20"), flag)
    with stage.recording():
        program.hang(flag)
    return truth_of(stage, program.pid, list(program.slow), culprits=[program.thread("loader")])


PERMITS = r"sumYear|makeReport|serveCustomer|Semaphore|AbstractQueued|LockSupport|\b[pP]ark\b|Unsafe_Park"


@hang("Java", [PERMITS], needs=JAVA)
def java_forty_customers(stage):
    """Forty threads wait for a semaphore, both of whose permits are with threads that compute."""
    classes, flag = stage.subfolder("classes"), stage.folder / "now"
    stage.run("javac", "-d", classes, SOURCES / "Permits.java")
    program = Crowd(stage, "java", "-cp", classes, "Permits", flag)
    reports = [thread_of(program.pid, f"report-{n}") for n in (1, 2)]
    with stage.recording():
        program.hang(flag)
    return truth_of(stage, program.pid, list(program.slow), culprits=reports)


def filters(path):
    """A filter that looks at a mailbox often, and locks it each time."""
    file = open(path, "r+b")

    def sort_letters():
        fcntl.lockf(file, fcntl.LOCK_EX)
        time.sleep(0.17)
        fcntl.lockf(file, fcntl.LOCK_UN)

    return often(sort_letters, 0.25)


LETTERS = rf"sort_letters|mbox_|fcntl|{SLEEPS}"


@hang("Dovecot", [LETTERS], True, ["dovecot"], LATE)
def dovecot_mailbox_often(stage):
    """A filter locks a mailbox for 170 ms, again and again, and a mail server waits each time."""
    server, port, mailbox = dovecot(stage)
    client = stage.rhythm(mail_program, port=port)
    until("the mailbox", mailbox.exists)
    other = stage.deed(filters, path=mailbox)
    meanwhile(stage, other)
    others = [Who(server.pid), *children(server.pid)]
    return client.repeated(AT_LEAST, culprits=[other.who], others=others)


def reports(port):
    """A client that has a database sum something, again and again."""
    return often(calls(port, "sum_sales(0.16)"), 0.24)


@hang("Tarantool", [], False, ["tarantool"], LATE)
def tarantool_fiber_often(stage):
    """A fiber computes for 160 ms without a yield, again and again."""
    server, port = tarantool(stage)
    client = stage.rhythm(calls, port=port, expression="show_price()")
    other = stage.deed(reports, port=port)
    meanwhile(stage, other)
    return client.repeated(AT_LEAST, culprits=[Who(server.pid, server.pid)])


@hang("OpenSSH", [], needs=["sshd", "ssh", "ssh-keygen"])
def ssh_stopped_master(stage):
    """A command still waits for a connection that it shares, whose owner somebody has stopped (Ctrl-Z)."""
    login = '#!/bin/sh\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n'
    _, owner, ssh = shared_connection(stage, login)
    script = stage.errand(runs, argv=[*ssh, "true"])
    stage.closing.callback(os.kill, owner.pid, signal.SIGCONT)
    with stage.recording(after=1.6):
        os.kill(owner.pid, signal.SIGSTOP)
        script.go()
        command, _ = started(script.who.pid, "ssh")
    somebody = Who(os.getpid(), threading.get_native_id(), "test-apps")
    return script.unfinished(culprits=[Who(owner.pid), somebody], others=command)


@hang("C++", [r"pay_interest|transfer"], lock=True, needs=["c++"])
def cpp_deadlock_for_good(stage):
    """Two threads transfer in opposite directions, and each has the mutex that the other one needs."""
    accounts = stage.errand_of(compiled(stage, SOURCES / "accounts.cpp"))
    with stage.recording(after=1.5):
        accounts.go()
    pid = accounts.who.pid
    interest = Who(pid, accounts.facts["interest"], "interest")
    return accounts.unfinished(culprits=[interest, Who(pid, accounts.who.tid)])
