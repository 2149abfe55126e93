"""Tasks of one event loop: each request over TCP becomes a task, which asks PostgreSQL over a UNIX
socket. Requests of one connection are answered in any order. Datagrams over UDP and lines over a
UNIX socket are only counted.

tasks.py HOST PORT PATH POSTGRES_PATH CONNECTIONS TRUTH
"""
import asyncio
import itertools
import signal
import socket
import struct
import sys
from time import monotonic_ns as now

numbers = itertools.count(1)
truth = None


def note(kind, conn, request, size, before, causes=()):
    """Writes one line of truth and returns its number. before is 0 if it is not known."""
    n = next(numbers)
    print(n, kind, conn.name, request, size, before, now(), ",".join(map(str, causes)),
          sep="\t", file=truth)
    return n


def named(transport):
    s = transport.get_extra_info("socket")
    if s.family == socket.AF_UNIX:
        cookie = s.getsockopt(socket.SOL_SOCKET, 57, 8)  # SO_COOKIE
        return "unix %d" % struct.unpack("Q", cookie)
    kind = "udp" if s.type == socket.SOCK_DGRAM else "tcp"
    peer = s.getpeername() if kind == "tcp" else ("0.0.0.0", 0)
    return "%s %s:%d %s:%d" % ((kind,) + s.getsockname() + peer)


class Conn(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.name, self.part = transport, named(transport), b""

    def say(self, data, request, causes):
        before = now()
        self.transport.write(data)
        assert self.transport.get_write_buffer_size() == 0, "the kernel took only a part"
        return note("S", self, request, len(data), before, causes)


class Server(Conn):
    """Requests, a line each. A read may end several of them."""
    def data_received(self, data):
        lines = (self.part + data).split(b"\n")
        self.part = lines.pop()
        ids = [line.decode() for line in lines]
        n = note("R", self, ",".join(ids), len(data), 0)
        for request in ids:
            self.answer(request, n)

    def answer(self, request, n):
        tasks.add(task := asyncio.ensure_future(self.task(request, n)))
        task.add_done_callback(tasks.discard)

    async def task(self, request, n):
        postgres = await idle.get()
        answered = await postgres.ask(request, n)
        idle.put_nowait(postgres)
        self.say(request.encode() + b"\n", request, [answered])


class Counter(Server):
    def answer(self, request, n):
        pass


class Datagrams(Conn):
    def datagram_received(self, data, peer):
        note("R", self, data.decode(), len(data), 0)


class Postgres(Conn):
    """A connection to PostgreSQL that knows the simple query, and trusts what it gets."""
    def connection_made(self, transport):
        super().connection_made(transport)
        self.request, self.answered = "", asyncio.get_running_loop().create_future()
        words = b"user\0postgres\0database\0postgres\0\0"
        self.say(struct.pack("!II", 8 + len(words), 3 << 16) + words, "", [])

    def connection_lost(self, error):
        if not self.answered.done():
            self.answered.set_exception(ConnectionError("PostgreSQL closed a connection"))

    def ask(self, request, n):
        self.request, self.answered = request, asyncio.get_running_loop().create_future()
        text = b"SELECT %d + 1\0" % int(request)
        self.say(b"Q" + struct.pack("!I", 4 + len(text)) + text, request, [n])
        return self.answered

    def data_received(self, data):
        n = note("R", self, self.request, len(data), 0)
        self.part += data
        while len(self.part) >= 5:
            kind, size = self.part[:1], struct.unpack("!I", self.part[1:5])[0]
            if len(self.part) < 1 + size:
                break
            self.part = self.part[1 + size:]
            if kind == b"Z":  # ready for the next query
                self.answered.set_result(n)


async def connect(path):
    while True:
        _, conn = await asyncio.get_running_loop().create_unix_connection(Postgres, path)
        try:
            await conn.answered
            return conn
        except ConnectionError:  # PostgreSQL has not started yet
            await asyncio.sleep(0.05)


class Nobody:
    """Takes the place of PostgreSQL where it is not installed."""
    async def ask(self, request, n):
        await asyncio.sleep(0.0005)
        return n


async def main(host, port, path, postgres, connections):
    global idle, tasks
    loop, idle, tasks = asyncio.get_running_loop(), asyncio.Queue(), set()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    for _ in range(int(connections)):
        idle.put_nowait(await connect(postgres) if postgres else Nobody())
    await loop.create_datagram_endpoint(Datagrams, (host, int(port)))
    await loop.create_server(Server, host, int(port))
    await loop.create_unix_server(Counter, path)
    await ended.wait()


with open(sys.argv[6], "w") as truth:
    asyncio.run(main(*sys.argv[1:6]))
