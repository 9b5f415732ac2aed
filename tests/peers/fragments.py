#!/usr/bin/env python3
# time-limit: 240
"""Fragments and path MTUs between a Linux kernel and a Ferrule gateway, with a
router in between whose second link can be made narrow.

    guest (Linux) vec0 ── ga [ router: the namespace ] fw ── wan [ Ferrule ] lan ── fl
    203.0.113.1                .254          .254   198.51.100.2                  a host

Outer fragments in both directions, over IPv4 and IPv6; cut before and after sealing;
fragments for Ferrule itself; a path that becomes narrow, learned from the router's
ICMP and told to hosts; forged errors; the MSS that hosts see.
"""
import os
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peernode import (  # noqa: E402
    CPU, TOP, Bench, Check, Lab, Node, Wire, ethertype, need, ports, signals_exit)
from esp import CLIENT, SERVER, SPI_IN, SPI_OUT, SITES, SUITES, echoes  # noqa: E402
from pinger import checksum  # noqa: E402

SUITE = SUITES[0]
ENDS = {4: ("203.0.113.1", "198.51.100.2"), 6: ("fd52::1", "fd51::2")}
OUTER = {4: 20, 6: 40}
NARROW = 1300


class Routed(Bench):
    """As the bench, but with a router where that has a bridge."""

    def __init__(self, lab):
        self.lab = lab
        for tap, mac in (("ga", "02:00:00:00:00:fa"), ("fw", "02:00:00:00:00:fb"),
                         ("fl", "02:00:00:00:00:fc")):
            lab.tap(tap, mac=mac)
            lab.sh(f"echo 0 >/proc/sys/net/ipv6/conf/{tap}/disable_ipv6")
        self.guest = lab.guest("linux", taps=["ga"], src=TOP, timeout=280)
        for tap, addresses in (("ga", ("203.0.113.254/24", "fd52::fe/64")),
                               ("fw", ("198.51.100.254/24", "fd51::fe/64")),
                               ("fl", ("10.2.0.2/24", "fd02::2/64"))):
            for a in addresses:
                lab.ip("addr", "add", a, "dev", tap, *(["nodad"] if ":" in a else []))
        lab.sh("echo 1 >/proc/sys/net/ipv4/ip_forward; "
               "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; "
               "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done; "
               "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit; echo 0 >/proc/sys/net/ipv6/icmp/ratelimit")
        self.wire = Wire(lab, "fw")
        self.guest.sh("set -e; for m in ipv6 dummy esp4 esp6 xfrm_user; do modprobe $m; done; "
                      "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; "
                      "ip link set dev vec0 up")

    def may_cut(self, yes):
        """Whether the host lets others cut its packets (no DF bit)."""
        self.lab.sh(f"echo {int(yes)} >/proc/sys/net/ipv4/ip_no_pmtu_disc; ip route flush cache")

    def narrow(self, mtu):
        self.lab.ip("link", "set", "ga", "mtu", str(mtu))
        self.guest.sh(f"ip link set vec0 mtu {mtu}")


def linux(outer):
    here, there = ENDS[outer]
    lines = ["set -e", "ip xfrm state flush", "ip xfrm policy flush"]
    for src, dst, spi, seed in ((here, there, SPI_IN, 1), (there, here, SPI_OUT, 2)):
        lines.append(f"ip xfrm state add src {src} dst {dst} proto esp spi {spi:#x} mode tunnel "
                     f"replay-window 64 flag af-unspec flag esn {SUITE.linux_keys(seed)}")
    for own, other in SITES:
        for src, dst, a, b, way in ((own, other, here, there, "out"),
                                    (other, own, there, here, "in")):
            lines.append(f"ip xfrm policy add src {src} dst {dst} dir {way} "
                         f"tmpl src {a} dst {b} proto esp mode tunnel")
    return "\n".join(lines)


