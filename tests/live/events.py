#!/usr/bin/env python3
# time-limit: 90
"""What a node says of itself: start, stop, ports, changes and who made them, and every
packet that it refused, by SPI, addresses and number; a flood costs a line a second."""
import ctypes
import json
import os
import signal
import socket
import struct
import time

from rig import Rig, eventually, need

need("ip", "ping")

FLOOD = 20_000
CLONE_NEWNET = 0x40000000


def events(rig, name, message=None):
    """The lines of a node's log that are events; all of them are JSON."""
    with open(rig.path(f"{name}.log")) as file:
        lines = [line for line in file if line.startswith("{")]
    found = [json.loads(line) for line in lines]
    return [e for e in found if message in (None, e["message"])]


def refused(rig, reason):
    return [e for e in events(rig, "ga", "refused") if e["reason"] == reason]


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def esp(mac, spi, number, payload=bytes(64)):
    """A frame of ESP from ga's peer to ga."""
    body = struct.pack("!II", spi, number) + payload
    ends = socket.inet_aton("198.51.100.2") + socket.inet_aton("198.51.100.1")
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, 50, 0) + ends
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return mac + bytes.fromhex("020000000077") + b"\x08\x00" + header + body


def wire(rig, name):
    """A socket at one end of the wire between the gateways."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as home, open(f"/run/netns/{rig.ns(name)}") as there:
        assert libc.setns(there.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        raw.bind(("wan", 3))
        assert libc.setns(home.fileno(), CLONE_NEWNET) == 0
    raw.settimeout(3)
    return raw


def packets_that_are_refused(rig):
    mac = next(p["mac"] for p in rig.show("ga")["ports"] if p["name"] == "wan")
    mac = bytes.fromhex(mac.replace(":", "").replace("-", ""))
    raw = wire(rig, "gb")
    began = time.monotonic()
    for number in range(FLOOD):
        raw.send(esp(mac, 0xdead, number))
    eventually("all of the flood is counted",
               lambda: sum(e["count"] for e in refused(rig, "esp-unknown-spi")) == FLOOD)
    lines = refused(rig, "esp-unknown-spi")
    assert len(lines) <= time.monotonic() - began + 2, f"{len(lines)} lines"
    for line in lines:
        assert (line["spi"], line["src"], line["dst"], line["port"], line["protocol"]) == \
            ("0x0000dead", "198.51.100.2", "198.51.100.1", "wan", 50), line
        assert 0 <= line["number"] < FLOOD and line["level"] == "WARN"

    # A packet of the real peer once more, and one that somebody altered.
    heard = wire(rig, "ga")
    rig.do("hb", "ping", "-c", "1", "-W", "1", "10.0.1.2")
    sealed = heard.recv(4096)
    while (sealed[:6], sealed[12:14], sealed[23]) != (mac, b"\x08\x00", 50):
        sealed = heard.recv(4096)
    spi, number = struct.unpack("!II", sealed[34:42])
    raw.send(sealed)
    raw.send(sealed[:38] + struct.pack("!I", number + 100) + sealed[42:])
    for reason, wanted in (("esp-replay", number), ("esp-bad-icv", number + 100)):
        eventually(reason, lambda: refused(rig, reason))
        line = refused(rig, reason)[0]
        assert (line["spi"], line["number"], line["count"]) == (f"0x{spi:08x}", wanted, 1), line


def changes_and_who_made_them(rig, node):
    with open(rig.path("ga.toml")) as file:
        good = file.read()
    rig.ask("ga", "apply", rig.path("ga.toml"))
    eventually("apply is written", lambda: events(rig, "ga", "request"))
    applied = [e for e in events(rig, "ga", "request") if e["request"] == "apply"]
    assert [e["uid"] for e in applied] == [0] and applied[0]["pid"] > 1, applied
    assert applied[0]["target"] == "ferrule::audit"
    # SIGHUP: what the file says now, or why not.
    route = '\n[[route]]\nprefix = "203.0.113.0/24"\nvia = "198.51.100.2"\n'
    rig.write("ga.toml", good + route)
    node.send_signal(signal.SIGHUP)
    eventually("SIGHUP is done", lambda: [e for e in events(rig, "ga", "request")
                                          if e["request"] == "SIGHUP"])
    changed = events(rig, "ga", "apply")
    assert changed[-1]["added"] == "route 203.0.113.0/24" and "removed" not in changed[-1], changed
    rig.write("ga.toml", good + "[[rout]]\n")
    node.send_signal(signal.SIGHUP)
    eventually("SIGHUP is refused", lambda: events(rig, "ga", "request-refused"))
    assert "rout" in events(rig, "ga", "request-refused")[0]["why"]
    rig.write("ga.toml", good)
    rig.ping()


with Rig() as rig:
    rig.gateways(node='log = "json"\n')
    nodes = {name: rig.start(name) for name in ("ga", "gb")}
    rig.ping()
    start = events(rig, "ga", "start")
    assert len(start) == 1 and start[0]["node"] == "ga" and start[0]["tunnels"] == 1, start
    eventually("ports are up",
               lambda: {e["port"] for e in events(rig, "ga", "port-up")} == {"lan", "wan"})
    changes_and_who_made_them(rig, nodes["ga"])
    packets_that_are_refused(rig)
    rig.do("gb", "ip", "link", "set", "wan", "down")
    eventually("the port is down", lambda: [e for e in events(rig, "ga", "port-down")
                                           if e["port"] == "wan"])
    eventually("nobody behind it is known any more", lambda: "wan" not in rig.ask(
        "ga", "show", "neighbours").stdout)
    ups = len(events(rig, "ga", "port-up"))
    rig.do("gb", "ip", "link", "set", "wan", "up")
    eventually("the port is up again", lambda: len(events(rig, "ga", "port-up")) == ups + 1)
    rig.ping(wait=4)
    rig.ask("ga", "stop")
    assert nodes["ga"].wait(timeout=5) == 0
    assert events(rig, "ga", "stop")[0]["why"] == "a client asked for it"
    keys = [rig.path(name) for name in rig.files(".key")]
    with open(rig.path("ga.log")) as file:
        log = file.read()
    for key in keys:
        with open(key) as file:
            words = [w for w in file.read().split() if len(w) >= 16]
        assert words and not [w for w in words if w in log], "a key is in the log"
    print(f"{len(events(rig, 'ga'))} events, {FLOOD} refused packets in "
          f"{len(refused(rig, 'esp-unknown-spi'))} lines")
