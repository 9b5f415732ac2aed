#!/usr/bin/env python3
# time-limit: 280
"""Three stations of one LAN keyed by MKA: three Ferrule nodes; two, and wpa_supplicant over the
MACsec of a Linux kernel, each as key server. Traffic among all, rekeys meanwhile, one that is
killed and comes back while the others go on, and nothing in clear."""
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peernode import CPU, Bench, Check, Lab, Node, Wire, ethertype, need, signals_exit  # noqa: E402
from supplicant import CAK, CKN, Supplicant  # noqa: E402

MACSEC, EAPOL = 0x88e5, 0x888e
GUEST = 1


def address(station):
    return f"10.1.0.{station}"


class Peer(Supplicant):
    """With an address behind its SecY."""

    def begin(self, *args, **more):
        super().begin(*args, **more)
        self.guest.sh("""for n in $(seq 100); do ip link show macsec0 >/dev/null 2>&1 && break
sleep 0.1; done; ip addr add 10.1.0.1/24 dev macsec0; ip link set macsec0 up mtu 1468""")

    def kill(self):
        self.guest.sh("killall -q -9 wpa_supplicant; sleep 0.2; ip link del macsec0; true")


def text(station, priority, more=""):
    """The station's configuration; the second is a router for a host, too."""
    lan = "" if station != 2 else """
[[port]]
name = "lan"
driver = "tap"
device = "fl"
mac = "02:00:00:00:00:0a"
[[interface]]
port = "lan"
address = ["10.2.0.1/24"]
"""
    route = "" if station == 2 else """
[[route]]
prefix = "10.2.0.0/24"
via = "10.1.0.2"
"""
    return f"""
[[port]]
name = "wan"
driver = "tap"
device = "fw{station}"
mac = "02:00:00:00:00:0{station}"
mtu = 1532
[[macsec]]
port = "wan"
sci = "02:00:00:00:00:0{station}/1"
mka = {{ priority = {priority}, {more}cak = [{{ ckn = "{CKN}", key = "cak" }}] }}
[[interface]]
port = "wan"
mtu = 1468
address = ["{address(station)}/24"]
{lan}{route}"""


class Group:
    """The stations of one LAN."""

    def __init__(self, check, bench):
        self.check, self.bench, self.nodes = check, bench, {}
        self.wires = [Wire(bench.lab, f"fw{station}") for station in (2, 3, 4)]

    def begin(self, station, priority, more=""):
        node = Node(self.bench.lab, text(station, priority, more), {"cak": {"cak": CAK}})
        self.nodes[station] = node

    def end(self):
        for node in self.nodes.values():
            node.stop()
        self.nodes = {}

    def kill(self, station):
        os.kill(self.nodes.pop(station).p.pid, signal.SIGKILL)

    def ports(self):
        return [node.show("mka")[0] for node in self.nodes.values()]

    def until(self, seconds, holds):
        """Their ports once something holds, and after how long; at the end as they are."""
        start = time.monotonic()
        while True:
            ports = self.ports()
            passed = time.monotonic() - start
            if holds(ports) or passed > seconds:
                return ports, passed
            time.sleep(0.2)

    def secured(self, what, peers=2, seconds=25):
        def holds(ports):
            return all(p["state"] == "secured" and p["trouble"] is None
                       and len(p["peers"]) == peers for p in ports) and len(self.keys(ports)) == 1
        ports, passed = self.until(seconds, holds)
        self.check.that(holds(ports), f"{what}: all by one SAK after {passed:.1f} s: {ports}")

    @staticmethod
    def keys(ports):
        return {p["saks"][0]["key"] if p["saks"] else None for p in ports}

    def traffic(self, *to, guest=()):
        """Pings of the host behind station 2, and of the guest."""
        if guest:
            # The supplicant takes its interface down, and routes with it.
            self.bench.guest.sh("ip route replace 10.2.0.0/24 via 10.1.0.2")
        for station in to:
            self.check.pings(self.bench.host_ping(address(station), "0-1440/97"),
                             f"station 2 to {station}")
        for station in guest:
            self.check.pings(self.bench.guest_ping(address(station), "0-1440/97"),
                             f"Linux to {station}")

    def under_traffic(self, station, what):
        """Pings to a station while something goes on: none is lost."""
        end = self.bench.lab.dir / "end"
        end.unlink(missing_ok=True)
        got = {}
        pings = threading.Thread(target=lambda: got.update(self.bench.host_ping(
            address(station), "0-1400/7", "--every 0.01", f"--until {end}")))
        pings.start()
        what()
        end.touch()
        pings.join()
        self.check.pings(got or {"sent": 0, "lost": []}, f"station 2 to {station} meanwhile")

    def only_protected(self):
        for wire in self.wires:
            for frames in wire.take():
                kinds = {ethertype(f) for f in frames}
                self.check.that(kinds <= {MACSEC, EAPOL}, f"{wire.tap}: in clear: {kinds}")

    def rekeys(self, station, times):
        """New SAKs, which all take, and no packet is lost."""
        def so_many():
            seen = set()
            until = time.monotonic() + 25 * times
            while len(seen) <= times and time.monotonic() < until:
                seen |= self.keys(self.ports()) - {None}
                time.sleep(0.2)
            self.check.that(len(seen) > times, f"{times} new SAKs: {seen}")
        self.under_traffic(station, so_many)
        self.secured("after rekeys")


