#!/usr/bin/env python3
# time-limit: 120
"""A node runs on AF_XDP, AF_PACKET, TAP and TUN, with frames from the smallest
to the largest, and no frame is lost or cut."""
import sys

from rig import Rig, eventually, need

need("ip", "ping")

HOST_STACK = """
[node]
name = "ga"
control = "ga.socket"
[[port]]
name = "tap"
driver = "tap"
device = "tap0"
[[port]]
name = "tun"
driver = "tun"
device = "tun0"
[[interface]]
port = "tap"
address = ["10.1.0.1/24"]
[[interface]]
port = "tun"
address = ["10.2.0.1/24"]
"""

with Rig() as rig:
    for driver in ("af-xdp", "af-packet"):
        rig.gateways(driver=driver)
        nodes = [rig.start("ga"), rig.start("gb")]
        rig.ping()
        for size in (0, 1, 55, 56, 500, 1400, 1418):
            assert rig.ping(size=size, count=2) == 2
        assert all(p["up"] for p in rig.show("ga")["ports"])
        for node in nodes:
            node.terminate()
            assert node.wait(timeout=5) == 0
        print(f"{driver}: pings of 0 to 1418 octets")

    # Between two host stacks: a TAP given to one host, a TUN to the other.
    rig.write("ga.toml", HOST_STACK)
    node = rig.start("ga")
    for host, dev, address, other in (("ha", "tap0", "10.1.0.2/24", "10.2.0.0/24"),
                                      ("hb", "tun0", "10.2.0.2/24", "10.1.0.0/24")):
        rig.do("ga", "ip", "link", "set", dev, "netns", rig.ns(host))
        rig.do(host, "ip", "addr", "add", address, "dev", dev)
        rig.do(host, "ip", "link", "set", dev, "up")
        via = ["via", address.rsplit(".", 1)[0] + ".1"] if dev == "tap0" else []
        rig.do(host, "ip", "route", "add", other, *via, "dev", dev)
    eventually("the first ping", lambda: rig.ping(count=1, to="10.2.0.2", check=False) == 1)
    for size in (0, 1, 56, 1472):
        assert rig.ping(size=size, count=2, to="10.2.0.2") == 2
    node.terminate()
    assert node.wait(timeout=5) == 0
    print("tap, tun: pings of 0 to 1472 octets")
sys.exit(0)
