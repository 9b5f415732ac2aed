#!/usr/bin/env python3
# time-limit: 120
"""Two workers share the traffic of one live node, and order is kept within
each flow."""
import sys

from flows import EACH, FLOWS, begin
from rig import Rig, need

need("ip", "ping")
with Rig() as rig:
    for driver in ("af-packet", "af-xdp"):
        rig.gateways(driver=driver, node="workers = 2\n")
        nodes = [rig.start("ga"), rig.start("gb")]
        rig.ping()
        before = rig.show("ga")
        got = begin(rig)()
        after = rig.show("ga")
        shares = [b["lookups"] - a["lookups"] for a, b in zip(before["shares"], after["shares"])]
        assert len(shares) == 2 and min(shares) > FLOWS * EACH / 10, f"{driver}: {shares}"
        ledger = after["ledger"]
        assert ledger["received"] + ledger["made"] == sum(
            ledger[k] for k in ("sent", "consumed", "dropped", "held")), ledger
        for node in nodes:
            node.terminate()
            assert node.wait(timeout=5) == 0
        print(f"{driver}: {got} packets of {FLOWS} flows in order; workers did {shares}")
sys.exit(0)