def ferrules(check, group):
    check.case("three Ferrule nodes")
    for station, priority in ((2, 10), (3, 20), (4, 30)):
        group.begin(station, priority, "rekey = 10, ")
    group.secured("three")
    group.traffic(3, 4)
    check.case("three Ferrule nodes, rekeys")
    group.rekeys(3, 2)
    check.case("three Ferrule nodes, one is killed and comes back")

    def killed():
        group.kill(4)
        group.secured("two", peers=1)
        group.begin(4, 30, "rekey = 10, ")
        group.secured("three again")
    group.under_traffic(3, killed)
    group.traffic(3, 4)
    check.case("three Ferrule nodes, the key server is killed and comes back")
    group.kill(2)
    group.secured("two", peers=1)
    group.begin(2, 10, "rekey = 10, ")
    # One SAK for both of the others, at once: less than the 6 s until there is another.
    group.secured("three again", seconds=5)
    group.traffic(3, 4)
    check.case("three Ferrule nodes, other parameters by apply")

    def applied():
        for more in ("rekey = 600, ", "rekey = 600, delay-protect = true, ",
                     "should-secure = true, "):
            for station, priority in ((2, 10), (3, 20)):
                group.nodes[station].apply(text(station, priority, more))
                time.sleep(0.5)
        stronger = text(2, 10).replace("[[macsec]]", "[[macsec]]\ncipher = \"gcm-aes-256\"")
        group.nodes[2].apply(stronger)
        time.sleep(2)
    group.under_traffic(3, applied)
    group.secured("three under other parameters")
    group.only_protected()
    group.end()


def with_linux(check, group, peer, theirs):
    who = "wpa_supplicant" if theirs < 10 else "Ferrule"
    check.case(f"two Ferrule nodes and Linux, {who} is key server")
    for station, priority in ((2, 10), (3, 20)):
        group.begin(station, priority, "rekey = 10, ")
    peer.begin(theirs)
    group.secured("three")
    group.traffic(GUEST, 3, guest=(2, 3))
    if theirs > 10:
        check.case("two Ferrule nodes and Linux, rekeys")
        group.rekeys(GUEST, 2)
    check.case(f"two Ferrule nodes and Linux, {who} is key server, a node is killed and comes back")
    group.kill(3)
    group.secured("two", peers=1)
    # A key server of wpa_supplicant makes no SAK within 6 s of its last one, nor afterwards for
    # who joined meanwhile.
    time.sleep(7 if theirs < 10 else 0)
    group.begin(3, 20, "rekey = 10, ")
    group.secured("three again")
    group.traffic(GUEST, 3, guest=(2, 3))
    check.case(f"two Ferrule nodes and Linux, {who} is key server, the latter is killed")

    def killed():
        peer.kill()
        group.secured("two", peers=1)
        peer.begin(theirs)
        group.secured("three again")
    group.under_traffic(3, killed)
    group.traffic(GUEST, 3, guest=(2, 3))
    group.only_protected()
    group.end()
    peer.end()


def main():
    need()
    signals_exit()
    check = Check()
    with Lab(cpu=CPU) as lab:
        bench = Bench(lab, "macsec", addresses=("10.2.0.2/24",))
        for station in (2, 3, 4):
            lab.tap(f"fw{station}", bridge="wire", mtu=1532)
        bench.guest.sh("ip link set dev vec0 mtu 1500; ip addr flush dev vec0; "
                       "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1")
        lab.ip("link", "set", "dev", "ga", "mtu", "1600")
        lab.sh("ip route replace 10.1.0.0/24 via 10.2.0.1")
        lab.sh("sysctl -q -w net.ipv6.conf.fl.disable_ipv6=1")
        only = sys.argv[1] if len(sys.argv) > 1 else ""
        group, peer = Group(check, bench), Peer(bench.guest)
        if only in ("", "ferrule"):
            ferrules(check, group)
        for theirs in (200, 1):
            if only in ("", "linux"):
                with_linux(check, group, peer, theirs)
    check.done()


if __name__ == "__main__":
    main()