def start(bench, outer, more="", buffers=8192):
    there, here = ENDS[outer]
    policies = "".join(f"""
[[policy]]
interface = "wan"
action = "protect"
tunnel = "t"
local = "{own}"
remote = "{other}"
""" for other, own in SITES)
    routes = "".join(f"""
[[route]]
prefix = "{prefix}"
via = "{via}"
""" for prefix, via in (("10.9.0.0/24", "198.51.100.254"), ("203.0.113.0/24", "198.51.100.254"),
                        ("fd09::/64", "fd51::fe"), ("fd52::/64", "fd51::fe")))
    text = f"buffer-size = {buffers}\n" + ports() + f"""
[[interface]]
port = "wan"
address = ["198.51.100.2/24", "fd51::2/64"]
[[interface]]
port = "lan"
address = ["10.2.0.1/24", "fd02::1/64"]
{routes}
[[tunnel]]
name = "t"
local = "{here}"
remote = "{there}"
suite = "{SUITE.name}"
window = 64
{more}
[tunnel.out]
spi = {SPI_OUT:#x}
key = "out"
[tunnel.in]
spi = {SPI_IN:#x}
key = "in"
""" + policies
    bench.guest.sh(linux(outer))
    node = Node(bench.lab, text, {"out": SUITE.file(2), "in": SUITE.file(1)})
    for at in ("10.9.0.1", "fd09::1"):      # until all neighbours are known
        bench.host_ping(at, "8")
    bench.wire.take()
    return node


def fragments(frames):
    """How many frames are fragments of ESP, and how many whole ESP packets."""
    parts = whole = 0
    for f in frames:
        if ethertype(f) == 0x0800 and f[23] == 50:
            cut = struct.unpack("!H", f[20:22])[0] & 0x3fff
            parts, whole = parts + bool(cut), whole + (not cut)
        elif ethertype(f) == 0x86dd and f[20] == 44 and f[54] == 50:
            parts += 1
        elif ethertype(f) == 0x86dd and f[20] == 50:
            whole += 1
    return parts, whole


def out_mtu(node):
    return next(sa["mtu"] for sa in node.show("sa") if sa["way"] == "out")


def both_ways(check, bench, outer):
    """What does not fit is sealed whole and cut, by both."""
    check.case(f"outer fragments both ways, outer IPv{outer}")
    node = start(bench, outer)
    most = SUITE.largest(OUTER[outer])
    edge = most - 28
    check.pings(bench.host_ping("10.9.0.1", f"{edge - 2}-{edge + 6},1472"), "around what fits")
    to, of = bench.wire.take()
    check.that(fragments(of)[0] >= 8, f"Ferrule cut what it sealed: {fragments(of)}")
    check.that(fragments(to)[0] >= 8, f"and so did Linux: {fragments(to)}")
    before = echoes(bench)
    check.pings(bench.host_ping("10.9.0.1", "2000-4000/500"), "datagrams in fragments")
    check.that(echoes(bench)[1] > before[1], "Linux put them together")
    check.pings(bench.host_ping("fd09::1", f"{most - 48},1452-4000/637"), "IPv6")
    check.pings(bench.guest_ping("10.2.0.2", "1300-4000/300"), "Linux asks")
    check.that(max(map(len, bench.wire.take()[1])) <= 1514, "nothing longer than the link")
    # Of an IPv6 packet too big in fragments the first is answered, others are dropped.
    lost = {r: n for r, n in node.lost().items() if r != "too-big"}
    check.equal(lost, {}, "nothing dropped at Ferrule")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


def before(check, bench):
    check.case("cut before sealing")
    node = start(bench, 4, 'fragment = "before"')
    check.pings(bench.host_ping("10.9.0.1", "1400-1472/9"), "longer than fits")
    check.equal(fragments(bench.wire.take()[1])[0], 0, "Ferrule sends whole ESP packets")
    check.equal(node.lost(), {}, "nothing dropped at Ferrule")
    node.stop()


