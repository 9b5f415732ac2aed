#!/usr/bin/env python3
# time-limit: 120
"""AF_XDP with a queue of each port for each of two workers, and an SA for each worker.

The kernel spreads flows over the queues of a veth, which are told apart in native mode
alone; a worker sends by its own queue, whose frames come to the queue of the same number at
the other gateway. So nothing is handed
over, both workers are busy, and order is kept within each flow, both ways at once.
"""
import re
import sys

from flows import EACH, FLOWS, begin
from rig import Rig, need


def several(rig):
    """Every port is every worker's, and the tunnel has two SAs each way."""
    for way in ("ga-to-gb", "gb-to-ga"):
        rig.do("ga", rig.ferrule, "init", "key", "aes-gcm-128", rig.path(f"{way}.2.key"))
    for name, other in (("ga", "gb"), ("gb", "ga")):
        with open(rig.path(f"{name}.toml")) as file:
            text = file.read()
        text = text.replace('driver = "af-xdp"', 'driver = "af-xdp"\nmode = "native"\nevery-worker = true')
        out, inn = (int(spi, 16) for spi in re.findall(r"^spi = (0x[0-9a-f]+)", text, re.M))
        more = (f'also-out = [{{ spi = {out ^ 1}, key = "{name}-to-{other}.2.key" }}]\n'
                f'also-in = [{{ spi = {inn ^ 1}, key = "{other}-to-{name}.2.key" }}]\n')
        rig.write(f"{name}.toml", text.replace("[tunnel.out]", more + "[tunnel.out]"))
        rig.do(name, rig.ferrule, "state", "create", rig.path(f"{name}.toml"))


need("ip", "ping")
with Rig(queues=2) as rig:
    rig.gateways(driver="af-xdp", node="workers = 2\n")
    several(rig)
    nodes = [rig.start("ga"), rig.start("gb")]
    rig.ping()
    before = [rig.show(name) for name in ("ga", "gb")]
    ends = [begin(rig), begin(rig, "hb", "ha", "10.0.1.2")]
    got = [end() for end in ends]
    for name, old in zip(("ga", "gb"), before):
        new = rig.show(name)
        shares = [{key: b[key] - a[key] for key in ("sealed", "opened", "handed_out")}
                  for a, b in zip(old["shares"], new["shares"])]
        assert len(shares) == 2, shares
        for share in shares:
            assert min(share["sealed"], share["opened"]) >= EACH, f"{name}: {shares}"
            # Neighbours' messages go to the control part.
            assert share["handed_out"] < 50, f"{name}: {shares}"
        ledger = new["ledger"]
        assert ledger["received"] + ledger["made"] == sum(
            ledger[k] for k in ("sent", "consumed", "dropped", "held")), ledger
        lost = {r: n for r, n in rig.drops(name).items() if r.startswith(("esp", "handoff"))}
        assert not lost, lost
        print(f"{name}: workers did {shares}")
    for node in nodes:
        node.terminate()
        assert node.wait(timeout=5) == 0
    print(f"{got} packets of {FLOWS} flows each way in order")
sys.exit(0)
