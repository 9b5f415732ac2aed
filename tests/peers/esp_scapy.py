#!/usr/bin/env python3
# time-limit: 200
"""ESP and AH beside an independent implementation, scapy's, at random.

One gateway with a pair of SAs for each suite, mode, family of addresses and option
that both have. Some 5,000 packets of random size, class, protocol and content go
through it: in clear by one port and sealed by the other, where scapy opens them; and
sealed by scapy and opened by the gateway. What comes out must be what went in, one hop
older, to the last octet. A seed as the argument repeats a run.
"""
import os
import random
import struct
import sys
import time
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peernode import CPU, Check, Lab, Node, Wire, need, ports, signals_exit  # noqa: E402

warnings.filterwarnings("ignore")

NODE_WAN, NODE_LAN = "020000000002", "020000000003"
GATEWAY = {4: ("198.51.100.2", "198.51.100.1"), 6: ("fd51::2", "fd51::1")}
HOST = {4: "10.2.0.2", 6: "fd02::2"}
BURST = 16


def need_scapy():
    """Ends the test with 77 where scapy is not installed."""
    try:
        import scapy.layers.ipsec  # noqa: F401
    except ImportError:
        print("no scapy (Debian: python3-scapy)")
        raise SystemExit(77)


class Suite:
    """A suite as both call it, with the octets of its keys."""

    def __init__(self, name, crypt, auth, cipher=0, integrity=0, salt=0):
        self.name, self.crypt, self.auth = name, crypt, auth
        self.cipher, self.integrity, self.salt = cipher, integrity, salt


HMACS = [("hmac-sha1-96", "HMAC-SHA1-96", 20), ("hmac-sha256-128", "SHA2-256-128", 32),
         ("hmac-sha384-192", "SHA2-384-192", 48), ("hmac-sha512-256", "SHA2-512-256", 64)]


