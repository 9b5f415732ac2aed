#!/usr/bin/env python3
# time-limit: 240
"""Transport mode and ESP in UDP between a Linux kernel and a Ferrule node, over a TAP.

Transport mode with the node's own address, and with a host behind the node for which
it does IPsec (a bump in the stack), IPv4 and IPv6, with and without extended numbers
and UDP around it (RFC 3948); tunnel mode in UDP. Padding against traffic analysis from
both sides, dummies, keepalives, TCP through all of it, packets too big, wrong keys,
clear and replayed packets.
"""
import os
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import esp  # noqa: E402
from esp import SPI_IN, SPI_OUT, SUITES  # noqa: E402
from peernode import (  # noqa: E402
    CPU, Bench, Check, Lab, Node, ethertype, need, ports, signals_exit)

PORT = 4500
LINUX = {4: "198.51.100.1", 6: "fd51::1"}
NODE = {4: "198.51.100.2", 6: "fd51::2"}
HOST = {4: "10.2.0.2", 6: "fd02::2"}
HEADER = {4: 20, 6: 40}
GCM, GCM_NO_ESN, CBC, CBC_ESN, GCM_256 = SUITES[0], SUITES[1], SUITES[2], SUITES[3], SUITES[5]

# Holds UDP ports on which Linux takes ESP (udp(7), UDP_ENCAP), and which its own policy
# leaves alone, as those of a key daemon (linux/xfrm.h, struct xfrm_userpolicy_info).
HOLDER = """import socket, struct, time
kept = []
for family, any_, level, option in ((2, "0.0.0.0", 0, 17), (10, "::", 41, 35)):
    s = socket.socket(family, socket.SOCK_DGRAM)
    if family == 10:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    for way in (0, 1):
        policy = bytearray(168)
        struct.pack_into("=H", policy, 40, family)
        policy[160] = way
        s.setsockopt(level, option, bytes(policy))
    s.bind((any_, 4500)); s.setsockopt(17, 100, 2)
    kept.append(s)
time.sleep(1000)
"""
KEEPALIVE = """import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", 4600))
for _ in range(7): s.sendto(b"\\xff", ("198.51.100.2", 4500))
"""


class Pair:
    """One SA each way, as both sides have it."""

    def __init__(self, suite, version, mode="transport", end="host", udp=False, more=""):
        self.suite, self.version, self.mode, self.udp, self.more = suite, version, mode, udp, more
        self.here = LINUX[version]
        self.there = HOST[version] if mode == "transport" and end == "host" else NODE[version]

    def linux(self, out=1, inn=2):
        flags = ["esn"] * self.suite.esn + ["af-unspec"] * (self.mode == "tunnel")
        flags = "".join(f" flag {flag}" for flag in flags)
        any_ = "0.0.0.0" if self.version == 4 else "::"
        encap = f" encap espinudp {PORT} {PORT} {any_}" if self.udp else ""
        lines = ["set -e", "ip xfrm state flush", "ip xfrm policy flush"]
        for src, dst, spi, seed in ((self.here, self.there, SPI_IN, out),
                                    (self.there, self.here, SPI_OUT, inn)):
            lines.append(f"ip xfrm state add src {src} dst {dst} proto esp spi {spi:#x} "
                         f"mode {self.mode} replay-window 64{flags} "
                         f"{self.suite.linux_keys(seed)}{encap}")
        sites = [(f"{self.here}", f"{self.there}")] if self.mode == "transport" else esp.SITES
        for own, other in sites:
            for src, dst, a, b, way in ((own, other, self.here, self.there, "out"),
                                        (other, own, self.there, self.here, "in")):
                lines.append(f"ip xfrm policy add src {src} dst {dst} dir {way} "
                             f"tmpl src {a} dst {b} proto esp mode {self.mode}")
        return "\n".join(lines)

    def ferrule(self):
        kind = "tunnel" if self.mode == "tunnel" else "transport"
        udp = f'encapsulation = "udp"\nports = [{PORT}, {PORT}]\n' if self.udp else ""
        policies = f'[[policy]]\ninterface = "wan"\naction = "protect"\n{kind} = "t"\n'
        if self.mode == "tunnel":
            policies = "".join(policies + f'local = "{own}"\nremote = "{other}"\n'
                               for other, own in esp.SITES)
        return ports() + f"""
[[interface]]
port = "wan"
address = ["198.51.100.2/24", "fd51::2/64"]
[[interface]]
port = "lan"
address = ["10.2.0.1/24", "fd02::1/64"]
[[route]]
prefix = "10.9.0.0/24"
via = "198.51.100.1"
[[route]]
prefix = "fd09::/64"
via = "fd51::1"
[[{kind}]]
name = "t"
local = "{self.there}"
remote = "{self.here}"
suite = "{self.suite.name}"
esn = {str(self.suite.esn).lower()}
window = 131072
{udp}{self.more}
[{kind}.out]
spi = {SPI_OUT:#x}
key = "out"
[{kind}.in]
spi = {SPI_IN:#x}
key = "in"
{policies}"""

    def start(self, bench, out=2, inn=1):
        return Node(bench.lab, self.ferrule(),
                    {"out": self.suite.file(out), "in": self.suite.file(inn)})

    def sealed(self, clear):
        """Octets of the packet around a clear one of so many."""
        own = HEADER[self.version] if self.mode == "transport" else 0
        udp = 8 if self.udp else 0
        return udp + self.suite.sealed(clear - own, HEADER[self.version])

    def largest(self, mtu=1500):
        own = HEADER[self.version] if self.mode == "transport" else 0
        return self.suite.largest(HEADER[self.version], mtu - (8 if self.udp else 0)) + own