def itself(check, bench):
    check.case("fragments for Ferrule itself")
    node = start(bench, 4)
    check.pings(bench.host_ping("10.2.0.1", "1400-7000/700"), "IPv4")
    check.pings(bench.host_ping("fd02::1", "1400-7000/700"), "IPv6")
    check.equal(node.lost(), {}, "nothing dropped")
    node.stop()
    node = start(bench, 4, buffers=2048)
    check.pings(bench.host_ping("10.2.0.1", "1600"), "what fits the usual buffer")
    check.silent(bench.host_ping("10.2.0.1", "3000", "--cold", "--wait 0.3"), "what does not")
    check.that(node.dropped("reassembly-too-big") >= 2, f"{node.drops()}")
    node.stop()


def discovery(check, bench, outer):
    """A narrow hop: the gateway learns, hosts are told, nothing is lost for long."""
    check.case(f"path MTU discovery, outer IPv{outer}")
    node = start(bench, outer)
    lab, most = bench.lab, SUITE.largest(OUTER[outer])
    lab.sh("ip route flush cache; ip -6 route flush cache")
    check.equal(out_mtu(node), most, "at first what the link carries")
    check.pings(bench.host_ping("10.9.0.1", f"{most - 28}", "--df"), "which passes")
    bench.narrow(NARROW)
    fits = SUITE.largest(OUTER[outer], NARROW)
    lan = Wire(lab, "fl")
    bench.host_ping("10.9.0.1", f"{most - 28}", "--df", "--cold", "--wait 0.3")
    check.equal(out_mtu(node), fits, "learned from the router")
    bench.host_ping("10.9.0.1", f"{most - 28}", "--df", "--cold", "--wait 0.3")
    _, of = lan.take()
    errors = [f for f in of if ethertype(f) == 0x0800 and f[23] == 1 and f[34:36] == b"\x03\x04"]
    check.equal({struct.unpack("!H", f[40:42])[0] for f in errors}, {fits}, "the host is told")
    check.that(f"mtu {fits}" in lab.sh("ip route get 10.9.0.1"), "and keeps to it")
    check.pings(bench.host_ping("10.9.0.1", f"{fits - 36}-{fits - 28}", "--df"), "what fits passes")
    check.pings(bench.host_ping("10.9.0.1", f"{fits - 28}-{most - 28}/50"), "what may be cut, too")
    # IPv6 may send 1280 octets whatever the path; the outer packet is cut for it.
    check.pings(bench.host_ping("fd09::1", "1000-1232/29"), "IPv6 up to 1280 octets")
    got = {}
    t = threading.Thread(target=lambda: got.update(
        out=bench.guest.sh(f"/usr/bin/python3 -c '{SERVER}'", timeout=30)))
    t.start()
    sent = ""
    for _ in range(30):
        sent = lab.sh(f"/usr/bin/python3 -c '{CLIENT}' 2>/dev/null", check=False).strip()
        if sent:
            break
    t.join()
    check.equal(got.get("out", "").strip(), sent, "TCP arrives whole")
    check.that(sent.startswith("400000 "), "and it was sent")
    check.equal(node.dropped("icmp-forged"), 0, "the router was believed")
    lan.close()
    bench.narrow(1500)
    node.stop()
    lab.sh("ip route flush cache; ip -6 route flush cache")


def forged(check, bench):
    """Errors of somebody who does not see the packets."""
    check.case("forged ICMP errors")
    node = start(bench, 4)
    bench.host_ping("10.9.0.1", "1000")
    esp = [f for f in bench.wire.take()[1] if ethertype(f) == 0x0800 and f[23] == 50][-1]

    def error(quote, mtu=600):
        message = struct.pack("!BBHHH", 3, 4, 0, 0, mtu) + quote
        message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(message), 0, 0, 64, 1, 0,
                           bytes([198, 51, 100, 254]), bytes([198, 51, 100, 2]))
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        return esp[6:12] + esp[:6] + b"\x08\x00" + head + message

    quote = esp[14:42]
    bad = [quote[:20] + struct.pack("!I", 0x1234) + quote[24:],         # another SPI
           quote[:24] + struct.pack("!I", 1 << 24),                     # a number not sent
           quote[:24] + struct.pack("!I", 0),
           quote[:16] + bytes([203, 0, 113, 7]) + quote[20:],           # to another gateway
           quote[:12] + bytes([198, 51, 100, 3]) + quote[16:]]
    most = SUITE.largest(20)
    for one in bad:
        bench.wire.send(error(one))
    bench.wire.send(error(quote, 1400))         # it was shorter than that
    check.pings(bench.host_ping("10.9.0.1", f"{most - 28}", "--df"), "the path is as wide as before")
    check.equal(node.dropped("icmp-forged"), len(bad) + 1, "each counted")
    check.equal(out_mtu(node), most, "show sa")
    bench.wire.send(error(quote))
    bench.host_ping("10.9.0.1", "8")
    check.equal(out_mtu(node), SUITE.largest(20, 600), "a true one is believed")
    check.equal(node.dropped("icmp-forged"), len(bad) + 1, "and not counted")
    node.stop()
    bench.lab.sh("ip route flush cache")


