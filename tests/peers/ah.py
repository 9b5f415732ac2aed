#!/usr/bin/env python3
# time-limit: 240
"""AH between a Linux kernel and Ferrule, over a TAP.

Every keyed hash that both have, with and without extended sequence numbers: tunnel mode
with IPv4 and IPv6 inside and outside, from both sides, of every length about the edges;
transport mode with the node itself and with a host behind it, whose IPsec the node is;
IPv4 options and IPv6 extension headers under the ICV; ESP in AH; fragments; wrong keys,
replayed, altered, clear and unknown packets.
"""
import json
import os
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peernode import CPU, Bench, Check, Lab, Node, ethertype, need, ports, signals_exit  # noqa: E402

SPI_IN, SPI_OUT = 0x00c0ffee, 0x10000007
SPI_ESP_IN, SPI_ESP_OUT = 0x00c0ffef, 0x10000008


def key(seed, octets):
    return bytes((seed * 59 + i * 11) & 0xff for i in range(octets)).hex()


class Suite:
    """A keyed hash, as both sides call it, and how long AH is with it."""

    def __init__(self, name, linux, octets, icv, esn=True, pad8=False):
        self.name, self.linux, self.octets, self.icv = name, linux, octets, icv
        self.esn, self.pad8 = esn, pad8

    def title(self):
        return self.name + (", ESN" if self.esn else "") + (", padded to 8" if self.pad8 else "")

    def state(self, seed):
        flags = "flag af-unspec" + (" flag esn" if self.esn else "")
        flags += "" if self.pad8 else " flag align4"
        return (f"replay-window 64 {flags} auth-trunc '{self.linux}' "
                f"0x{key(seed, self.octets)} {self.icv * 8}")

    def file(self, seed):
        return {"integrity": key(seed, self.octets)}

    def octets_of(self, version):
        """Octets of AH (RFC 4302 section 2)."""
        align = 8 if version == 6 or self.pad8 else 4
        return -(-(12 + self.icv) // align) * align


SUITES = [
    Suite("hmac-sha1-96", "hmac(sha1)", 20, 12),
    Suite("hmac-sha1-96", "hmac(sha1)", 20, 12, esn=False),
    Suite("hmac-sha256-128", "hmac(sha256)", 32, 16),
    Suite("hmac-sha256-128", "hmac(sha256)", 32, 16, esn=False, pad8=True),
    Suite("hmac-sha384-192", "hmac(sha384)", 48, 24),
    Suite("hmac-sha512-256", "hmac(sha512)", 64, 32),
]
ENDS = {4: ("198.51.100.1", "198.51.100.2"), 6: ("fd51::1", "fd51::2")}
HOST = {4: "10.2.0.2", 6: "fd02::2"}
HEAD = {4: 20, 6: 40}
SITES = [("10.9.0.0/24", "10.2.0.0/24"), ("fd09::/64", "fd02::/64")]
NODE = """
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
"""


def pair(kind, name, suite, local, remote, spi, keys, more=""):
    return f"""
[[{kind}]]
name = "{name}"
local = "{local}"
remote = "{remote}"
suite = "{suite}"
window = 64
{more}
[{kind}.out]
spi = {spi[1]:#x}
key = "{keys[0]}"
[{kind}.in]
spi = {spi[0]:#x}
key = "{keys[1]}"
"""


def ah(suite, more=""):
    return (f'protocol = "ah"\nesn = {str(suite.esn).lower()}\n'
            f'ah-align = {8 if suite.pad8 else 4}\n{more}')


def policy(kind, name, local=None, remote=None):
    ends = "".join(f'{k} = "{v}"\n' for k, v in (("local", local), ("remote", remote)) if v)
    return f'[[policy]]\ninterface = "wan"\naction = "protect"\n{kind} = "{name}"\n{ends}'


def flush(lines):
    return "\n".join(["set -e", "ip xfrm state flush", "ip xfrm policy flush", *lines])


def states(suite, here, there, mode, out=1, inn=2):
    return [f"ip xfrm state add src {src} dst {dst} proto ah spi {spi:#x} mode {mode} "
            f"{suite.state(seed)}"
            for src, dst, spi, seed in ((here, there, SPI_IN, out), (there, here, SPI_OUT, inn))]


def site_policies(templates):
    """Both sites through templates, which are given the ends of each direction."""
    for own, other in SITES:
        for src, dst, way in ((own, other, "out"), (other, own, "in")):
            yield f"ip xfrm policy add src {src} dst {dst} dir {way} " + templates(way)


def tunnel(bench, suite, outer, out=2, inn=1):
    """A tunnel on both sides."""
    here, there = ENDS[outer]

    def template(way):
        a, b = (here, there) if way == "out" else (there, here)
        return f"tmpl src {a} dst {b} proto ah mode tunnel"
    bench.guest.sh(flush(states(suite, here, there, "tunnel") + list(site_policies(template))))
    text = NODE + pair("tunnel", "t", suite.name, there, here, (SPI_IN, SPI_OUT), ("out", "in"),
                       ah(suite))
    text += "".join(policy("tunnel", "t", own, other) for other, own in SITES)
    return Node(bench.lab, ports() + text, {"out": suite.file(out), "in": suite.file(inn)})


def transport(bench, suite, version, end):
    """Transport mode between Linux and `end`: the node, or a host behind it."""
    here = ENDS[version][0]
    lines = states(suite, here, end, "transport")
    for src, dst, way in ((here, end, "out"), (end, here, "in")):
        lines.append(f"ip xfrm policy add src {src} dst {dst} dir {way} priority 100 "
                     f"tmpl src {src} dst {dst} proto ah mode transport")
        # Neighbours find one another in clear.
        if version == 6:
            lines += [f"ip xfrm policy add src {src} dst {dst} proto ipv6-icmp type {kind} "
                      f"dir {way} priority 1 action allow" for kind in (135, 136)]
    bench.guest.sh(flush(lines))
    text = NODE + pair("transport", "t", suite.name, end, here, (SPI_IN, SPI_OUT), ("out", "in"),
                       ah(suite)) + policy("transport", "t")
    return Node(bench.lab, ports() + text, {"out": suite.file(2), "in": suite.file(1)})


def is_neighbours(frame):
    """ARP, and ICMPv6 between neighbours."""
    kind = ethertype(frame)
    return kind == 0x0806 or (kind == 0x86dd and (frame[20] == 58 and frame[54] in range(133, 138)
                              or frame[20] == 0 and frame[62] == 143))


def ah_at(frame):
    """Where AH is in a frame, behind IPv4 options or IPv6 extension headers."""
    if ethertype(frame) == 0x0800:
        return 14 + (frame[14] & 15) * 4 if frame[23] == 51 else None
    if ethertype(frame) != 0x86dd:
        return None
    kind, at = frame[20], 54
    while kind in (0, 43, 60):
        kind, at = frame[at], at + (frame[at + 1] + 1) * 8
    return at if kind == 51 else None


def look_at(check, frames, spi, who):
    """Only AH, of one SPI, no number twice; the lengths of the packets."""
    clear = [f[:60].hex() for f in frames if ah_at(f) is None and not is_neighbours(f)]
    check.equal(clear[:2], [], f"{who}: nothing in clear")
    sealed = [f for f in frames if ah_at(f) is not None]
    numbers = []
    for f in sealed:
        have, number = struct.unpack("!II", f[ah_at(f) + 4:ah_at(f) + 12])
        numbers.append(number if have == spi else -1)
    check.equal(len(set(numbers)), len(numbers), f"{who}: no number twice")
    check.that(numbers and min(numbers) > 0, f"{who}: SPI and numbers")
    if who == "Ferrule":
        check.that(all(b == a + 1 for a, b in zip(numbers, numbers[1:])), "Ferrule: no gaps")
    return {struct.unpack("!H", f[16:18])[0] if ethertype(f) == 0x0800
            else struct.unpack("!H", f[18:20])[0] + 40 for f in sealed}, len(sealed)


def no_errors(check, bench):
    errors = bench.guest.sh("grep -v '\\s0$' /proc/net/xfrm_stat || true").split()
    check.equal(errors, [], "no error counted by Linux")


def settle(check, bench, node, sizes, ends):
    """Afterwards: every length on the wire, all counted, nothing lost."""
    to, of = bench.wire.take()
    for frames, spi, who in ((to, SPI_IN, "Linux"), (of, SPI_OUT, "Ferrule")):
        lengths, count = look_at(check, frames, spi, who)
        check.equal(sizes - lengths, set(), f"{who}: a packet of every size")
        check.that(max(lengths) <= 1500, f"{who}: none above the MTU: {max(lengths)}")
        way = "in" if who == "Linux" else "out"
        sa = {sa["way"]: sa for sa in node.show("sa")}[way]
        check.equal(sa["packets"] - ends[way], count, f"show sa counts every packet {way}")
    check.equal(node.lost(), {}, "nothing dropped at Ferrule")
    no_errors(check, bench)
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


def counted(node):
    return {sa["way"]: sa["packets"] for sa in node.show("sa")}


def sweep(last, step):
    return f"0-20,{21 + step}-{last - 10}/{step},{last - 9}-{last}"


def tunnels(check, bench, suite, outer, step):
    from pinger import sizes_of
    check.case(f"tunnel, {suite.title()}, outer IPv{outer}")
    node = tunnel(bench, suite, outer)
    for at in ("10.9.0.1", "fd09::1"):      # until all neighbours are known
        bench.host_ping(at, "8")
    bench.wire.take()
    before, added, sizes = counted(node), HEAD[outer] + suite.octets_of(outer), set()
    for linux_at, host_at, header in (("10.9.0.1", "10.2.0.2", 28), ("fd09::1", "fd02::2", 48)):
        text = sweep(1500 - added - header, step)
        host, guest = bench.both_pings((linux_at, text, "--df"), (host_at, text))
        check.pings(host, f"host behind Ferrule to {linux_at}")
        check.pings(guest, f"Linux to {host_at}")
        sizes |= {s + header + added for s in sizes_of(text)}
    settle(check, bench, node, sizes, before)


def transports(check, bench, suite, version, behind, step):
    from pinger import sizes_of
    end = HOST[version] if behind else ENDS[version][1]
    check.case(f"transport, {suite.title()}, IPv{version}, "
               + ("a host behind the node" if behind else "the node itself"))
    node = transport(bench, suite, version, end)
    # Linux goes to the host from its own address, not from its site's.
    route = (f"ip {'-6' if version == 6 else '-4'} route %s {HOST[version]} "
             f"via {ENDS[version][1]} src {ENDS[version][0]}")
    if behind:
        bench.guest.sh(route % "add")
    bench.guest_ping(end, "8")
    bench.wire.take()
    before, header = counted(node), HEAD[version] + 8
    added = suite.octets_of(version)
    text = sweep(1500 - added - header, step)
    if behind:
        host, guest = bench.both_pings((ENDS[version][0], text), (end, text))
        check.pings(host, "the host to Linux")
    else:
        guest = bench.guest_ping(end, text)
    check.pings(guest, f"Linux to {end}")
    settle(check, bench, node, {s + header + added for s in sizes_of(text)}, before)
    if behind:
        bench.guest.sh(route % "del")


# Echo requests with IPv4 options (router alert, record route, timestamp), or with
# hop-by-hop and destination options, one of which may change on the way.
OPTIONS = r"""
import json, socket, struct, sys
sys.path.insert(0, "tests/peers")
from pinger import checksum
address, got = sys.argv[1], 0
if ":" in address:
    s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    cases = [[(54, "0000050200000100")], [(59, "00001e02aabb0100")],
             [(54, "00013e04aabbccdd1e04eeff00110000"[:32]), (59, "0000010400000000")]]
else:
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    cases = [[(4, "94040000")], [(4, "07070400000000" + "00")],
             [(4, "01" + "440c0500" + "0000000000000000" + "000000")], [(4, "9404000007070400000000" + "00")]]
s.settimeout(2)
for n, case in enumerate(cases):
    for what, data in case:
        if ":" in address:
            s.setsockopt(socket.IPPROTO_IPV6, what, bytes.fromhex(data))
        else:
            s.setsockopt(socket.IPPROTO_IP, what, bytes.fromhex(data))
    body = struct.pack("!HH", 77, n) + bytes(range(40 + n))
    kind = 128 if ":" in address else 8
    sum_ = 0 if ":" in address else checksum(struct.pack("!BBH", kind, 0, 0) + body)
    s.sendto(struct.pack("!BBH", kind, 0, sum_) + body, (address, 0))
    try:
        while True:
            data = s.recvfrom(2000)[0]
            data = data if ":" in address else data[(data[0] & 15) * 4:]
            if data[0] in (0, 129) and data[4:] == body:
                got += 1
                break
    except TimeoutError:
        pass
print(json.dumps([len(cases), got]))
"""


def options(check, bench, version):
    check.case(f"transport, IPv{version}, " + ("options" if version == 4 else "extension headers"))
    node = transport(bench, SUITES[0], version, ENDS[version][1])
    bench.guest_ping(ENDS[version][1], "8")
    bench.wire.take()
    text = OPTIONS.replace("'", "'\\''")
    sent, got = json.loads(bench.guest.sh(f"/usr/bin/python3 -c '{text}' {ENDS[version][1]}"))
    check.equal(got, sent, "requests with options, answered")
    heads = {ah_at(f) - 14 for f in bench.wire.take()[0] if ah_at(f) is not None}
    check.that(len(heads) >= 2, f"headers of several lengths stood before AH: {heads}")
    check.equal(node.lost(), {}, "nothing dropped at Ferrule")
    no_errors(check, bench)
    node.stop()


def nested(check, bench, suite):
    """An ESP tunnel in AH's transport mode."""
    check.case(f"ESP in AH, {suite.title()}")
    here, there = ENDS[4]
    gcm = [key(seed, 20) for seed in (7, 8)]
    lines = states(suite, here, there, "transport")
    for src, dst, spi, k in ((here, there, SPI_ESP_IN, gcm[0]), (there, here, SPI_ESP_OUT, gcm[1])):
        lines.append(f"ip xfrm state add src {src} dst {dst} proto esp spi {spi:#x} mode tunnel "
                     f"replay-window 64 flag af-unspec flag esn aead 'rfc4106(gcm(aes))' 0x{k} 128")

    def templates(way):
        a, b = (here, there) if way == "out" else (there, here)
        return (f"tmpl src {a} dst {b} proto esp mode tunnel "
                f"tmpl src {a} dst {b} proto ah mode transport")
    bench.guest.sh(flush(lines + list(site_policies(templates))))
    text = NODE + pair("tunnel", "t", "aes-gcm-128", there, here, (SPI_ESP_IN, SPI_ESP_OUT),
                       ("esp-out", "esp-in"), 'then = "u"')
    text += pair("transport", "u", suite.name, there, here, (SPI_IN, SPI_OUT), ("out", "in"),
                 ah(suite))
    text += "".join(policy("tunnel", "t", own, other) for other, own in SITES)
    file = lambda k: {"cipher": k[:32], "salt": k[32:]}     # noqa: E731
    node = Node(bench.lab, ports() + text, {"out": suite.file(2), "in": suite.file(1),
                                            "esp-out": file(gcm[1]), "esp-in": file(gcm[0])})
    for at in ("10.9.0.1", "fd09::1"):
        bench.host_ping(at, "8")
    bench.wire.take()
    # The largest: AH, then IPv4, ESP's header, IV, trailer and ICV around it.
    room = 1500 - suite.octets_of(4) - 20 - 8 - 8 - 16
    most = room // 4 * 4 - 2
    for linux_at, host_at, header in (("10.9.0.1", "10.2.0.2", 28), ("fd09::1", "fd02::2", 48)):
        text = sweep(most - header, 37)
        host, guest = bench.both_pings((linux_at, text, "--df"), (host_at, text))
        check.pings(host, f"host behind Ferrule to {linux_at}")
        check.pings(guest, f"Linux to {host_at}")
    to, of = bench.wire.take()
    for frames, spi, who in ((to, SPI_IN, "Linux"), (of, SPI_OUT, "Ferrule")):
        look_at(check, frames, spi, who)
        within = {f[ah_at(f)] for f in frames if ah_at(f) is not None}
        check.equal(within, {50}, f"{who}: ESP in AH")
    check.equal(node.lost(), {}, "nothing dropped at Ferrule")
    no_errors(check, bench)
    # Taken out of its AH, the ESP packet is refused.
    bare = []
    for f in to[-20:]:
        at = ah_at(f)
        if at is None:
            continue
        inner = f[at + (f[at + 1] + 2) * 4:]
        head = bytearray(f[14:34])
        head[9] = 50
        head[2:4] = struct.pack("!H", 20 + len(inner))
        head[10:12] = b"\0\0"
        from pinger import checksum
        head[10:12] = struct.pack("!H", checksum(bytes(head)))
        bare.append(f[:14] + bytes(head) + inner)
    before = node.dropped("esp-not-nested")
    for f in bare:
        bench.wire.send(f)
    check.pings(bench.host_ping("10.9.0.1", "8"), "traffic goes on")
    check.equal(node.dropped("esp-not-nested") - before, len(bare), "esp-not-nested")
    check.that(bare, "and there were some")
    node.stop()


def fragments(check, bench, suite):
    """Linux authenticates whole and cuts; Ferrule puts together."""
    check.case("fragments outside")
    node = tunnel(bench, suite, 4)
    bench.host_ping("10.9.0.1", "8")
    bench.wire.take()
    check.pings(bench.guest_ping("10.2.0.2", "1440-1640/25"), "Linux to the host, too long for the path")
    to, of = bench.wire.take()
    for frames, who in ((to, "Linux"), (of, "Ferrule")):
        cut = [f for f in frames if ethertype(f) == 0x0800 and struct.unpack("!H", f[20:22])[0] & 0x3fff]
        check.that(len(cut) >= 8, f"{who} cut outer packets: {len(cut)}")
    check.equal(node.lost(), {}, "nothing dropped at Ferrule")
    node.stop()


def wrong_key(check, bench, suite):
    check.case(f"wrong key, {suite.title()}")
    node = tunnel(bench, suite, 4, inn=5)
    bench.guest_ping("198.51.100.2", "8", "--cold", "--wait 0.1")
    bench.wire.take()
    check.silent(bench.guest_ping("10.2.0.2", "0-59", "--cold", "--wait 0.3"), "to Ferrule")
    to, of = bench.wire.take()
    sent = len([f for f in to if ah_at(f) is not None])
    check.equal(node.dropped("ah-bad-icv"), sent, "ah-bad-icv")
    check.that(sent >= 60, f"all of them: {node.drops()}")
    check.that(not [f for f in of if ah_at(f) is not None], "no reply")
    node.stop()
    node = tunnel(bench, suite, 4, out=6)
    check.silent(bench.host_ping("10.9.0.1", "0-59", "--cold", "--wait 0.3"), "to Linux")
    errors = dict(line.split() for line in bench.guest.sh("cat /proc/net/xfrm_stat").splitlines())
    check.that(int(errors["XfrmInStateProtoError"]) >= 60, f"Linux refuses them: {errors}")
    node.stop()


def attacks(check, bench, suite):
    check.case("replayed, altered, clear and unknown packets")
    node = tunnel(bench, suite, 4)
    bench.guest_ping("10.2.0.2", "8")
    bench.wire.take()
    bench.guest_ping("10.2.0.2", "0-60")
    seen = [f for f in bench.wire.take()[0] if ah_at(f) is not None][-40:]

    def good(f):
        from pinger import checksum
        head = f[14:24] + b"\0\0" + f[26:34]
        return f[:24] + struct.pack("!H", checksum(head)) + f[26:]

    def clear(f):
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 48, 0, 0, 64, 17, 0,
                           bytes([10, 9, 0, 1]), bytes([10, 2, 0, 2]))
        return good(f[:14] + head + struct.pack("!HHHH", 7, 7, 28, 0) + bytes(20))

    def ahead(f):
        return f[:42] + struct.pack("!I", struct.unpack("!I", f[42:46])[0] + 5000) + f[46:]
    kinds = {
        "ah-replay": seen,
        "ah-bad-icv": [ahead(f) for f in seen] + [ahead(f)[:-1] + bytes([f[-1] ^ 1]) for f in seen]
        # The identification is under the ICV.
        + [good(ahead(f)[:18] + bytes([f[18] ^ 1]) + ahead(f)[19:]) for f in seen],
        "ah-unknown-spi": [f[:38] + b"\x12\x34\x56\x78" + f[42:] for f in seen],
        "ah-bad-header": [ahead(f)[:35] + b"\x09" + ahead(f)[36:] for f in seen],
        "esp-required": [clear(f) for f in seen],
    }
    before, got = node.drops(), {}
    t = threading.Thread(target=lambda: got.update(
        bench.host_ping("10.9.0.1", "0-1400/3", "--every 0.002")))
    t.start()
    for frames in kinds.values():
        for f in frames:
            bench.wire.send(f)
    t.join()
    check.pings(got, "traffic goes on meanwhile")
    after = node.drops()
    for reason, frames in kinds.items():
        check.equal(after.get(reason, 0) - before.get(reason, 0), len(frames), reason)
    check.equal({r for r in after if r.startswith(("esp", "ah-"))} - set(kinds), set(), "no other drop")
    check.pings(bench.guest_ping("10.2.0.2", "0-1400/7"), "traffic goes on afterwards")
    node.stop()