def payload_of(frame):
    """Protocol, and where what it names begins."""
    if ethertype(frame) == 0x0800:
        return frame[23], 14 + (frame[14] & 15) * 4
    return frame[20], 54


def esp_at(frame):
    """Where ESP begins, if the frame has any."""
    protocol, at = payload_of(frame)
    if protocol == 50:
        return at
    if protocol == 17 and PORT in struct.unpack("!HH", frame[at:at + 4]) \
            and frame[at + 8:at + 12] != bytes(4) and len(frame) > at + 20:
        return at + 8
    return None


def length_of(frame):
    return struct.unpack("!H", frame[16:18])[0] if ethertype(frame) == 0x0800 \
        else struct.unpack("!H", frame[18:20])[0] + 40


def is_clear(frame):
    kind = ethertype(frame)
    if kind not in (0x0800, 0x86dd) or esp.is_neighbours(frame):
        return False
    return esp_at(frame) is None


def look_at(check, pair, frames, spi, who):
    check.equal([f[:60].hex() for f in frames if is_clear(f)][:2], [], f"{who}: nothing in clear")
    sealed = [f for f in frames if ethertype(f) in (0x0800, 0x86dd) and esp_at(f) is not None]
    numbers = []
    for f in sealed:
        protocol, at = payload_of(f)
        check.equal(protocol, 17 if pair.udp else 50, f"{who}: protocol") if not numbers else None
        if pair.udp and pair.version == 4:
            check.equal(f[at + 6:at + 8], b"\0\0", f"{who}: no UDP checksum") if not numbers else 0
        at = esp_at(f)
        have, number = struct.unpack("!II", f[at:at + 8])
        numbers.append(number if have == spi else -1)
    check.that(numbers and min(numbers) > 0 and len(set(numbers)) == len(numbers),
               f"{who}: SPI, and no number twice")
    return {length_of(f) for f in sealed}, len(sealed)


def target(pair):
    """What Linux and the host ping: each other, or their sites."""
    if pair.mode == "tunnel":
        return {4: ("10.9.0.1", "10.2.0.2"), 6: ("fd09::1", "fd02::2")}
    return {pair.version: (pair.here, pair.there)}


