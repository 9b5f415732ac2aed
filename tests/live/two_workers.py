#!/usr/bin/env python3
# time-limit: 120
"""Two workers share the traffic of one live node, and order is kept within
each flow."""
import subprocess
import sys

from rig import Rig, need

FLOWS, EACH = 16, 1500

SINK = """
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
s.bind(("", 7000)); s.settimeout(3)
print("ready", flush=True)
last, got, late = {}, 0, 0
try:
    while got < int(sys.argv[1]):
        data, peer = s.recvfrom(2000)
        number = struct.unpack("!I", data[:4])[0]
        late += number <= last.get(peer, -1)
        last[peer] = number; got += 1
except socket.timeout:
    pass
print(len(last), got, late)
"""

SOURCE = """
import socket, struct, sys, time
flows, each = int(sys.argv[1]), int(sys.argv[2])
socks = []
for i in range(flows):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", 6000 + i)); s.connect((sys.argv[3], 7000)); socks.append(s)
for n in range(each):
    for s in socks:
        s.send(struct.pack("!I", n) + bytes(200))
    time.sleep(0.001)
"""

need("ip", "ping")
with Rig() as rig:
    for driver in ("af-packet", "af-xdp"):
        rig.gateways(driver=driver, node="workers = 2\n")
        nodes = [rig.start("ga"), rig.start("gb")]
        rig.ping()
        before = rig.show("ga")
        sink = subprocess.Popen(rig.inside("hb", sys.executable, "-c", SINK, FLOWS * EACH),
                                stdout=subprocess.PIPE, text=True)
        assert sink.stdout.readline() == "ready\n"
        rig.do("ha", sys.executable, "-c", SOURCE, FLOWS, EACH, "10.0.2.2")
        flows, got, late = map(int, sink.communicate(timeout=60)[0].split())
        after = rig.show("ga")
        assert (flows, late) == (FLOWS, 0), f"{driver}: {late} of {got} out of order"
        assert got >= 0.9 * FLOWS * EACH, f"{driver}: {got} of {FLOWS * EACH} arrived"
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
