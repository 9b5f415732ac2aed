#!/usr/bin/env python3
# time-limit: 150
"""Routes by BGP, from GoBGP on the host: its sessions go through the node by a TUN port, and a
program gives the node what it learns (docs/howto/routes.md).

    ha --lan-- [node ga] --wan-- gb (Linux, gobgpd) -- hb
                   |
                 bgp0, 10.255.0.2: gobgpd and the program

The session comes up through the node, routes are in force while the other end announces them,
other prefixes come and go beside traffic without a packet lost, so does a program that begins
anew, and with the other end dead its routes go when the hold time is over.
"""
import json
import socket
import subprocess
import threading
import time

from rig import PORTS, Rig, eventually, need

need("ip", "ping", "gobgpd", "gobgp", "ethtool")

OTHERS = 200
NODE = """[node]
name = "ga"
control = "{socket}"
""" + PORTS + """[[port]]
name = "bgp"
driver = "tun"
device = "bgp0"
host-address = ["10.255.0.2/30"]
host-route = ["198.51.100.0/24"]
[[interface]]
port = "lan"
address = ["10.0.1.1/24"]
[[interface]]
port = "wan"
address = ["198.51.100.1/24"]
[[interface]]
port = "bgp"
address = ["10.255.0.1/30"]
"""
SPEAKER = """[global.config]
  as = {own}
  router-id = "{id}"
[[neighbors]]
  [neighbors.config]
    neighbor-address = "{peer}"
    peer-as = {other}
  [neighbors.timers.config]
    connect-retry = 1
    idle-hold-time-after-reset = 1
    hold-time = 9
    keepalive-interval = 3
  [neighbors.transport.config]
    local-address = "{id}"
  [neighbors.ebgp-multihop.config]
    enabled = true
    multihop-ttl = 4
"""


class Program:
    """Gives a node the best routes that gobgpd has, and each change of them."""

    def __init__(self, rig):
        self.rig, self.stream = rig, socket.socket(socket.AF_UNIX)
        self.stream.connect(rig.socket("ga"))
        self.lines = self.stream.makefile("rb")
        self.batches, self.failed = 0, None
        # It listens for changes before it reads all that is there: none is missed.
        self.monitor = subprocess.Popen(
            rig.inside("ga", "gobgp", "-j", "monitor", "global", "rib"), stdout=subprocess.PIPE)
        time.sleep(0.3)
        table = json.loads(gobgp(rig, "ga", "-j", "global", "rib") or "{}")
        self.give({"clear": {}}, *(self.delta(paths[0]) for paths in table.values()))
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    @staticmethod
    def delta(path):
        prefix = path["nlri"]["prefix"]
        if path.get("withdrawal"):
            return {"drop-route": {"prefix": prefix}}
        hop = next(a["nexthop"] for a in path["attrs"] if a["type"] == 3)
        return {"set-route": {"prefix": prefix, "paths": [{"via": hop}]}}

    def give(self, *deltas):
        self.stream.sendall(json.dumps({"dynamic": deltas}).encode() + b"\n")
        answer = json.loads(self.lines.readline())
        assert answer == {"done": {}}, answer
        self.batches += 1

    def follow(self):
        for line in self.monitor.stdout:
            paths = json.loads(line)
            if isinstance(paths, dict):     # gobgpd went
                return
            try:
                # Changes from before the table was read may come twice; that is no fault.
                self.give(*map(self.delta, paths))
            except AssertionError as e:
                self.failed = e

    def end(self):
        self.monitor.kill()
        self.monitor.wait()
        self.thread.join()
        self.stream.close()
        assert self.failed is None, self.failed


def gobgp(rig, where, *words):
    return rig.do(where, "gobgp", *words).stdout


def speaker(rig, where, **of):
    file = rig.write(f"{where}.bgp", SPEAKER.format(**of))
    log = open(rig.path(f"{where}.bgp.log"), "a")
    process = subprocess.Popen(
        rig.inside(where, "gobgpd", "-f", file, "--api-hosts", "127.0.0.1:50051",
                   "--pprof-disable"), stdout=log, stderr=log)
    rig.processes.append(process)
    eventually(f"gobgpd of {where}",
               lambda: rig.do(where, "gobgp", "global", check=False).returncode == 0)
    return process


def announced(rig):
    report = json.loads(rig.ask("ga", "show", "path", "--json").stdout)
    return {p["prefix"] for p in report["path"] if p["dynamic"]}


with Rig() as rig:
    rig.do("gb", "sysctl", "-qw", "net.ipv4.ip_forward=1")
    for words in (("addr", "add", "198.51.100.2/24", "dev", "wan"),
                  ("addr", "add", "10.0.2.1/24", "dev", "lan"),
                  ("route", "add", "10.255.0.0/30", "via", "198.51.100.1"),
                  ("route", "add", "10.0.1.0/24", "via", "198.51.100.1")):
        rig.do("gb", "ip", *words)
    rig.do("gb", "ethtool", "-K", "wan", "tx", "off", check=False)
    rig.write("ga.toml", NODE.format(socket=rig.socket("ga")))
    rig.start("ga")
    speaker(rig, "ga", own=65001, other=65002, id="10.255.0.2", peer="198.51.100.2")
    far = speaker(rig, "gb", own=65002, other=65001, id="198.51.100.2", peer="10.255.0.2")
    program = Program(rig)
    eventually("the session", lambda: "Establ" in gobgp(rig, "ga", "neighbor"), 30)
    assert rig.ping(check=False, wait=1) == 0, "no route, and yet"
    gobgp(rig, "gb", "global", "rib", "add", "10.0.2.0/24", "nexthop", "198.51.100.2")
    eventually("the route", lambda: "10.0.2.0/24" in announced(rig))
    rig.ping()
    print("a session through the node, and a route by it: pings are answered")

    def others_come_and_go():
        for verb in ("add", "del"):
            loop = "; ".join(f"gobgp global rib {verb} 10.{100 + n // 100}.{n % 100}.0/24 "
                             "nexthop 198.51.100.2" for n in range(OTHERS))
            rig.do("gb", "sh", "-ec", loop)
            want = OTHERS + 1 if verb == "add" else 1
            eventually(f"{want} routes", lambda: len(announced(rig)) == want, 20)

    pings = rig.lossless(others_come_and_go)
    print(f"{OTHERS} other routes came and went, in {program.batches} batches: "
          f"{pings} of {pings} pings answered")

    def programs_begin_anew():
        global program
        for _ in range(3):
            program.end()
            program = Program(rig)

    pings = rig.lossless(programs_begin_anew)
    print(f"three programs that began anew: {pings} of {pings} pings answered")

    gobgp(rig, "gb", "global", "rib", "del", "10.0.2.0/24")
    eventually("the route goes", lambda: not announced(rig))
    assert rig.ping(check=False, wait=1) == 0, "withdrawn, and yet"
    gobgp(rig, "gb", "global", "rib", "add", "10.0.2.0/24", "nexthop", "198.51.100.2")
    eventually("the route", lambda: "10.0.2.0/24" in announced(rig))
    rig.ping()
    # The wire is cut: nobody says goodbye.
    rig.do("gb", "ip", "link", "set", "wan", "down")
    begin = time.monotonic()
    eventually("the hold time is over", lambda: not announced(rig), 30)
    print(f"a dead wire: its routes went after {time.monotonic() - begin:.0f} s")
    program.end()
    drops = rig.drops("ga")
    assert not {"malformed", "bad-checksum"} & set(drops), drops
print("ok")