def one_kind(check, bench, pair, own=False):
    suite, udp = pair.suite, " in UDP" if pair.udp else ""
    esn = ", ESN" if suite.esn else ""
    where = "the node itself" if own else "a host behind the node"
    if pair.mode == "tunnel":
        where = "tunnel"
    check.case(f"{pair.mode} mode{udp}, IPv{pair.version}, {where}: {suite.name}{esn}")
    bench.guest.sh(pair.linux())
    node = pair.start(bench)
    for linux_at, host_at in target(pair).values():
        bench.guest_ping(host_at, "8")
        if not own:
            bench.host_ping(linux_at, "8")
    bench.wire.take()
    first = {sa["way"]: sa["packets"] for sa in node.show("sa")}
    want = set()
    for version, (linux_at, host_at) in target(pair).items():
        head = HEADER[version] + 8
        last = pair.largest() - head
        sweep = f"0-50,57-{last - 36}/29,{last - 35}-{last}"
        want |= {pair.sealed(size + head) for size in esp.sizes(sweep)}
        if own:
            check.pings(bench.guest_ping(host_at, sweep), f"Linux to {host_at}")
            continue
        host, guest = bench.both_pings((linux_at, sweep, "--df"), (host_at, sweep))
        check.pings(host, f"{host_at} to {linux_at}")
        check.pings(guest, f"Linux to {host_at}")
    to, of = bench.wire.take()
    counts = {}
    for frames, spi, who in ((to, SPI_IN, "Linux"), (of, SPI_OUT, "Ferrule")):
        lengths, counts[who] = look_at(check, pair, frames, spi, who)
        check.equal(want - lengths, set(), f"{who}: a packet of every size")
        check.that(max(lengths) <= 1500, f"{who}: none above the MTU: {max(lengths)}")
    check.equal(node.lost(), {}, "nothing dropped at Ferrule")
    sas = {sa["way"]: sa for sa in node.show("sa")}
    for way, who in (("in", "Linux"), ("out", "Ferrule")):
        check.equal(sas[way]["packets"] - first[way], counts[who], f"show sa counts all {way}")
    errors = bench.guest.sh("grep -v '\\s0$' /proc/net/xfrm_stat || true").split()
    check.equal(errors, [], "no error counted by Linux")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


def stream(check, bench, pair):
    """TCP through transport mode, from segments too large on."""
    check.case("TCP, and packets too big, in transport mode")
    bench.guest.sh(pair.linux())
    node = pair.start(bench)
    bench.host_ping(pair.here, "8")
    most = pair.largest()
    check.pings(bench.host_ping(pair.here, f"{most - 28}", "--df"), "the largest that fits")
    result = bench.host_ping(pair.here, f"{most - 27}", "--df", "--cold", "--wait 0.3")
    check.silent(result, "one octet more, and not to be fragmented")
    check.that(f"mtu {most}" in bench.lab.sh(f"ip route get {pair.here}"), "the host learned it")
    bench.lab.sh("ip route flush cache")
    client = esp.CLIENT.replace("10.9.0.1", pair.here)
    got = {}
    t = threading.Thread(target=lambda: got.update(
        out=bench.guest.sh(f"/usr/bin/python3 -c '{esp.SERVER}'", timeout=30)))
    t.start()
    sent = ""
    for _ in range(30):
        sent = bench.lab.sh(f"/usr/bin/python3 -c '{client}' 2>/dev/null", check=False).strip()
        if sent:
            break
    t.join()
    check.that(sent.startswith("400000 "), "sent")
    check.equal(got.get("out", "").strip(), sent, "and arrives whole")
    node.stop()


def tunnel_padding(check, bench):
    """Every packet as long as the path allows, from both sides (RFC 4303 section 2.7)."""
    pair = Pair(GCM, 4, "tunnel", more='tfc = "whole"')
    check.case("TFC padding in tunnel mode, from both sides")
    bench.guest.sh(pair.linux())
    bench.guest.sh(f"/usr/bin/python3 tests/peers/tfcpad.py {SPI_IN:#x} 1200")
    node = pair.start(bench)
    bench.host_ping("10.9.0.1", "8")
    bench.wire.take()
    sizes = "0-900/17"
    for result in bench.both_pings(("10.9.0.1", sizes), ("10.2.0.2", sizes)):
        check.pings(result, "pings of many sizes")
    to, of = bench.wire.take()
    lengths = look_at(check, pair, of, SPI_OUT, "Ferrule")[0]
    check.equal(lengths, {pair.sealed(pair.largest())}, "Ferrule: one length for all")
    lengths = look_at(check, pair, to, SPI_IN, "Linux")[0]
    check.equal(len(lengths), 1, f"Linux: one length for all: {lengths}")
    check.equal(node.lost(), {}, "nothing dropped at Ferrule")
    node.stop()


