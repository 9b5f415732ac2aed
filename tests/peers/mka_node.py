#!/usr/bin/env python3
# time-limit: 280
"""A Ferrule node keyed by MKA opposite wpa_supplicant, over the MACsec of a Linux kernel: each as
key server, CAKs of 128 and 256 bits, ten rekeys under traffic with no packet lost, recovery after
either side is killed, a CAK and a CKN that are wrong, and nothing in clear at any time."""
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peernode import CPU, Bench, Check, Lab, Node, ethertype, need, ports, signals_exit  # noqa: E402
from supplicant import CAK, CKN, LONG, Supplicant  # noqa: E402

OTHER = "ff112233445566778899aabbccddeeff"
GUEST = "02:00:00:00:00:01/1"
MACSEC, EAPOL = 0x88e5, 0x888e

need()
signals_exit()


class Peer(Supplicant):
    """With an address behind its SecY."""

    def begin(self, *args, **more):
        super().begin(*args, **more)
        self.guest.sh("""for n in $(seq 100); do ip link show macsec0 >/dev/null 2>&1 && break
sleep 0.1; done; ip addr add 10.1.0.1/24 dev macsec0; ip link set macsec0 up mtu 1468""")
        self.route()

    def route(self):
        """The supplicant takes its interface down when it loses a peer, and routes with it."""
        self.guest.sh("ip route replace 10.2.0.0/24 via 10.1.0.2")

    def kill(self):
        self.guest.sh("killall -q -9 wpa_supplicant; sleep 0.2; ip link del macsec0; true")


def text(priority, ckn=CKN, more=""):
    return ports(wan_mtu=1532) + f"""
[[macsec]]
port = "wan"
sci = "02:00:00:00:00:02/1"
mka = {{ priority = {priority}, {more}cak = [{{ ckn = "{ckn}", key = "cak" }}] }}
[[interface]]
port = "wan"
mtu = 1468
address = ["10.1.0.2/24"]
[[interface]]
port = "lan"
address = ["10.2.0.1/24"]
"""


def begin(bench, *args, cak=CAK, **more):
    return Node(bench.lab, text(*args, **more), {"cak": {"cak": cak}})


def until(node, seconds, holds):
    """The port's state once something holds, and after how long; at the end as it is."""
    start = time.monotonic()
    while True:
        (port,) = node.show("mka")
        passed = time.monotonic() - start
        if holds(port) or passed > seconds:
            return port, passed
        time.sleep(0.2)


def is_secured(port):
    return port["state"] == "secured" and port["trouble"] is None


def secured(check, node, what, seconds=20):
    port, passed = until(node, seconds, is_secured)
    check.that(is_secured(port), f"{what}: secured after {passed:.1f} s: {port}")
    return port


def only_protected(check, bench):
    """Nothing but MACsec and EAPOL is on the wire."""
    for frames, who in zip(bench.wire.take(), ("Linux", "Ferrule")):
        kinds = {ethertype(f) for f in frames}
        check.that(kinds <= {MACSEC, EAPOL}, f"{who}: in clear: {[hex(k) for k in kinds]}")


def under_traffic(bench, what):
    """What the hosts' pings of both sides lost while something went on."""
    end = bench.lab.dir / "end"
    end.unlink(missing_ok=True)
    got = {}
    pings = threading.Thread(target=lambda: got.update(host=bench.host_ping(
        "10.1.0.1", "0-1400/7", "--every 0.004", f"--until {end}")))
    pings.start()
    what()
    end.touch()
    pings.join()
    return got.get("host", {"sent": 0, "lost": []})


def agree(check, bench, peer, ours, theirs, cak):
    """Both come up, one as key server, and pings pass."""
    check.case(f"priority {ours} here, {theirs} there, CAK of {4 * len(cak)} bits")
    node = begin(bench, ours, cak=cak)
    peer.begin(theirs, cak=cak)
    port = secured(check, node, "both")
    own = ours < theirs
    check.equal(port["server"] == GUEST, not own, "key server")
    bench.wire.take()
    host, guest = bench.both_pings(("10.1.0.1", "0-1440/37"), ("10.2.0.2", "0-1440/37"))
    check.pings(host, "host behind Ferrule to Linux")
    check.pings(guest, "Linux to the host behind Ferrule")
    only_protected(check, bench)
    return node


def rekeys(check, bench, peer):
    check.case("ten rekeys under traffic")
    node = begin(bench, 1, more="rekey = 10, ")
    peer.begin(200)
    secured(check, node, "both")
    bench.host_ping("10.1.0.1", "8")
    key = node.show("mka")[0]["saks"][0]["key"]

    def ten():
        until(node, 130, lambda port: number(port["saks"][0]["key"]) >= number(key) + 10)
    result = under_traffic(bench, ten)
    port = node.show("mka")[0]
    check.that(number(port["saks"][0]["key"]) >= number(key) + 10, f"ten: {port['saks']}")
    check.pings(result, "across ten rekeys")
    check.equal({r: n for r, n in node.drops().items() if r.startswith(("macsec", "mka"))
                 and r != "macsec-no-tx-sa"}, {}, "nothing refused")
    only_protected(check, bench)
    return node


def number(key):
    """The key number of a key identifier, behind the member identifier."""
    return int(key[24:], 16)


def recovery(check, bench, peer, node):
    check.case("wpa_supplicant is killed")
    peer.kill()
    port, _ = until(node, 10, lambda port: not port["peers"])
    check.equal((port["state"], port["peers"]), ("blocked", []), "its absence is noticed")
    check.that(port["trouble"] is not None, str(port))
    peer.begin(200)
    secured(check, node, "again")
    check.pings(bench.host_ping("10.1.0.1", "8"), "pings pass")
    check.case("Ferrule is killed")
    os.kill(node.p.pid, signal.SIGKILL)
    node = begin(bench, 1)
    secured(check, node, "again")
    peer.route()
    check.pings(bench.host_ping("10.1.0.1", "8"), "pings pass")
    only_protected(check, bench)
    node.stop()


def wrong(check, bench, peer):
    for what, args, said in (
            ("another CAK", {"cak": OTHER}, "another CAK by the same CKN"),
            ("another CKN", {"ckn": "99"}, "another CKN")):
        check.case(what)
        peer.begin(16)
        node = begin(bench, 200, **args)
        port, _ = until(node, 6, lambda port: said in (port["trouble"] or ""))
        check.that(said in (port["trouble"] or ""), f"in words: {port}")
        check.silent(bench.host_ping("10.1.0.1", "8", "--wait 0.3 --cold"), "nothing passes")
        only_protected(check, bench)
        node.stop()


def main():
    check = Check()
    with Lab(cpu=CPU) as lab:
        bench = Bench(lab, "macsec", addresses=("10.2.0.2/24",))
        lab.ip("link", "set", "dev", "ga", "mtu", "1600")
        bench.guest.sh("ip link set dev vec0 mtu 1500; ip addr flush dev vec0; "
                       "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1")
        lab.sh("ip route replace 10.1.0.0/24 via 10.2.0.1")
        lab.sh("sysctl -q -w net.ipv6.conf.fl.disable_ipv6=1")
        peer = Peer(bench.guest)
        bench.wire.take()
        # (This supplicant takes a SAK of 256 bits, but its driver makes no SecY for it.)
        for ours, theirs, cak in ((200, 16, CAK), (1, 16, CAK), (200, 16, LONG), (1, 16, LONG)):
            agree(check, bench, peer, ours, theirs, cak).stop()
        recovery(check, bench, peer, rekeys(check, bench, peer))
        wrong(check, bench, peer)
        peer.end()
    check.done()


main()
