#!/usr/bin/env python3
# time-limit: 180
"""MPLS between Linux kernels and a Ferrule node, over TAPs.

    host ── fl [ Ferrule ] f0 ── w1 ── p0 [ Linux p ] p1 ── w2 ── h0 [ Linux h ] 10.9.0.1
               PE of an L3VPN              P: swap, PHP             PE of the L3VPN

    10.8.0.1 [ Linux p ] p0 ── w1 ── f0 [ Ferrule ] f1 ── w2 ── h0 [ Linux h ] 10.9.0.1
               PE                        P: swap, PHP               PE

IPv4 and IPv6, from both sides, every size to the largest that two labels leave
room for; label stacks, bottom bits and TTLs are read from the wire. Entropy
labels pass Linux and end here; of two paths each flow has one, and all have the
one that answers. What ends within a path is told: `traceroute -e` reads the
labels that Ferrule saw.
"""
import json
import os
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peernode import (  # noqa: E402
    CPU, PINGER, TOP, Check, Lab, Node, Wire, ethertype, need, signals_exit)

MPLS = 0x8847
SOME4, SOME6 = "0-50,57-1430/19,1440-1464", "0-50,57-1410/19,1420-1444"

PORTS = """
[[port]]
name = "core"
driver = "tap"
device = "f0"
mac = "02:00:00:00:01:01"
[[interface]]
port = "core"
address = ["10.0.1.2/24", "fd51::2/64"]
mpls = true
"""

PE = PORTS + """
[[port]]
name = "lan"
driver = "tap"
device = "fl"
mac = "02:00:00:00:01:03"
[[interface]]
port = "lan"
vrf = "red"
address = ["10.2.0.1/24", "fd02::1/64"]
[[route]]
vrf = "red"
prefix = "10.9.0.0/24"
via = "10.0.1.1"
labels = [100, 200]
ttl = "{ttl}"
[[route]]
vrf = "red"
prefix = "fd09::/64"
via = "fd51::1"
labels = [100, 200]
ttl = "{ttl}"
[[label]]
label = 300
vrf = "red"
ttl = "{ttl}"
"""

P = PORTS + """
[[port]]
name = "far"
driver = "tap"
device = "f1"
mac = "02:00:00:00:01:02"
[[interface]]
port = "far"
address = ["10.0.2.1/24", "fd52::1/64"]
mpls = true
[[label]]
label = 500
{a}
via = "10.0.2.2"
[[label]]
label = 600
{b}
via = "10.0.1.1"
"""

LINUX = """set -e
for m in ipv6 mpls_router mpls_iptunnel dummy; do modprobe $m; done
sysctl -q -w net.mpls.platform_labels=1000 net.mpls.conf.lo.input=1
sysctl -q -w net.ipv6.conf.default.accept_dad=0 net.ipv4.conf.all.rp_filter=0
ip link add d0 type dummy; ip link set d0 up
for i in %s; do ip link set $i up; sysctl -q -w net.mpls.conf.$i.input=1; done
"""


