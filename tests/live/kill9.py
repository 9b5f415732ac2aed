#!/usr/bin/env python3
# time-limit: 280
"""`kill -9` of a node with static keys, 50 times in a row under traffic, also
during the write of its counters: judged from a capture of the wire, both
directions, no number is used twice under one key."""
import os
import random
import subprocess
import sys
import time
from collections import Counter

from rig import Rig, need, run

KILLS = 50
need("ip", "ping", "tshark", "tcpdump")
random.seed(9)


def traffic(rig):
    """A small flood from each side, whatever happens in between."""
    for where, to in (("ha", "10.0.2.2"), ("hb", "10.0.1.2")):
        rig.processes.append(subprocess.Popen(
            rig.inside(where, "ping", "-q", "-i", "0.002", "-W", "1", to),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def kill_and_restart(rig, nodes, kills):
    """Kills either node at any moment: while it starts and writes its counters,
    or in the middle of traffic. Some reach traffic before, all are counted."""
    for turn in range(kills):
        name = "ga" if turn % 2 == 0 else "gb"
        nodes[name].kill()
        nodes[name].wait()
        nodes[name] = rig.start(name, wait=False)
        if turn % 3 == 0:
            # Right in the start, where the counters are written: and once more.
            time.sleep(random.uniform(0.0, 0.05))
            nodes[name].kill()
            nodes[name].wait()
            nodes[name] = rig.start(name, wait=False)
        time.sleep(random.uniform(0.1, 0.5))
        assert nodes[name].poll() is None, open(nodes[name].log).read()


def numbers_twice(pcap, display, *fields):
    """Numbers that are on the wire more than once, and how many there are in all."""
    wanted = [f for field in fields for f in ("-e", field)]
    out = run("tshark", "-r", pcap, "-Y", display, "-T", "fields", *wanted).stdout
    seen = Counter(tuple(line.split("\t")) for line in out.splitlines())
    return [number for number, times in seen.items() if times > 1], seen


def session(rig, kind, display, *fields):
    pcap = rig.path(f"{kind}.pcap")
    dump = subprocess.Popen(
        rig.inside("gb", "tcpdump", "-U", "-n", "-i", "wan", "-Q", "inout", "-B", 65536, "-w", pcap),
        stderr=subprocess.DEVNULL)
    rig.processes.append(dump)
    time.sleep(1)
    nodes = {name: rig.start(name) for name in ("ga", "gb")}
    rig.ping(where="ha")
    first = len(rig.processes)
    traffic(rig)
    kill_and_restart(rig, nodes, KILLS)
    time.sleep(0.5)
    for ping in rig.processes[first:first + 2]:
        ping.terminate()
        ping.wait()
    # Still a tunnel after all that.
    rig.ping(count=3, check=False)
    rig.ping(count=3)
    for node in nodes.values():
        node.terminate()
        assert node.wait(timeout=5) == 0
    dump.terminate()
    dump.wait()
    twice, seen = numbers_twice(pcap, display, *fields)
    assert not twice, f"{kind}: used twice: {twice[:10]}"
    ways = Counter(key[0] for key in seen)
    assert len(ways) == 2 and min(ways.values()) > 1000, f"{kind}: too little traffic: {ways}"
    print(f"{kind}: {KILLS} times killed, {dict(ways)} numbers, none twice")


with Rig() as rig:
    rig.gateways()
    os.environ["FERRULE_LOG"] = "quiet"
    session(rig, "esp", "esp", "esp.spi", "esp.sequence")
sys.exit(0)
