#!/usr/bin/env python3
# time-limit: 400
"""`kill -9` of a node with static keys, 50 times in a row under traffic: while
it starts, at any moment, and while it writes down the next numbers that it will
use, which with `reserve = 256` it does many times a second. Judged from a
capture of the wire, both directions: no number is used twice under one key, and
a restart skips no more than `reserve`. Then the same, fewer times, where one node
has an engine beside its worker and the other one a card in its port; and where two
workers take numbers of one SA."""
import glob
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter

from rig import Rig, eventually, need, run

KILLS = 50
KILLS_AWAY = 20
# The last of a host's addresses, where there are flows for two workers.
LAST = 6
RESERVE = 256
need("ip", "ping", "tshark", "tcpdump")
random.seed(9)


class Numbers:
    """What a node's state folder says of the key that it sends with."""

    def __init__(self, rig, name):
        counters = glob.glob(rig.path(f"{name}.state/*.counter"))
        own = [c for c in counters if re.search("^for (esp-out|macsec-tx)", self.text(c), re.M)]
        assert len(own) == 1, counters
        self.path = own[0]

    @staticmethod
    def text(path):
        with open(path) as file:
            return file.read()

    def generation(self):
        """How often it was written. For a moment of each write the file is void, and what
        comes after it is whole."""
        while True:
            for path in (self.path, f"{self.path}.new"):
                try:
                    return int(re.search(r"^generation (\d+)", self.text(path), re.M)[1])
                except (FileNotFoundError, TypeError):
                    pass

    def is_being_written(self):
        """A new file is there and not yet in its place: so a kill cuts a write."""
        return os.path.exists(f"{self.path}.new")