class Net:
    """Two guests, two segments, a host, and a node in the middle."""

    def __init__(self, lab):
        self.lab = lab
        for name in ("w1", "w2"):
            lab.bridge(name)
        lab.tap("p0", bridge="w1", mac="02:00:00:00:00:11")
        lab.tap("p1", bridge="w2", mac="02:00:00:00:00:12")
        lab.tap("h0", bridge="w2", mac="02:00:00:00:00:21")
        self.p = lab.guest("p", taps=["p0", "p1"], src=TOP, timeout=115)
        self.h = lab.guest("h", taps=["h0"], src=TOP, timeout=115)
        lab.tap("f0", bridge="w1")
        lab.tap("f1", bridge="w2")
        lab.tap("fl")
        lab.sh("echo 0 >/proc/sys/net/ipv6/conf/fl/disable_ipv6")
        lab.sh("""set -e
ip addr add 10.2.0.2/24 dev fl; ip -6 addr add fd02::2/64 dev fl nodad
ip route add 10.9.0.0/24 via 10.2.0.1; ip -6 route add fd09::/64 via fd02::1""")
        self.w1, self.w2 = Wire(lab, "f0"), Wire(lab, "h0")
        self.p.sh(LINUX % "vec0 vec1" + """
ip addr add 10.0.1.1/24 dev vec0; ip -6 addr add fd51::1/64 dev vec0 nodad
ip addr add 10.0.2.1/24 dev vec1; ip -6 addr add fd52::1/64 dev vec1 nodad
ip addr add 10.8.0.1/24 dev d0; ip -6 addr add fd08::1/64 dev d0 nodad
""")
        self.h.sh(LINUX % "vec0" + """
ip addr add 10.0.2.2/24 dev vec0; ip -6 addr add fd52::2/64 dev vec0 nodad
ip addr add 10.9.0.1/24 dev d0; ip -6 addr add fd09::1/64 dev d0 nodad
for l in 101 200 104; do ip -f mpls route add $l dev lo; done
ip route add 10.2.0.0/24 encap mpls 102/300 via 10.0.2.1 src 10.9.0.1
ip -6 route add fd02::/64 encap mpls 102/300 via fd52::1 src fd09::1
""")

    def host(self, *words):
        return json.loads(self.lab.sh(f"/usr/bin/python3 {TOP / PINGER} {' '.join(words)}"))

    def both(self, first, second):
        """Two sweeps at once; each a guest or nothing for the host, and its words."""
        got = [{"sent": 0}, {"sent": 0}]

        def one(i, guest, *words):
            got[i] = (json.loads(guest.sh(f"/usr/bin/python3 {PINGER} {' '.join(words)}"))
                      if guest else self.host(*words))
        t = threading.Thread(target=one, args=(0, *first))
        t.start()
        one(1, *second)
        t.join()
        return got


def stack(frame):
    """The labels of a frame: (label, bottom, TTL), and the inner TTL."""
    at, out = 14, []
    while True:
        word = struct.unpack("!I", frame[at:at + 4])[0]
        out.append((word >> 12, word >> 8 & 1, word & 0xff))
        at += 4
        if out[-1][1]:
            break
    return tuple(out), frame[at + 8] if frame[at] >> 4 == 4 else frame[at + 7]


def stacks(frames):
    return {stack(f) for f in frames if ethertype(f) == MPLS}


def clear(frames):
    """Frames with IP that no label covers, between neighbours aside."""
    def link(f):
        return f[20] in (0, 58) and f[14 + 40] in (133, 134, 135, 136, 58)
    return [f[:60].hex() for f in frames
            if ethertype(f) == 0x0800 or ethertype(f) == 0x86dd and not link(f)]


def pings(check, net, first, second, what):
    for sweep, family in ((SOME4, 0), (SOME6, 1)):
        a, b = net.both((first[0], first[1][family], sweep), (second[0], second[1][family], sweep))
        check.pings(a, f"{what}, towards {first[1][family]}")
        check.pings(b, f"{what}, towards {second[1][family]}")


def labels_only(check, frames, want, what):
    have = {tuple((label, bottom) for label, bottom, _ in s) for s, _ in stacks(frames)}
    check.equal(have, want, what)