def esp_suites():
    for bits in (128, 192, 256):
        yield Suite(f"aes-gcm-{bits}", "AES-GCM", "NULL", bits // 8, 0, 4)
    yield Suite("chacha20-poly1305", "CHACHA20-POLY1305", "NULL", 32, 0, 4)
    for name, auth, octets in HMACS:
        for bits in (128, 192, 256):
            yield Suite(f"aes-cbc-{bits} {name}", "AES-CBC", auth, bits // 8, octets)
        yield Suite(f"aes-ctr-128 {name}", "AES-CTR", auth, 16, octets, 4)
        yield Suite(f"null {name}", "NULL", auth, 0, octets)


def ah_suites():
    for name, auth, octets in HMACS:
        yield Suite(name, None, auth, 0, octets)


class Pair:
    """A pair of SAs: who it is for, and how."""

    def __init__(self, number, rng, suite, protocol, mode, outer, inner, esn, udp):
        self.number, self.suite, self.protocol, self.mode = number, suite, protocol, mode
        self.outer, self.inner, self.esn, self.udp = outer, inner, esn, udp
        self.name = f"p{number}"
        self.spi = {"out": 0x1000 + 2 * number, "in": 0x1001 + 2 * number}
        self.keys = {way: [rng.randbytes(n) for n in (suite.cipher, suite.integrity, suite.salt)]
                     for way in ("out", "in")}
        hosts = {4: f"198.51.101.{number + 1}", 6: f"fd51:1::{number + 1:x}"}
        sites = {4: f"10.9.{number}.", 6: f"fd09:{number + 1:x}::"}
        self.remote = hosts[outer] if mode == "transport" else GATEWAY[outer][1]
        self.site = sites[inner]

    def __str__(self):
        words = [self.protocol, self.suite.name, self.mode, f"IPv{self.inner} in IPv{self.outer}"]
        return ", ".join(words + ["ESN"] * self.esn + ["UDP"] * self.udp)

    def local(self):
        return HOST[self.outer] if self.mode == "transport" else GATEWAY[self.outer][0]

    def files(self):
        words = ("cipher", "integrity", "salt")
        return {f"{way}{self.number}": {w: k.hex() for w, k in zip(words, self.keys[way]) if k}
                for way in ("out", "in")}

    def config(self):
        table = self.mode
        sa = {way: f'{{ spi = {self.spi[way]}, key = "{way}{self.number}" }}'
              for way in ("out", "in")}
        net = {4: "0/24", 6: "/64"}[self.inner]
        where = "" if table == "transport" else \
            f'local = "{ {4: "10.2.0.0/24", 6: "fd02::/64"}[self.inner] }"\n' \
            f'remote = "{self.site}{net}"\n'
        return f"""
[[{table}]]
name = "{self.name}"
protocol = "{self.protocol}"
local = "{self.local()}"
remote = "{self.remote}"
suite = "{self.suite.name}"
esn = {str(self.esn).lower()}
window = 4096
{'encapsulation = "udp"' if self.udp else ''}
out = {sa["out"]}
in = {sa["in"]}
[[policy]]
interface = "wan"
action = "protect"
{table} = "{self.name}"
{where}"""

    def scapy(self, way):
        """The same SA as scapy's."""
        from scapy.layers.inet import IP
        from scapy.layers.inet6 import IPv6
        from scapy.layers.ipsec import AH, ESP, SecurityAssociation
        cipher, integrity, salt = self.keys[way]
        ends = (self.local(), self.remote)
        src, dst = ends if way == "out" else ends[::-1]
        more = {}
        if self.mode == "tunnel":
            more["tunnel_header"] = (IP if self.outer == 4 else IPv6)(src=src, dst=dst)
        if self.protocol == "esp":
            more |= {"crypt_algo": self.suite.crypt, "crypt_key": (cipher + salt) or None}
        if integrity:
            more |= {"auth_algo": self.suite.auth, "auth_key": integrity}
        return SecurityAssociation({"esp": ESP, "ah": AH}[self.protocol], spi=self.spi[way],
                                   esn_en=self.esn, esn=0, **more)

    def packet(self, rng, outbound):
        """A packet of this pair's traffic, in clear, before its hop."""
        here = HOST[self.inner]
        if self.mode == "transport":
            there = self.remote
        else:
            there = self.site + (str(rng.randrange(1, 250)) if self.inner == 4
                                 else f"{rng.randrange(1, 0xfff0):x}")
        return make(rng, *((here, there) if outbound else (there, here)), self.inner)


def make(rng, src, dst, version):
    """An IP packet of random content."""
    from scapy.layers.inet import ICMP, IP, TCP, UDP
    from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
    from scapy.packet import Raw
    size = rng.choice([0, 1, rng.randrange(64), rng.randrange(1200)])
    kinds = [UDP(sport=rng.randrange(1, 65536), dport=rng.randrange(10000, 65536)),
             TCP(sport=rng.randrange(1, 65536), dport=rng.randrange(1, 65536), flags="A",
                 seq=rng.getrandbits(32)),
             ICMP(id=rng.getrandbits(16)) if version == 4 else
             ICMPv6EchoRequest(id=rng.getrandbits(16))]
    upper = rng.choice(kinds) / Raw(rng.randbytes(size))
    # Not CE: it is marked by routers alone.
    field = rng.randrange(64) << 2 | rng.randrange(3)
    hops = rng.randrange(2, 256)
    if version == 4:
        flags = rng.choice(["", "DF"])
        head = IP(src=src, dst=dst, tos=field, ttl=hops, id=rng.getrandbits(16), flags=flags)
    else:
        head = IPv6(src=src, dst=dst, tc=field, hlim=hops, fl=rng.getrandbits(20))
    return bytes(head / upper)


def checked(header):
    """An IPv4 header with its checksum."""
    header[10:12] = b"\0\0"
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    header[10:12] = struct.pack("!H", ~total & 0xffff)
    return bytes(header)


def one_hop_later(octets):
    """As a router sends it on (RFC 1812 section 5.3.1, RFC 8200 section 3)."""
    later = bytearray(octets)
    if later[0] >> 4 == 6:
        later[7] -= 1
        return bytes(later)
    later[8] -= 1
    return checked(later[:20]) + bytes(later[20:])


def in_udp(octets):
    """ESP behind an IPv4 header of 20 octets, in UDP (RFC 3948 section 2.1)."""
    header, esp = bytearray(octets[:20]), octets[20:]
    header[2:4] = struct.pack("!H", len(octets) + 8)
    header[9] = 17
    return checked(header) + struct.pack("!HHHH", 4500, 4500, len(esp) + 8, 0) + esp


def out_of_udp(octets):
    """The same back. Its ports, length and checksum must be those."""
    header, udp = bytearray(octets[:20]), octets[20:28]
    if udp != struct.pack("!HHHH", 4500, 4500, len(octets) - 20, 0) or header[9] != 17:
        raise ValueError(f"UDP header {udp.hex()}")
    header[2:4] = struct.pack("!H", len(octets) - 8)
    header[9] = 50
    return checked(header) + octets[28:]


def parsed(octets):
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    return (IP if octets[0] >> 4 == 4 else IPv6)(octets)


def ethernet(mac, octets):
    kind = b"\x08\x00" if octets[0] >> 4 == 4 else b"\x86\xdd"
    return bytes.fromhex(mac) + bytes.fromhex("020000000009") + kind + octets


def ip_of(frame):
    """The IP packet of a frame, without what Ethernet pads it with."""
    kind, octets = frame[12:14], frame[14:]
    if kind == b"\x08\x00":
        return octets[:struct.unpack("!H", octets[2:4])[0]]
    if kind == b"\x86\xdd":
        return octets[:40 + struct.unpack("!H", octets[4:6])[0]]
    return b""


def pairs_of(rng):
    """Every suite with modes, families and options; the options at random."""
    number = 0
    for protocol, suites in (("esp", list(esp_suites())), ("ah", list(ah_suites()))):
        for suite in suites:
            shapes = [("tunnel", 4, 4), ("tunnel", 6, 4), ("tunnel", 4, 6), ("transport", 4, 4),
                      ("transport", 6, 6)]
            for mode, outer, inner in shapes if number % 4 == 0 else rng.sample(shapes, 3):
                udp = protocol == "esp" and outer == 4 and rng.random() < 0.3
                # Scapy leaves the high half of the number out of ESP's HMAC (RFC 4303
                # section 2.2.1 has it in); those against Linux and the vectors cover it.
                esn = (protocol == "ah" or suite.auth == "NULL") and rng.random() < 0.5
                yield Pair(number, rng, suite, protocol, mode, outer, inner, esn, udp)
                number += 1


def sealed_here(check, pair, rng, lan, wan, count):
    """The gateway seals, scapy opens."""
    sa, want = pair.scapy("out"), {}
    for _ in range(count):
        octets = pair.packet(rng, True)
        want[one_hop_later(octets)] = octets
        lan.send(ethernet(NODE_LAN, octets))
    seen, deadline = [], time.monotonic() + 3
    while want and time.monotonic() < deadline:
        for frame in lately(wan):
            octets = ip_of(frame)
            if not octets or not is_of(octets, pair.spi["out"], pair):
                continue
            try:
                sealed = out_of_udp(octets) if pair.udp else octets
                clear = bytes(sa.decrypt(parsed(sealed), esn_en=pair.esn, esn=0))
            except Exception as e:      # whatever scapy says of it
                seen.append(f"{type(e).__name__}: {e}")
                continue
            if want.pop(clear, None) is None:
                seen.append(clear.hex())
    return check.that(not want, f"{pair}: scapy opens what Ferrule sealed: {len(want)} of {count} "
                      f"are missing, such as {next(iter(want), b'').hex()[:120]}; "
                      f"others: {[s[:120] for s in seen[:2]]}")


def opened_here(check, pair, rng, lan, wan, count, first):
    """Scapy seals, the gateway opens."""
    sa, want = pair.scapy("in"), set()
    for n in range(count):
        octets = pair.packet(rng, False)
        want.add(one_hop_later(octets))
        sealed = bytes(sa.encrypt(parsed(octets), seq_num=first + n, esn_en=pair.esn, esn=0))
        wan.send(ethernet(NODE_WAN, in_udp(sealed) if pair.udp else sealed))
    missing, deadline = set(want), time.monotonic() + 3
    while missing and time.monotonic() < deadline:
        missing -= {ip_of(frame) for frame in lately(lan)}
    return check.that(not missing, f"{pair}: Ferrule opens what scapy sealed: {len(missing)} of "
                      f"{count} are missing, such as {next(iter(missing), b'').hex()[:160]}")


def lately(wire):
    """Frames of the gateway since the last look."""
    time.sleep(0.005)
    with wire.lock:
        frames, wire.frames = wire.frames, []
    return [frame for to, frame in frames if not to]


def is_of(octets, spi, pair):
    """Whether it is sealed by this SA."""
    at = 20 if pair.outer == 4 else 40
    if (octets[0] >> 4) != pair.outer or len(octets) < at + 16:
        return False
    at += 8 if pair.udp else 0
    at += 4 if pair.protocol == "ah" else 0
    return struct.unpack("!I", octets[at:at + 4])[0] == spi


ROUTES = """
[[interface]]
port = "wan"
address = ["198.51.100.2/24", "fd51::2/64"]
[[interface]]
port = "lan"
address = ["10.2.0.1/24", "fd02::1/64"]
[[route]]
prefix = "10.9.0.0/16"
via = "198.51.100.1"
[[route]]
prefix = "fd09::/16"
via = "fd51::1"
[[route]]
prefix = "198.51.101.0/24"
via = "198.51.100.1"
[[route]]
prefix = "fd51:1::/64"
via = "fd51::1"
"""


def main():
    signals_exit()
    need()
    need_scapy()
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    rng, check = random.Random(seed), Check()
    with Lab(cpu=CPU) as lab:
        for tap, addresses in (("fw", ("198.51.100.1/24", "fd51::1/64")),
                               ("fl", ("10.2.0.2/24", "fd02::2/64"))):
            lab.tap(tap)
            lab.sh(f"echo 0 >/proc/sys/net/ipv6/conf/{tap}/disable_ipv6")
            for a in addresses:
                lab.ip("addr", "add", a, "dev", tap, *(["nodad"] if ":" in a else []))
        pairs = list(pairs_of(rng))
        each = -(-5000 // (2 * len(pairs)))
        text = ports() + ROUTES + "".join(p.config() for p in pairs)
        files = {name: words for p in pairs for name, words in p.files().items()}
        check.case(f"{len(pairs)} pairs of SAs, {2 * each * len(pairs)} packets")
        node = Node(lab, text, files)
        lan, wan = Wire(lab, "fl"), Wire(lab, "fw")
        for pair in (next(p for p in pairs if p.inner == 4), next(p for p in pairs if p.inner == 6)):
            for _ in range(60):         # until neighbours are known
                lan.send(ethernet(NODE_LAN, pair.packet(rng, True)))
                time.sleep(0.02)
        for pair in pairs:
            lately(lan), lately(wan)
            done = 0
            while done < each:
                count = min(BURST, each - done)
                sealed_here(check, pair, rng, lan, wan, count)
                opened_here(check, pair, rng, lan, wan, count, done + 1)
                done += count
        drops = {r: n for r, n in node.drops().items() if r.startswith(("esp", "ah"))}
        check.equal(drops, {}, "no ESP or AH drop")
        check.equal(node.stop(), 0, "Ferrule ends cleanly")
        lan.close()
        wan.close()
    check.done()


if __name__ == "__main__":
    main()