def transport_padding(check, bench):
    """Behind a UDP datagram, which says how long it is."""
    check.case("TFC padding behind UDP in transport mode")
    pair = Pair(GCM, 4, more="tfc = 512")
    bench.guest.sh(pair.linux())
    node = pair.start(bench)
    bench.host_ping(pair.here, "8")
    bench.wire.take()
    got = {}
    server = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
              's.bind(("", 7001)); s.settimeout(10)\nn = 0\n'
              "while n < 40: n += len(s.recv(2000)) == 100 + n\nprint(n)\n")
    t = threading.Thread(target=lambda: got.update(
        out=bench.guest.sh(f"/usr/bin/python3 -c '{server}'", timeout=20)))
    t.start()
    time.sleep(1)
    sender = ("import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
              f'for n in range(40): s.sendto(bytes(100 + n), ("{pair.here}", 7001)); '
              "time.sleep(0.01)\n")
    bench.lab.sh(f"/usr/bin/python3 -c '{sender}'")
    t.join()
    check.equal(got.get("out", "").strip(), "40", "Linux took every datagram at its length")
    lengths = look_at(check, pair, bench.wire.take()[1], SPI_OUT, "Ferrule")[0]
    check.equal(lengths, {pair.sealed(20 + 512)}, "all of one length")
    node.stop()


def dummies_and_keepalives(check, bench):
    check.case("dummies and keepalives")
    pair = Pair(GCM, 4, udp=True, more="dummy = 50\nkeepalive-seconds = 1")
    bench.guest.sh(pair.linux())
    node = pair.start(bench)
    bench.host_ping(pair.here, "8")
    bench.wire.take()
    time.sleep(2)
    of = bench.wire.take()[1]
    lengths, count = look_at(check, pair, of, SPI_OUT, "Ferrule")
    check.that(70 <= count <= 130 and len(lengths) > 30, f"{count} dummies of {len(lengths)} sizes")
    check.pings(bench.host_ping(pair.here, "0-1300/13"), "traffic among them")
    node.stop()
    pair = Pair(GCM, 4, udp=True, more="keepalive-seconds = 1")
    bench.guest.sh(pair.linux())
    node = pair.start(bench)
    bench.host_ping(pair.here, "8")
    bench.wire.take()
    time.sleep(3.3)
    alive = [f for f in bench.wire.take()[1] if ethertype(f) == 0x0800 and f[23] == 17
             and f[34:38] == struct.pack("!HH", PORT, PORT) and f[42:43] == b"\xff"
             and struct.unpack("!H", f[38:40])[0] == 9]
    check.that(2 <= len(alive) <= 4, f"{len(alive)} keepalives in three seconds of silence")

    def drops():
        # The kernel asks for routers when it likes.
        return {r: n for r, n in node.drops().items() if r != "router-message"}

    before = drops()
    # To the node's own address, which is not that of the pair: any port of ESP will do.
    bench.guest.sh(f"/usr/bin/python3 -c '{KEEPALIVE}'")
    time.sleep(0.3)
    check.equal(drops(), before, "and those that come are taken and not dropped")
    node.stop()


def refused(bench):
    """What Linux could not open (and dummies, which it counts among that)."""
    errors = dict(line.split() for line in bench.guest.sh("cat /proc/net/xfrm_stat").splitlines())
    return int(errors["XfrmInStateProtoError"])