def edge(check, net):
    """Ferrule is the PE, Linux the P and the other PE."""
    node = Node(net.lab, PE.format(ttl="uniform"))
    ways = ((None, ("10.9.0.1", "fd09::1")), (net.h, ("10.2.0.2", "fd02::2")))
    for name, forward, back in (
            ("swap at Linux P, PHP back", "as 101 via inet 10.0.2.2", "via inet 10.0.1.2"),
            ("PHP at Linux P, explicit null back", "via inet 10.0.2.2", "as 0 via inet 10.0.1.2"),
            ("PHP at Linux P, both ways", "via inet 10.0.2.2", "via inet 10.0.1.2")):
        check.case(f"Ferrule PE, {name}")
        net.p.sh(f"ip -f mpls route replace 100 {forward}; ip -f mpls route replace 102 {back}")
        net.w1.take(), net.w2.take()
        pings(check, net, *ways, name)
        to, of = net.w1.take()
        check.equal(stacks(of), {(((100, 0, 63), (200, 1, 63)), 63)},
                    "Ferrule pushes two labels, TTLs as the packet's")
        null = ((0, 0),) if "null" in name else ()
        labels_only(check, to, {(*null, (300, 1))}, "what Linux P leaves for Ferrule")
        check.equal(clear(to + of), [], "nothing without a label")
        at_h = net.w2.take()[0]
        want = ((101, 0), (200, 1)) if "swap" in name else ((200, 1),)
        labels_only(check, at_h, {want}, "what Linux P makes of it")
        lengths = {len(f) for f in of if ethertype(f) == MPLS}
        check.equal(max(lengths), 1514, "the largest frame")
    check.case("Ferrule PE, too big, TTL, unknown label")
    result = net.host("10.9.0.1", "1465", "--df", "--cold", "--wait 0.2")
    check.silent(result, "one octet more than two labels leave")
    check.that("mtu 1492" in net.lab.sh("ip route get 10.9.0.1"), "the host learned the MTU")
    frame = next(f for f in to if ethertype(f) == MPLS and f[18] == 0x45)
    before = node.drops()
    for _ in range(20):
        net.w1.send(frame[:14] + struct.pack("!I", 999 << 12 | 0x1ff) + frame[18:])
    check.equal(node.dropped("no-label") - before.get("no-label", 0), 20, "no-label")
    net.w1.take()
    for _ in range(20):                 # answered within the VRF, so not counted as drops
        net.w1.send(frame[:14] + struct.pack("!I", 300 << 12 | 0x101) + frame[18:])
    of = [f for f in net.w1.take()[1] if ethertype(f) == MPLS]
    check.that(len(of) == 20 and all(f[31] == 1 and f[42] == 11 for f in of),
               f"time exceeded: {[f[:50].hex() for f in of[:2]]}")
    node.stop()
    check.case("Ferrule PE, pipe model")
    node = Node(net.lab, PE.format(ttl="pipe"))
    net.w1.take()
    check.pings(net.host("10.9.0.1", "0-100"), "pipe")
    check.equal(stacks(net.w1.take()[1]), {(((100, 0, 255), (200, 1, 255)), 63)},
                "labels begin at 255")
    check.equal({r: n for r, n in node.drops().items() if "label" in r}, {}, "no label dropped")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


def entropy(check, net):
    """Ferrule is the PE; its flows have entropy labels, and those of the other PE end here."""
    check.case("Ferrule PE, entropy labels")
    net.p.sh("ip -f mpls route replace 100 as 101 via inet 10.0.2.2;"
             "ip -f mpls route replace 102 via inet 10.0.1.2")
    # Linux puts them on, but does not take them off.
    net.h.sh("ip route replace 10.2.0.0/24 encap mpls 102/7/70000/300 via 10.0.2.1 src 10.9.0.1")
    node = Node(net.lab, PE.format(ttl="uniform").replace(
        'via = "10.0.1.1"', 'via = "10.0.1.1"\nentropy-label = true'))
    net.w1.take(), net.w2.take()
    towards = [f"10.9.0.{n}" for n in range(1, 9)]
    for far in towards:
        net.lab.sh(f"ping -c 1 -W 0.2 {far} >/dev/null || true")
    of, at_h = stacks(net.w1.take()[1]), stacks(net.w2.take()[0])
    for have, first in ((of, (100, 0, 63)), (at_h, (101, 0, 62))):
        labels = {s[2][0] for s, _ in have}
        check.that(len(labels) == len(towards) and min(labels) >= 16, f"a label a flow: {have}")
        check.equal({(s[0], s[1][:2], s[2][1:], s[3]) for s, _ in have},
                    {(first, (7, 0), (0, 0), (200, 1, 63))}, "indicator and label below the tunnel's")
    net.w1.take()
    before = node.drops()
    net.h.sh("ping -c 5 -i 0.05 -W 0.2 -I 10.9.0.1 10.2.0.2 >/dev/null || true")
    to, _ = net.w1.take()
    check.equal({tuple(label for label, _, _ in s) for s, _ in stacks(to)}, {(7, 70000, 300)},
                "what Linux leaves for Ferrule")
    check.equal({r: n - before.get(r, 0) for r, n in node.drops().items() if "label" in r
                 and n != before.get(r, 0)}, {}, "no label dropped")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")
    net.h.sh("ip route replace 10.2.0.0/24 encap mpls 102/300 via 10.0.2.1 src 10.9.0.1")


