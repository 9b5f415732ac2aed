#!/usr/bin/env python3
# time-limit: 120
"""SAs with lifetimes between two gateways: each bound is told of once, the hard one ends
traffic and lets nothing out in clear, `ferrule rekey` goes on with the same bounds, and a node
that was killed goes on where its counters stand."""
import json
import re
import signal

from rig import Rig, eventually, need, run

need("ip", "ping")


def life(rig, name, way):
    sas = json.loads(rig.ask(name, "show", "sa", "--json").stdout)
    sas = sas["sas"] if isinstance(sas, dict) else sas
    return next(sa["life"] for sa in sas if sa["way"] == way)


def told(rig, name):
    with open(rig.path(f"{name}.log")) as log:
        lines = re.sub(r"\x1b\[[0-9;]*m", "", log.read()).splitlines()
    found = (re.search(r"(sa-expire[sd]) .*way=\"(\w+)\".*cause=(\w+)", line) for line in lines)
    return [match.groups() for match in found if match]


with Rig() as rig:
    rig.gateways()
    bound = ("\\1soft-lifetime = { packets = 100, seconds = 50 }\n"
             "hard-lifetime = { packets = 200, seconds = 60 }\n")
    rig.change("ga", r"(\[tunnel\.out\]\n)", bound)
    ga = rig.start("ga")
    rig.start("gb")
    rig.ping()
    assert rig.ping(count=90, interval=0.002) == 90
    before = life(rig, "ga", "out")
    assert before["state"] == "lives" and 93 <= before["packets"]["used"] < 100, before
    assert rig.ping(count=60, interval=0.002) == 60
    eventually("the soft bound is told of", lambda: told(rig, "ga"))
    assert told(rig, "ga") == [("sa-expires", "out", "packets")], told(rig, "ga")
    print("soft bound: told of once, traffic goes on")

    rig.ping(count=100, interval=0.002, check=False, wait=1)
    over = life(rig, "ga", "out")
    assert over["state"] == "over" and over["packets"]["used"] == 200, over
    text = rig.ask("ga", "show", "sa").stdout
    assert re.search(r"over\s+packets\s+200\s+0\s+100\s+200", text), text
    drops = rig.ask("ga", "show", "drops").stdout
    assert "sa-expired" in drops, drops
    eventually("the hard bound is told of", lambda: len(told(rig, "ga")) == 2)
    assert told(rig, "ga")[1] == ("sa-expired", "out", "packets"), told(rig, "ga")
    assert rig.ping(count=2, check=False, wait=1) == 0
    print("hard bound: 200 packets, told of once, nothing more")

    ga.send_signal(signal.SIGKILL)
    ga.wait()
    rig.start("ga")
    assert rig.ping(count=2, check=False, wait=1) == 0
    assert life(rig, "ga", "out")["state"] == "over", life(rig, "ga", "out")
    print("killed and started again: over as before")

    ends = [rig.path("ga.toml"), rig.path("gb.toml")]
    run(rig.ferrule, "rekey", *ends, "--apply", "--silent", "1")
    rig.ping()
    fresh = life(rig, "ga", "out")
    assert fresh["state"] == "lives" and fresh["packets"]["hard"] == 200, fresh
    print("another key: a life of its own, with the same bounds")