def hostile(check, bench):
    pair = Pair(GCM, 4)
    check.case("wrong keys, clear and replayed packets in transport mode")
    bench.guest.sh(pair.linux())
    node = pair.start(bench, inn=5)
    # In clear, and in no policy: afterwards the neighbours know each other.
    bench.guest_ping(NODE[4], "8", "--cold", "--wait 0.1")
    check.silent(bench.guest_ping(pair.there, "0-59", "--cold", "--wait 0.3"), "wrong key inwards")
    check.that(node.dropped("esp-bad-icv") >= 60, f"esp-bad-icv: {node.drops()}")
    node.stop()
    node = pair.start(bench, out=6)
    before = refused(bench)
    check.silent(bench.host_ping(pair.here, "0-59", "--cold", "--wait 0.3"), "and outwards")
    check.that(refused(bench) - before >= 60, "Linux refuses them")
    node.stop()
    node = pair.start(bench)
    bench.host_ping(pair.here, "8")
    bench.wire.take()
    bench.guest_ping(pair.there, "0-60")
    seen = [f for f in bench.wire.take()[0] if esp.is_esp(f)][-40:]
    before = node.drops()
    for f in seen:
        bench.wire.send(f)
    time.sleep(0.3)
    check.equal(node.dropped("esp-replay") - before.get("esp-replay", 0), len(seen), "replayed")
    bench.guest.sh("ip xfrm policy flush; ip xfrm state flush")
    before = node.dropped("esp-required")
    check.silent(bench.guest_ping(pair.there, "0-59", "--cold", "--wait 0.3"), "clear packets")
    check.that(node.dropped("esp-required") - before >= 60, f"esp-required: {node.drops()}")
    bench.guest.sh(pair.linux())
    node.stop()
    node = pair.start(bench)
    check.pings(bench.host_ping(pair.here, "0-1300/31"), "and with keys again it goes on")
    node.stop()


def main():
    signals_exit()
    need()
    check = Check()
    with Lab(cpu=CPU) as lab:
        bench = Bench(lab, "dummy esp4 esp6 xfrm_user")
        bench.guest.sh(f"""set -e
ip link add d0 type dummy; ip link set d0 up
ip addr add 10.9.0.1/24 dev d0; ip -6 addr add fd09::1/64 dev d0 nodad
ip addr add 198.51.100.1/24 dev vec0; ip -6 addr add fd51::1/64 dev vec0 nodad
ip route add 10.2.0.0/24 via 198.51.100.2
ip -6 route add fd02::/64 via fd51::2
cat >/tmp/holder.py <<'END'
{HOLDER}END
/usr/bin/python3 /tmp/holder.py >/tmp/holder.log 2>&1 &
sleep 1; cat /tmp/holder.log >&2""")
        for net, via in (("10.9.0.0/24", "10.2.0.1"), ("198.51.100.0/24", "10.2.0.1"),
                         ("fd09::/64", "fd02::1"), ("fd51::/64", "fd02::1")):
            lab.ip("route", "add", net, "via", via)
        for suite in (GCM, GCM_NO_ESN, CBC_ESN):
            one_kind(check, bench, Pair(suite, 4))
        for suite in (GCM_256, CBC):
            one_kind(check, bench, Pair(suite, 6))
        one_kind(check, bench, Pair(GCM, 4, end="node"), own=True)
        for suite in (GCM, CBC):
            one_kind(check, bench, Pair(suite, 4, udp=True))
        one_kind(check, bench, Pair(GCM, 6, udp=True))
        # The kernel's sources come from the tunnel's site.
        bench.guest.sh("ip route replace 10.2.0.0/24 via 198.51.100.2 src 10.9.0.1; "
                       "ip -6 route replace fd02::/64 via fd51::2 src fd09::1")
        for version in (4, 6):
            one_kind(check, bench, Pair(GCM, version, "tunnel", udp=True))
        tunnel_padding(check, bench)
        bench.guest.sh("ip route replace 10.2.0.0/24 via 198.51.100.2; "
                       "ip -6 route replace fd02::/64 via fd51::2")
        transport_padding(check, bench)
        stream(check, bench, Pair(GCM, 4))
        dummies_and_keepalives(check, bench)
        hostile(check, bench)
    check.done()


if __name__ == "__main__":
    main()