def core(check, net):
    """Ferrule is the P between two Linux PEs."""
    net.p.sh("""set -e
ip link set vec1 down
ip route add 10.9.0.0/24 encap mpls 500/200 via 10.0.1.2 src 10.8.0.1
ip -6 route add fd09::/64 encap mpls 500/200 via fd51::2 src fd08::1
for l in 201 104; do ip -f mpls route add $l dev lo; done""")
    net.h.sh("""set -e
ip route add 10.8.0.0/24 encap mpls 600/201 via 10.0.2.1 src 10.9.0.1
ip -6 route add fd08::/64 encap mpls 600/201 via fd52::1 src fd09::1
ip neigh flush dev vec0""")
    ways = ((net.p, ("10.9.0.1", "fd09::1")), (net.h, ("10.8.0.1", "fd08::1")))
    node = Node(net.lab, P.format(a="swap = [101]", b="pop = true"))
    for name, a, b in (("swap there, PHP back", [(101, 0), (200, 1)], [(201, 1)]),
                       ("PHP there, swap back", [(200, 1)], [(104, 0), (201, 1)])):
        check.case(f"Ferrule P, {name}")
        if name.startswith("PHP"):
            node.apply(P.format(a="pop = true", b="swap = [104]"))
        net.w1.take(), net.w2.take()
        pings(check, net, *ways, name)
        to, of = net.w1.take()
        at_h = net.w2.take()[0]
        labels_only(check, to, {((500, 0), (200, 1))}, "Linux pushes two labels")
        labels_only(check, at_h, {tuple(a)}, "Ferrule's towards the one")
        labels_only(check, of, {tuple(b)}, "Ferrule's towards the other")
        outer = {s[0][2] for s, _ in stacks(to)}
        check.equal({s[0][2] for s, _ in stacks(at_h)}, {t - 1 for t in outer}, "one hop less")
        check.equal(clear(to + of + at_h), [], "nothing without a label")
        # Octets behind the labels come through as they were.
        inner = {f[22:] for f in to if ethertype(f) == MPLS}
        passed = {f[14 + 4 * len(a):] for f in at_h if ethertype(f) == MPLS}
        check.that(passed and passed <= inner, "what the labels carry is as it was")
    check.equal({r: n for r, n in node.drops().items() if "label" in r}, {}, "no label dropped")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


