#!/usr/bin/env python3
# time-limit: 180
# alone: how long others wait is measured, and how much memory there is
"""Whatever somebody does to the sockets that a node listens on (management,
metrics, dashboard), it costs little memory and hinders nobody: endless lines,
10,000 silent connections, readers that do not read. Who the management socket
lets in by its group may look, and do nothing else."""
import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

from rig import Rig, eventually, need, run

need("ip", "ping")

MIB = 1 << 20
# What all of it together may cost.
MORE_MAX = 16 * MIB
SILENT = 10_000
# Octets without an end, to each socket; a third of a second at least for each kind.
ENDLESS = 1 << 30
SECONDS = 8
NOBODY = 65534
CLONE_NEWNET = 0x40000000


class Memory:
    """The most that a process had, while the block lasts."""

    def __init__(self, pid):
        self.pid, self.ends = pid, threading.Event()

    def now(self):
        with open(f"/proc/{self.pid}/status") as file:
            return int(re.search(r"RssAnon:\s+(\d+) kB", file.read())[1]) * 1024

    def __enter__(self):
        self.before = self.most = self.now()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.ends.wait(0.02):
            self.most = max(self.most, self.now())

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def connect(where):
    """To a Unix socket, or to a TCP port of the node's namespace."""
    family = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET
    stream = socket.socket(family)
    stream.settimeout(2)
    for _ in range(200):
        try:
            stream.connect(where)
            return stream
        except BlockingIOError:
            # As many wait already as may wait.
            time.sleep(0.01)
    raise TimeoutError("nobody takes connections")


def endless(where, start):
    """A request that does not end, again and again."""
    junk, sent, end = b"x" * (256 << 10), 0, time.monotonic() + SECONDS
    while sent < ENDLESS and time.monotonic() < end:
        stream = connect(where)
        try:
            sent += stream.send(start)
            while sent < ENDLESS and time.monotonic() < end:
                sent += stream.send(junk)
        except (ConnectionError, TimeoutError):
            pass
        finally:
            stream.close()
    return sent


def silent(where):
    """Many connections that say nothing, as many open at a time as there may be."""
    kept, made, end = [], 0, time.monotonic() + 2 * SECONDS
    while made < SILENT and time.monotonic() < end:
        try:
            kept.append(connect(where))
            made += 1
            if made % 50 == 0:
                # Else the kernel's own queue overflows, which sends again after a second.
                time.sleep(0.02)
        except (ConnectionError, TimeoutError, BlockingIOError):
            time.sleep(0.01)
        if len(kept) > 800:
            kept.pop(0).close()
    return made, kept


def unread(where, request):
    """Answers that nobody takes."""
    kept = []
    for _ in range(100):
        stream = connect(where)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.setblocking(False)
        try:
            while len(kept) < 100 and stream.send(request):
                pass
        except (BlockingIOError, ConnectionError):
            pass
        kept.append(stream)
    return kept


def http(address, path, key=""):
    """Status and text, as others get it meanwhile."""
    stream = connect(address)
    host = f"{address[0]}:{address[1]}"
    stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
                   f"Authorization: Bearer {key}\r\n\r\n".encode())
    text = b""
    while part := stream.recv(65536):
        text += part
    stream.close()
    return int(text.split()[1]), text


def inside(rig):
    """This process goes to the node's namespace, where its TCP ports are."""
    with open(f"/run/netns/{rig.ns('ga')}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def attacks(rig, pid, metrics, page, key):
    unix = rig.socket("ga")
    get = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    state = (f"GET /api/state HTTP/1.1\r\nHost: {page[0]}:{page[1]}\r\n"
             f"Authorization: Bearer {key}\r\n\r\n").encode()
    targets = (("management", unix, b'{"show":', b'{"show":{}}\n' * 200),
               ("metrics", metrics, b"GET /", get * 50),
               ("dashboard", page, b"GET /", state * 50))

    def others():
        """Packets and other clients are served, soon."""
        began = time.monotonic()
        assert rig.show("ga")["ports"]
        assert http(metrics, "/metrics")[0] == http(metrics, "/healthz")[0] == 200
        status, text = http(page, "/api/state", key)
        assert status == 200, (status, text[-200:])
        took = time.monotonic() - began
        assert took < 5, f"others waited {took:.1f} s"
        return took

    others()
    for name, where, start, request in targets:
        with Memory(pid) as memory:
            sent = endless(where, start)
            others()
            made, kept = silent(where)
            others()
            slow = unread(where, request)
            took = others()
            rig.ping(count=5)
            for stream in kept + slow:
                stream.close()
        more = memory.most - memory.before
        print(f"{name}: {sent / MIB:.0f} MiB without an end, {made} silent, {len(slow)} that do "
              f"not read: {more / MIB:.1f} MiB more at most, others in {took * 1000:.0f} ms")
        assert more < MORE_MAX, f"{name}: {more} octets more"
        assert sent > 8 * MIB and made > SILENT // 2


def monitors_may_look(rig):
    """As nobody, by the group of `monitors`."""
    as_monitor = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    unix = rig.socket("ga")
    os.chmod(rig.dir, 0o755)
    assert os.stat(unix).st_mode & 0o777 == 0o660 and os.stat(unix).st_gid == NOBODY
    script = ("import socket,sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
              "s.sendall(sys.argv[2].encode() + b'\\n')\nprint(s.makefile().readline())\n")

    def ask(request):
        command = [*as_monitor, "/usr/bin/python3", "-c", script, unix, json.dumps(request)]
        return json.loads(run(*command).stdout)

    assert ask({"show": {}})["report"]["ports"]
    recording = {"port": None, "count": 1, "snap": 64}
    for request in ({"stop": {}}, {"apply": {"file": "x", "text": "", "keys": {}}},
                    {"trace": recording}, {"capture": {"recording": recording, "key_log": True}},
                    {"reset-card": {"port": "wan"}}, {"enough": {}}):
        refused = ask(request)["refused"]
        assert "you may look" in refused["text"], (request, refused)
    rig.ping()


with Rig() as rig:
    rig.gateways(node='metrics = "127.0.0.1:9106"\nmonitors = "nogroup"\n')
    log = rig.path("ga.log")
    with open(log, "w") as file:
        ga = subprocess.Popen(rig.inside("ga", rig.ferrule, "run", rig.path("ga.toml"), "--web",
                                         "127.0.0.1:9107"), stdout=file, stderr=file)
    rig.processes.append(ga)
    rig.start("gb")
    eventually("ga answers", lambda: rig.show("ga", check=False) is not None)
    rig.ping()
    monitors_may_look(rig)
    with open(log) as file:
        key = re.search(r"#key=([0-9a-f]{32})", file.read())[1]
    inside(rig)
    attacks(rig, ga.pid, ("127.0.0.1", 9106), ("127.0.0.1", 9107), key)
sys.exit(0)