def traffic(rig, a_pings, b_pings, last=2):
    """Echoes from each side, from its addresses up to this, whatever happens in between."""
    return [subprocess.Popen(rig.inside(where, "ping", "-q", "-f", "-l", 3, *own, to),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for where, to, network in (("ha", a_pings, "10.0.1"), ("hb", b_pings, "10.0.2"))
            for own in ([], *(["-I", f"{network}.{n}"] for n in range(3, last + 1)))]


def wait_for_refills(node, numbers, before):
    """The start writes once; more is because numbers ran low."""
    def refilled():
        assert node.poll() is None, open(node.log).read()
        return numbers.generation() >= before + 3
    eventually("the next numbers are reserved", refilled)


def kill(node):
    node.kill()
    node.wait()


def kill_and_restart(rig, nodes, kills):
    """Kills either node in turn: at once when it starts, at any moment, in the
    middle of a write. How many kills hit a write, and how often the counters
    were written in all."""
    cut = 0
    numbers = {name: Numbers(rig, name) for name in nodes}
    first = sum(n.generation() for n in numbers.values())
    for turn in range(kills):
        name = ("ga", "gb")[turn % 2]
        if turn % 5 == 0:
            # One more than the others: right after a start.
            kill(nodes[name])
            nodes[name] = rig.start(name, wait=False)
            time.sleep(random.uniform(0.0, 0.05))
        elif turn % 5 < 3:
            wait_for_refills(nodes[name], numbers[name], numbers[name].generation())
            time.sleep(random.uniform(0.0, 0.2))
        else:
            wait_for_refills(nodes[name], numbers[name], numbers[name].generation())
            end = time.monotonic() + 10
            while not numbers[name].is_being_written():
                assert time.monotonic() < end, "nothing is written"
        kill(nodes[name])
        cut += numbers[name].is_being_written()
        nodes[name] = rig.start(name, wait=False)
    return cut, sum(n.generation() for n in numbers.values()) - first


def on_the_wire(pcap, display, *fields):
    """How often each number is there."""
    wanted = [f for field in fields for f in ("-e", field)]
    out = run("tshark", "-r", pcap, "-Y", display, "-T", "fields", *wanted).stdout
    return Counter(tuple(line.split("\t")) for line in out.splitlines())


def judge(kind, pcap, seen, starts):
    twice = [number for number, times in seen.items() if times > 1]
    assert not twice, f"{kind}, {pcap}: used twice: {twice[:10]}"
    assert len(seen) > 1000, f"{kind}, {pcap}: too little traffic: {len(seen)}"
    keys = {key[:-1] for key in seen}
    assert len(keys) == 1, keys
    highest = max(int(number[-1], 0) for number in seen)
    skipped = highest - len(seen)
    assert skipped <= starts * RESERVE, f"{kind}, {pcap}: {skipped} skipped in {starts} starts"
    print(f"{kind}: {len(seen)} numbers one way, none twice, {skipped} skipped")


def placed(rig, places):
    """Where each node seals and opens."""
    for name, place in places.items():
        path = rig.path(f"{name}.toml")
        with open(path) as file:
            text = file.read()
        for table in ("[[tunnel]]\n", "[[macsec]]\n"):
            text = text.replace(table, f'{table}placement = "{place}"\n')
        rig.write(f"{name}.toml", text + ("[look-aside]\n" if place == "look-aside" else ""))
        rig.do(name, rig.ferrule, "check", path)


def is_placed(rig, places):
    """The engine beside the worker, or the card, has had work."""
    for name, place in places.items():
        report = rig.show(name)
        if place == "inline":
            card, = report["cards"]
            assert card["state"] == "up" and card["sealed"] > 0 and card["opened"] > 0, card
        else:
            engine, = [e for e in report["engines"] if e["placement"] == place]
            assert engine["counters"]["completed"] > 0, engine


def shared(rig):
    """Two workers that seal with one SA, and hosts of several addresses."""
    for host, network in (("ha", "10.0.1"), ("hb", "10.0.2")):
        for n in range(3, LAST + 1):
            rig.do(host, "ip", "addr", "add", f"{network}.{n}/24", "dev", "eth0")
    for name in ("ga", "gb"):
        rig.change(name, r"^\[\[tunnel\]\]$",
                   "[[tunnel]]\nwindow = 1024\nevery-worker = true\npeer-window = 1024")


def is_shared(rig):
    """Both workers of both nodes have sealed."""
    for name in ("ga", "gb"):
        sealed = [share["sealed"] for share in rig.show(name)["shares"]]
        assert len(sealed) == 2 and min(sealed) > 0, f"{name}: {sealed}"


def session(rig, kind, display, a_pings, b_pings, *fields, places=None, by_all=False):
    """`fields`: what names the key, then the number."""
    kills = KILLS_AWAY if places or by_all else KILLS
    placed(rig, places or {})
    for name in ("ga", "gb"):
        rig.change(name, "^reserve = .*$", f"reserve = {RESERVE}")
    dumps = {}
    for name in ("ga", "gb"):
        # What arrives at each end of the wire: a node may send around what
        # tcpdump sees at its own end.
        pcap = rig.path(f"{name}.pcap")
        dumps[pcap] = subprocess.Popen(
            rig.inside(name, "tcpdump", "-U", "-n", "-s", 96, "-i", "wan", "-Q", "in", "-B", 65536,
                       "-w", pcap),
            stderr=subprocess.DEVNULL)
        rig.processes.append(dumps[pcap])
    time.sleep(1)
    nodes = {name: rig.start(name) for name in ("ga", "gb")}
    rig.ping(to=a_pings)
    pings = traffic(rig, a_pings, b_pings, LAST if by_all else 2)
    rig.processes += pings
    begin = time.monotonic()
    cut, written = kill_and_restart(rig, nodes, kills)
    seconds = time.monotonic() - begin
    time.sleep(0.5)
    for ping in pings:
        ping.terminate()
        ping.wait()
    if by_all:
        is_shared(rig)
    # Still a tunnel after all that.
    rig.ping(count=3, check=False, to=a_pings)
    rig.ping(count=3, to=a_pings)
    is_placed(rig, places or {})
    for node in nodes.values():
        node.terminate()
        assert node.wait(timeout=5) == 0
    for pcap, dump in dumps.items():
        dump.terminate()
        dump.wait()
        judge(kind, pcap, on_the_wire(pcap, display, *fields), kills + kills // 5 + 2)
    assert cut >= kills // 5, f"{kind}: only {cut} kills hit a write"
    assert written > 4 * kills, f"{kind}: only {written} writes"
    print(f"{kind}: {kills + kills // 5} kills, {cut} of them during a write; "
          f"{written} writes in {seconds:.0f} s")


ESP = ("esp", "10.0.2.2", "10.0.1.2", "esp.spi", "esp.sequence")
MACSEC = ("macsec", "10.5.0.2", "10.5.0.1",
          "macsec.SCI.system_identifier", "macsec.AN", "macsec.PN")
for places in (None, {"ga": "inline", "gb": "look-aside"}):
    where = f" with {places['ga']} and {places['gb']}" if places else ""
    with Rig() as rig:
        rig.gateways()
        session(rig, f"ESP{where}", *ESP, places=places)
    with Rig() as rig:
        rig.edges()
        session(rig, f"MACsec{where}", *MACSEC, places=places)
with Rig() as rig:
    rig.gateways(node="workers = 2\n")
    shared(rig)
    session(rig, "ESP of two workers", *ESP, by_all=True)
sys.exit(0)