def several(check, net):
    """Ferrule is the P, with two ways to the other PE; one of them stops to answer."""
    check.case("Ferrule P, two paths")
    towards = [f"10.9.0.{n}" for n in range(1, 33)]
    net.h.sh("ip addr add 10.0.2.3/24 dev vec0;"
             + ";".join(f"ip addr add {far}/32 dev d0" for far in towards[1:]))
    node = Node(net.lab, P.format(
        a="paths = [{ swap = [101], via = \"10.0.2.2\" }, { swap = [104], via = \"10.0.2.3\" }]",
        b="swap = [104]").replace('via = "10.0.2.2"\n[[label]]', "[[label]]"))

    def labels():
        net.w1.take(), net.w2.take()
        # One request a call: after a first answer ping waits for others two of its RTTs only.
        # Answers are counted on the wire: ping on a busy guest misses some that its kernel has.
        net.p.sh(f"for far in {' '.join(towards)}; do for n in 1 2; do "
                 "ping -q -c 1 -W 2 $far >/dev/null; done; done; true")
        answered = {far: 0 for far in towards}
        for f in net.w1.take()[1]:
            ip = f[22:] if ethertype(f) == MPLS else b""        # behind two labels
            if ip and ip[0] == 0x45 and ip[9] == 1 and ip[20] == 0:
                answered[socket.inet_ntoa(ip[12:16])] += 1
        wrong = {far: n for far, n in answered.items() if n != 2}
        check.equal(wrong, {}, f"two answers each, dropped {node.drops()}")
        at_h = [f for f in net.w2.take()[0] if ethertype(f) == MPLS]
        by_flow = {}
        for f in at_h:
            by_flow.setdefault(f[22 + 16:22 + 20], set()).add(stack(f)[0][0][0])
        check.equal(len(by_flow), len(towards), "flows")
        check.equal({len(ways) for ways in by_flow.values()}, {1}, "one path a flow")
        return [min(ways) for ways in by_flow.values()]
    both = labels()
    check.that(min(both.count(101), both.count(104)) > 6, f"both paths are used: {both}")
    net.h.sh("ip addr del 10.0.2.3/24 dev vec0")
    end = time.time() + 60
    while time.time() < end and "10.0.2.3" in {n["address"] for n in node.show("neighbours")}:
        time.sleep(0.5)
    check.equal(set(labels()), {101}, "only what answers is used")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


def within(check, net):
    """Ferrule is the P, and packets end there: of their hops, or of the next link's MTU."""
    net.p.sh("sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
    net.h.sh("sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
    node = Node(net.lab, P.format(a="swap = [101]", b="swap = [104]"))
    net.w1.take(), net.w2.take()
    for family, far, here, source in (("-4", "10.9.0.1", "10.0.1.2", "10.8.0.1"),
                                      ("-6", "fd09::1", "fd51::2", "fd08::1")):
        check.case(f"Ferrule P, traceroute {family}")
        told = net.p.sh(f"traceroute {family} -e -n -q 2 -w 2 -s {source} {far}")
        hops = [line.split() for line in told.splitlines()[1:]]
        # Linux says nothing of a label that ends at itself.
        check.that([hop[1] for hop in hops] == [here, "*", far], told)
        # As they came: two labels, of the sender's TTL.
        labels = "<MPLS:L=500,E=0,S=0,T=1/L=200,E=0,S=1,T=1>"
        check.that(labels in told.splitlines()[1], told)
    at_h = stacks(net.w2.take()[0])
    check.that({(101, 0, 254), (200, 1, 255)} <= {entry for s, _ in at_h for entry in s},
               f"messages go on by the path: {at_h}")

    check.case("Ferrule P, a narrow link")
    node.apply(P.format(a="swap = [101]", b="swap = [104]").replace(
        'address = ["10.0.2.1/24"', 'mtu = 1400\naddress = ["10.0.2.1/24"'))
    net.w2.take()
    net.p.sh("sysctl -q -w net.ipv4.ip_no_pmtu_disc=1")
    sweep = json.loads(net.p.sh(f"/usr/bin/python3 {PINGER} 10.9.0.1 1350-1450/9 --wait 1"))
    check.pings(sweep, "cut within the path")
    net.p.sh("sysctl -q -w net.ipv4.ip_no_pmtu_disc=0")
    at_h = [f for f in net.w2.take()[0] if ethertype(f) == MPLS]
    check.that(max(map(len, at_h)) <= 1414 and any(f[28] & 0x20 for f in at_h),
               "fragments, each with the labels")
    for far in ("10.9.0.1", "fd09::1"):
        sweep = net.p.sh(f"/usr/bin/python3 {PINGER} {far} 1400 --df --cold --wait 0.5")
        check.silent(json.loads(sweep), f"too big, towards {far}")
        route = net.p.sh(f"ip route get {far}")
        check.that("mtu 1392" in route, f"the sender learned the MTU: {route}")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


def main():
    signals_exit()
    need()
    check = Check()
    with Lab(cpu=CPU) as lab:
        net = Net(lab)
        edge(check, net)
        entropy(check, net)
        core(check, net)
        several(check, net)
        within(check, net)
    check.done()


if __name__ == "__main__":
    main()