def main():
    signals_exit()
    need()
    check = Check()
    with Lab(cpu=CPU) as lab:
        bench = Bench(lab, "dummy ah4 ah6 esp4 esp6 xfrm_user")
        bench.guest.sh("""set -e
ip link add d0 type dummy; ip link set d0 up
ip addr add 10.9.0.1/24 dev d0; ip -6 addr add fd09::1/64 dev d0 nodad
ip addr add 198.51.100.1/24 dev vec0; ip -6 addr add fd51::1/64 dev vec0 nodad
ip route add 10.2.0.0/24 via 198.51.100.2 src 10.9.0.1
ip -6 route add fd02::/64 via fd51::2 src fd09::1""")
        lab.ip("route", "add", "10.9.0.0/24", "via", "10.2.0.1")
        lab.ip("route", "add", "198.51.100.0/24", "via", "10.2.0.1")
        lab.ip("route", "add", "fd09::/64", "via", "fd02::1")
        lab.ip("route", "add", "fd51::/64", "via", "fd02::1")
        for i, suite in enumerate(SUITES):
            tunnels(check, bench, suite, 4, 29 if i < 2 else 211)
        for suite in (SUITES[0], SUITES[2]):
            tunnels(check, bench, suite, 6, 97)
        for version in (4, 6):
            transports(check, bench, SUITES[0], version, False, 97)
            transports(check, bench, SUITES[2], version, True, 97)
            options(check, bench, version)
        nested(check, bench, SUITES[2])
        fragments(check, bench, SUITES[0])
        for suite in (SUITES[1], SUITES[2]):
            wrong_key(check, bench, suite)
        attacks(check, bench, SUITES[1])
    check.done()


if __name__ == "__main__":
    main()
