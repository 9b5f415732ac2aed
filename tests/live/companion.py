#!/usr/bin/env python3
# time-limit: 60
"""The companion of a node that gave its privileges up, asked as somebody would
who took the node over: everything that a message can name is tried. It opens
what was granted before it was confined, and nothing beside it; it has no way to
a file, a program or another interface; and the sockets that it hands out stay
at their device."""
import array
import json
import os
import socket
import subprocess
import sys

from rig import Rig, eventually, need, run

need("ip", "ping")

NONE = {"addresses": [], "routes": []}
AF_XDP = 44
NET_ADMIN, NET_RAW, BPF = 1 << 12, 1 << 13, 1 << 39


def tap(device, addresses=(), routes=(), tun=None):
    host = {"addresses": list(addresses), "routes": list(routes)}
    return {"Tap": {"device": device, "tun": tun, "offload": True, "several": False,
                    "host": host, "mtu": 1400}}


def xdp(device, queue=0):
    return {"Xdp": {"device": device, "queue": queue, "mode": 0, "budget": 64}}


def packet(device):
    return {"Packet": {"device": device}}


def queue(device):
    return {"Queue": {"device": device}}


class Companion:
    """A companion in a namespace, with this test as its daemon."""

    def __init__(self, rig, name, grants, file):
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(10)
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", rig.ns(name), rig.ferrule, "open-ports", file],
            stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        theirs.close()
        for device, kind, host in grants:
            self.say({"Grant": {"device": device, "kind": kind, "host": host}})
        self.say("Begin")
        answer, _ = self.hear()
        assert answer == "Done", answer

    def say(self, message):
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.ours.send(text)

    def hear(self):
        fds = array.array("i")
        octets, control, _, _ = self.ours.recvmsg(8192, socket.CMSG_SPACE(16 * 4))
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data[:len(data) - len(data) % 4])
        return (json.loads(octets) if octets else None), list(fds)

    def open(self, wanted):
        self.say({"Open": wanted})
        answer, fds = self.hear()
        return answer, fds

    def refused(self, wanted, word):
        answer, fds = self.open(wanted)
        assert not fds and answer != "Done", (wanted, answer)
        assert word in answer["Refused"]["what"], (wanted, answer)
        return answer["Refused"]

    def ends(self):
        self.ours.close()
        return self.process.wait(timeout=5)

    def status(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def devices(rig):
    lines = run("ip", "-n", rig.ns("ga"), "-br", "link").stdout.splitlines()
    return {line.split()[0].split("@")[0] for line in lines}


def everything_else_is_refused(rig, file):
    """A companion with leave for one device of each kind."""
    host = {"addresses": [["10.9.0.1", 24]], "routes": [["10.10.0.0", 16]]}
    grants = [("p0", "Packet", NONE), ("x0", "Xdp", NONE), ("t0", "Tap", host), ("s0", None, NONE)]
    companion = Companion(rig, "ga", grants, file)
    found = companion.status()
    assert int(found["CapPrm"], 16) == NET_ADMIN | NET_RAW | BPF, found["CapPrm"]
    assert int(found["CapBnd"], 16) == 0, found["CapBnd"]
    assert found["Seccomp"] == "2" and found["NoNewPrivs"] == "1"
    before = devices(rig)
    for device in ("lo", "other", "p0 ", "p", "", "../p0", "p0\0", "none0", "x" * 200):
        for ask in (packet, xdp, queue, tap):
            companion.refused(ask(device), "not among the devices")
    for wanted in (xdp("p0"), queue("p0"), tap("p0"), packet("x0"), tap("x0"), packet("t0"),
                   xdp("t0")):
        companion.refused(wanted, "another driver")
    for wanted in (tap("t0", [["10.9.0.2", 24]]), tap("t0", [["10.9.0.1", 8]]),
                   tap("t0", [["10.9.0.1", 24]], [["0.0.0.0", 0]]),
                   tap("s0", [["192.0.2.1", 24]]), tap("s0", [], [["10.0.0.0", 8]])):
        companion.refused(wanted, "addresses or routes")
    assert devices(rig) == before, "a device was made"
    for wanted in (packet("p0"), xdp("x0"), queue("x0"), packet("s0"),
                   tap("t0", [["10.9.0.1", 24]], [["10.10.0.0", 16]])):
        answer, fds = companion.open(wanted)
        assert answer == "Done" and fds, (wanted, answer)
        if wanted == packet("p0"):
            stays_at_its_device(rig, fds)
        elif "Queue" in wanted:
            cannot_be_bound_elsewhere(fds[0])
        for fd in fds:
            os.close(fd)
    companion.ends()
    eventually("the TAP is gone", lambda: "t0" not in devices(rig))
    assert not os.path.exists(file), "the socket is still there"
    return len(before)


def stays_at_its_device(rig, fds):
    """AF_PACKET sockets, for receiving and for sending, that their holder binds to
    another interface."""
    for fd, receives in zip(fds, (True, False), strict=True):
        taken = socket.socket(fileno=os.dup(fd))
        for device, net, hears in (("other", 20, False), ("p0", 21, receives)):
            taken.bind((device, 3))
            rig.do("hb", "ping", "-c", "2", "-i", "0.1", "-W", "1", f"10.{net}.0.1")
            taken.setblocking(False)
            try:
                heard = len(taken.recv(2048)) > 0
            except BlockingIOError:
                heard = False
            assert heard == hears, (device, receives)
        for option, value in ((26, b"\0" * 16), (27, b"\0" * 4), (44, b"\0" * 4)):
            # Another filter, none, and unlocking it.
            try:
                taken.setsockopt(socket.SOL_SOCKET, option, value)
                raise AssertionError(f"option {option} was taken")
            except PermissionError:
                pass
        taken.close()


def cannot_be_bound_elsewhere(fd):
    """An AF_XDP socket is tied to its device, which only CAP_NET_RAW undoes."""
    taken = socket.socket(AF_XDP, socket.SOCK_RAW, 0, fileno=os.dup(fd))
    name = taken.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
    assert name.rstrip(b"\0") == b"x0", name
    taken.close()


def rights_are_those_of_the_grants(rig):
    for kind, capabilities in (("Packet", NET_RAW), ("Tap", NET_ADMIN),
                               ("Xdp", NET_RAW | NET_ADMIN | BPF)):
        companion = Companion(rig, "ga", [("p0", kind, NONE)], rig.path("none.sock"))
        for caps in ("CapPrm", "CapEff"):
            found = int(companion.status()[caps], 16)
            assert found == capabilities, (kind, caps, hex(found))
        assert companion.ends() == 0
    companion = Companion(rig, "ga", [], rig.path("none.sock"))
    assert int(companion.status()["CapPrm"], 16) == 0
    companion.refused(packet("p0"), "not among the devices")
    assert companion.ends() == 0


def what_is_no_question_ends_it(rig):
    late = {"Grant": {"device": "other", "kind": None, "host": NONE}}
    for message in (late, "Begin", b"{", b"\xff" * 100, b"x" * 9000,
                    b'{"Open":{"Packet":{"device":"p0"', {"Open": {"File": {"path": "/etc/passwd"}}}):
        companion = Companion(rig, "ga", [("p0", "Packet", NONE)], rig.path("none.sock"))
        companion.say(message)
        try:
            answer, fds = companion.hear()
        except ConnectionResetError:
            answer, fds = None, []
        assert answer is None and not fds, (message, answer)
        companion.process.wait(timeout=5)


def only_the_socket_that_was_made_is_removed(rig):
    """Something else under the socket's name stays."""
    for replace in ("file", "link", "socket"):
        file = rig.path("there.sock")
        made = socket.socket(socket.AF_UNIX)
        made.bind(file)
        companion = Companion(rig, "ga", [], file)
        os.rename(file, rig.path("aside.sock"))
        if replace == "file":
            open(file, "w").close()
        elif replace == "link":
            os.symlink(rig.path("aside.sock"), file)
        else:
            other = socket.socket(socket.AF_UNIX)
            other.bind(file)
        companion.ends()
        assert os.path.lexists(file), f"a {replace} was removed"
        os.unlink(file)
        os.unlink(rig.path("aside.sock"))


with Rig() as rig:
    for device in ("p0", "x0", "s0", "other"):
        run("ip", "link", "add", device, "netns", rig.ns("ga"), "type", "veth", "peer", "name",
            device, "netns", rig.ns("hb"))
        for name in ("ga", "hb"):
            rig.do(name, "ip", "link", "set", device, "up")
    for net, device in ((20, "other"), (21, "p0")):
        rig.do("ga", "ip", "addr", "add", f"10.{net}.0.1/24", "dev", device)
        rig.do("hb", "ip", "addr", "add", f"10.{net}.0.2/24", "dev", device)
    left = rig.path("node.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(left)
    everything_else_is_refused(rig, left)
    rights_are_those_of_the_grants(rig)
    what_is_no_question_ends_it(rig)
    only_the_socket_that_was_made_is_removed(rig)
    print("the companion opens what was granted, and nothing beside it")
sys.exit(0)