def syn_mss(frames, v6):
    """The MSS of SYNs in frames."""
    found = set()
    for f in frames:
        at = 54 if v6 else 34
        if ethertype(f) != (0x86dd if v6 else 0x0800) or f[20 if v6 else 23] != 6:
            continue
        if f[at + 13] & 2 and f[at + 20:at + 22] == b"\x02\x04":
            found.add(struct.unpack("!H", f[at + 22:at + 24])[0])
    return found


def mss(check, bench):
    check.case("MSS clamping")
    server = ('import socket; s = socket.create_server(("", 7001)); s.settimeout(20); '
              'c, _ = s.accept(); c.settimeout(20); '
              'print(c.getsockopt(6, 2)); c.recv(9)')
    server6 = server.replace('("", 7001)', '("", 7001), family=socket.AF_INET6')
    client = 'import socket; c = socket.create_connection(("{}", 7001), 10); c.sendall(b"x" * 9)'
    node = start(bench, 4, "mtu = 1000\nclamp-mss = true")
    lan = Wire(bench.lab, "fl")
    for v6, program, at, header in ((False, server, "10.9.0.1", 40), (True, server6, "fd09::1", 60)):
        got = {}
        t = threading.Thread(target=lambda: got.update(
            out=bench.guest.sh(f"/usr/bin/python3 -c '{program}'", timeout=30)))
        t.start()
        for _ in range(50):
            sent = bench.lab.sh(f"/usr/bin/python3 -c '{client.format(at)}' && echo sent",
                                check=False)
            if "sent" in sent:
                break
        t.join()
        # Timestamps take twelve octets of every segment.
        seen = int(got.get("out", "0").strip() or 0)
        check.that(1000 - header - 12 <= seen <= 1000 - header, f"Linux was told: {seen}")
        check.equal(syn_mss(lan.take()[1], v6), {1000 - header}, "and so was the host")
    lan.close()
    node.stop()


def main():
    signals_exit()
    need()
    check = Check()
    with Lab(cpu=CPU) as lab:
        bench = Routed(lab)
        bench.guest.sh("""set -e
ip link add d0 type dummy; ip link set d0 up
ip addr add 10.9.0.1/24 dev d0; ip -6 addr add fd09::1/64 dev d0 nodad
ip addr add 203.0.113.1/24 dev vec0; ip -6 addr add fd52::1/64 dev vec0 nodad
ip route add 198.51.100.0/24 via 203.0.113.254
ip -6 route add fd51::/64 via fd52::fe
ip route add 10.2.0.0/24 via 203.0.113.254 src 10.9.0.1
ip -6 route add fd02::/64 via fd52::fe src fd09::1""")
        lab.ip("route", "add", "10.9.0.0/24", "via", "10.2.0.1")
        lab.ip("route", "add", "fd09::/64", "via", "fd02::1")
        bench.may_cut(True)
        for outer in (4, 6):
            both_ways(check, bench, outer)
        before(check, bench)
        bench.may_cut(False)
        itself(check, bench)
        for outer in (4, 6):
            discovery(check, bench, outer)
        forged(check, bench)
        mss(check, bench)
    check.done()


if __name__ == "__main__":
    main()
