#!/usr/bin/env python3
# time-limit: 120
"""A node that is told to stop lets go of everything, keeps its counters
exactly, and exits 0: by SIGTERM, by SIGINT and by `ferrule stop`."""
import os
import signal
import subprocess
import sys

from rig import Rig, eventually, need

need("ip", "ping")
with Rig() as rig:
    rig.gateways()
    other = rig.start("gb")
    expected = None
    for way in ("SIGTERM", "SIGINT", "stop"):
        node = rig.start("ga")
        sa = next(s for s in rig.show("ga")["sas"] if s["way"] == "out")
        if expected is not None:
            assert sa["number"] == expected, f"{way}: {sa['number']} after {expected}"
        rig.ping(count=5)
        expected = next(s for s in rig.show("ga")["sas"] if s["way"] == "out")["number"]
        assert expected >= 6, expected
        if way == "stop":
            rig.do("ga", rig.ferrule, "stop", "--node", rig.path("ga.toml"))
        else:
            node.send_signal(getattr(signal, way))
        assert node.wait(timeout=5) == 0, open(node.log).read()
        assert not os.path.exists(rig.socket("ga")), "the socket is still there"
        print(f"{way}: exit 0, next number {expected}")
    # Under traffic, too.
    node = rig.start("ga")
    flood = subprocess.Popen(rig.inside("ha", "ping", "-q", "-f", "-w", "2", "10.0.2.2"),
                             stdout=subprocess.DEVNULL)
    eventually("traffic", lambda: rig.show("ga")["ports"][0]["rx_packets"] > 100)
    node.terminate()
    assert node.wait(timeout=5) == 0, open(node.log).read()
    flood.wait()
    print("under a flood: exit 0")
    report = rig.show("gb")
    ledger = report["ledger"]
    left = ledger["received"] + ledger["made"]
    right = sum(ledger[k] for k in ("sent", "consumed", "dropped", "held"))
    assert left == right, ledger
sys.exit(0)
