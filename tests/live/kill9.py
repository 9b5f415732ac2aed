#!/usr/bin/env python3
# time-limit: 280
"""`kill -9` of a node with static keys, 50 times in a row under traffic, also
during the write of its counters: judged from a capture of the wire, both
directions, no number is used twice under one key."""
import random
import subprocess
import sys
import time
from collections import Counter

from rig import Rig, need, run

KILLS = 50
need("ip", "ping", "tshark", "tcpdump")
random.seed(9)


def traffic(rig, a_pings, b_pings):
    """A small flood from each side, whatever happens in between."""
    for where, to in (("ha", a_pings), ("hb", b_pings)):
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


def numbers(pcap, display, *fields):
    """How often each number is on the wire."""
    wanted = [f for field in fields for f in ("-e", field)]
    out = run("tshark", "-r", pcap, "-Y", display, "-T", "fields", *wanted).stdout
    return Counter(tuple(line.split("\t")) for line in out.splitlines())


def session(rig, kind, display, a_pings, b_pings, *fields):
    """`fields`: what names the key, then the number."""
    dumps = {}
    for name in ("ga", "gb"):
        # What arrives at each end of the wire: a node may send around what
        # tcpdump sees at its own end.
        pcap = rig.path(f"{kind}-{name}.pcap")
        dumps[pcap] = subprocess.Popen(
            rig.inside(name, "tcpdump", "-U", "-n", "-i", "wan", "-Q", "in", "-B", 65536,
                       "-w", pcap),
            stderr=subprocess.DEVNULL)
        rig.processes.append(dumps[pcap])
    time.sleep(1)
    nodes = {name: rig.start(name) for name in ("ga", "gb")}
    rig.ping(to=a_pings)
    first = len(rig.processes)
    traffic(rig, a_pings, b_pings)
    kill_and_restart(rig, nodes, KILLS)
    time.sleep(0.5)
    for ping in rig.processes[first:first + 2]:
        ping.terminate()
        ping.wait()
    # Still a tunnel after all that.
    rig.ping(count=3, check=False, to=a_pings)
    rig.ping(count=3, to=a_pings)
    for node in nodes.values():
        node.terminate()
        assert node.wait(timeout=5) == 0
    for pcap, dump in dumps.items():
        dump.terminate()
        dump.wait()
        seen = numbers(pcap, display, *fields)
        twice = [number for number, times in seen.items() if times > 1]
        assert not twice, f"{kind}, {pcap}: used twice: {twice[:10]}"
        assert len(seen) > 1000, f"{kind}, {pcap}: too little traffic: {len(seen)}"
        keys = {key[:-1] for key in seen}
        print(f"{kind}: {KILLS} kills, {len(seen)} numbers of {len(keys)} key(s), none twice")


with Rig() as rig:
    rig.gateways()
    session(rig, "ESP", "esp", "10.0.2.2", "10.0.1.2", "esp.spi", "esp.sequence")
with Rig() as rig:
    rig.edges()
    session(rig, "MACsec", "macsec", "10.5.0.2", "10.5.0.1",
            "macsec.SCI.system_identifier", "macsec.AN", "macsec.PN")
sys.exit(0)
