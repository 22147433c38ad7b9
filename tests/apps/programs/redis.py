"""Redis and memcached: one thread serves everybody."""

import socket

from hang import Who, hang
from stage import connects, free_port, stop_for_a_while, until

REDIS = ["redis-server"]


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port))
    return connection, connection.makefile("rb")


def ask(connection, command):
    """Sends one line, returns the first line of the reply; longer replies are read away."""
    sock, replies = connection
    sock.sendall(command.encode() + b"\r\n")
    line = replies.readline()
    if line.startswith(b"*"):
        for _ in range(int(line[1:])):
            replies.read(int(replies.readline()[1:]) + 2)
    elif line.startswith(b"$") and not line.startswith(b"$-1"):
        replies.read(int(line[1:]) + 2)
    elif line.startswith(b"VALUE"):
        while line != b"END\r\n":
            line = replies.readline()
    return line.decode()


def get(port):
    """A client that reads one key."""
    connection = connect(port)
    return lambda: ask(connection, "get greeting") and None


def command(port, prepare, line):
    """A client that sends one expensive command."""
    connection = connect(port)
    for each in prepare:
        ask(connection, each)
    return lambda: ask(connection, line)


def expensive(stage, prepare, line):
    """A hang of Redis: another client's command keeps its only thread busy."""
    port = free_port()
    folder = stage.subfolder("redis", "nobody")
    options = ["--save", "", "--appendonly", "no", "--enable-debug-command", "yes", "--dir", folder]
    server = stage.start("redis-server", "--port", port, *options, user="nobody")
    until("Redis", lambda: connects(port))
    other = stage.deed(command, port=port, prepare=prepare, line=line)
    client = stage.rhythm(get, port=port)
    with stage.recording():
        other.go()
        other.result()
    return client.truth(culprits=[Who(server.pid, server.pid)])


@hang("Redis", [r"keysCommand|stringmatch|genericKeys"], needs=REDIS)
def redis_keys(stage):
    """KEYS looks at every key."""
    return expensive(stage, ["debug populate 1500000 user 16"], "keys *a*e*i*o*u*")


@hang("Redis", [r"\blua[A-Z_]|evalGenericCommand|evalCommand|scriptCall"], needs=REDIS)
def redis_lua(stage):
    """A script computes."""
    script = "local n = 0 for i = 1, 1.2e8 do n = n + i end return n"
    return expensive(stage, [], f'eval "{script}" 0')


@hang("Redis", [r"zslFree|freeZset|decrRefCount|db\w*Delete|del(Generic)?Command|dict(Release|Clear)"], needs=REDIS)
def redis_big_key(stage):
    """DEL frees a sorted set of millions of members."""
    script = "for i = 1, 1e5 do redis.call('zadd', 'scores', i + ARGV[1], i + ARGV[1]) end return 1"
    fill = [f'eval "{script}" 0 {part * 100_000}' for part in range(60)]
    return expensive(stage, fill, "del scores")


@hang("memcached", [], needs=["memcached"])
def memcached_stopped(stage):
    """Somebody stops the server with a signal."""
    port = free_port()
    server = stage.start("memcached", "-p", port, "-l", "127.0.0.1", "-u", "nobody", "-t", "1")
    until("memcached", lambda: connects(port))
    client = stage.rhythm(get, port=port)
    with stage.recording():
        somebody = stop_for_a_while(server.pid)
    return client.truth(culprits=[Who(server.pid), somebody])


@hang("Redis", [r"rdbSave|rdbWrite|saveCommand|lzf_compress"], needs=REDIS)
def redis_save(stage):
    """SAVE writes everything to disk, and nobody is served meanwhile."""
    return expensive(stage, ["debug populate 1500000 user 100"], "save")
