#!/usr/bin/env python3
# time-limit: 360
"""ESP tunnels between a Linux kernel and a Ferrule gateway, over a TAP.

Every suite that both have, with and without extended sequence numbers, IPv4 and
IPv6 inside IPv4 and inside IPv6, from both sides, from the smallest packet to the
largest that the outer MTU of 1500 carries whole; of most suites the sizes near both
ends. Then packets that are too big and must not be fragmented, wrong keys, replayed,
altered and clear packets. With `inline` as its argument the same with crypto in the
port, a part of the suites, and a card that is reset; with `whole` more pairs.
"""
import os
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peernode import (  # noqa: E402
    CPU, Bench, Check, Lab, Node, ethertype, need, ports, signals_exit)

# Where Ferrule seals and opens.
PLACEMENT = "inline" if "inline" in sys.argv else "software"
# From Linux to Ferrule, and back.
SPI_IN, SPI_OUT = 0x00c0ffee, 0x10000007


def key(seed, octets):
    return bytes((seed * 59 + i * 11) & 0xff for i in range(octets)).hex()


class Suite:
    """A suite, as both sides call it, and what it adds."""

    def __init__(self, name, linux, cipher, integrity=0, salt=0, block=4, iv=8, icv=16, esn=True,
                 study=False):
        self.name, self.linux_form = name, linux
        self.cipher, self.integrity, self.salt = cipher, integrity, salt
        self.block, self.iv, self.icv, self.esn = block, iv, icv, esn
        # Refused outside a laboratory.
        self.study = study

    def linux_keys(self, seed):
        c, i, s = self.parts(seed)
        return self.linux_form.format(aead=c + s, cipher=c, integrity=i)

    def parts(self, seed):
        return (key(seed, self.cipher), key(seed + 100, self.integrity), key(seed + 200, self.salt))

    def file(self, seed):
        words = zip(("cipher", "integrity", "salt"), self.parts(seed))
        return {w: v for w, v in words if v}

    def sealed(self, inner, outer):
        """Octets of the outer packet around an inner one (RFC 4303 section 2)."""
        padded = -(-(inner + 2) // self.block) * self.block
        return outer + 8 + self.iv + padded + self.icv

    def largest(self, outer, mtu=1500):
        room = mtu - outer - 8 - self.iv - self.icv
        return room // self.block * self.block - 2


GCM = "aead 'rfc4106(gcm(aes))' 0x{aead} 128"
CHACHA = "aead 'rfc7539esp(chacha20,poly1305)' 0x{aead} 128"
CBC = "enc 'cbc(aes)' 0x{cipher} auth-trunc 'hmac(%s)' 0x{integrity} %d"
SUITES = [
    Suite("aes-gcm-128", GCM, 16, salt=4),
    Suite("aes-gcm-128", GCM, 16, salt=4, esn=False),
    Suite("aes-cbc-128 hmac-sha1-96", CBC % ("sha1", 96), 16, 20, block=16, iv=16, icv=12,
          esn=False),
    Suite("aes-cbc-128 hmac-sha1-96", CBC % ("sha1", 96), 16, 20, block=16, iv=16, icv=12),
    Suite("aes-cbc-128 hmac-sha256-128", CBC % ("sha256", 128), 16, 32, block=16, iv=16),
    Suite("aes-gcm-256", GCM, 32, salt=4),
    Suite("chacha20-poly1305", CHACHA, 32, salt=4),
]
# Keyed hashes: Ferrule's word, the kernel's, octets of key and of ICV.
HASHES = {
    "md5": ("hmac-md5-96", "md5", 16, 12),
    "sha1": ("hmac-sha1-96", "sha1", 20, 12),
    "sha256": ("hmac-sha256-128", "sha256", 32, 16),
    "sha384": ("hmac-sha384-192", "sha384", 48, 24),
    "sha512": ("hmac-sha512-256", "sha512", 64, 32),
}


def pair(cipher, linux, octets, hash_, **sizes):
    """A cipher with a keyed hash beside it."""
    word, theirs, key_len, icv = HASHES[hash_]
    linux += f" auth-trunc 'hmac({theirs})' 0x{{integrity}} {icv * 8}"
    return Suite(f"{cipher} {word}", linux, octets, key_len, icv=icv, **sizes)


def cbc(bits, hash_, **more):
    return pair(f"aes-cbc-{bits}", "enc 'cbc(aes)' 0x{cipher}", bits // 8, hash_, block=16, iv=16,
                **more)


def ctr(bits, hash_, **more):
    return pair(f"aes-ctr-{bits}", "enc 'rfc3686(ctr(aes))' 0x{aead}", bits // 8, hash_, salt=4,
                **more)


def null(hash_, **more):
    return pair("null", "enc 'ecb(cipher_null)' ''", 0, hash_, iv=0, **more)


def gmac(bits, **more):
    return Suite(f"aes-gmac-{bits}", "aead 'rfc4543(gcm(aes))' 0x{aead} 128", bits // 8, salt=4,
                 **more)


def des(hash_, **more):
    return pair("des-cbc", "enc 'cbc(des)' 0x{cipher}", 8, hash_, block=8, study=True, **more)


def triple_des(hash_, **more):
    return pair("3des-cbc", "enc 'cbc(des3_ede)' 0x{cipher}", 24, hash_, block=8, study=True,
                **more)


# Each other cipher and hash at least once, with and without ESN where that matters.
MORE = [
    Suite("aes-gcm-192", GCM, 24, salt=4),
    gmac(128), gmac(192, esn=False), gmac(256),
    ctr(128, "sha1"), ctr(192, "sha384", esn=False), ctr(256, "sha512"),
    cbc(192, "sha384"), cbc(256, "sha512"),
    null("sha1"), null("sha256", esn=False),
    des("md5"), triple_des("sha1", esn=False),
]
# Other pairs of the same algorithms: with `whole` as the argument.
WHOLE = [
    gmac(128, esn=False), ctr(128, "sha1", esn=False), cbc(256, "sha512", esn=False),
    null("sha384"), null("sha512"), des("sha1", esn=False), triple_des("md5", esn=False),
    null("md5", study=True),
]
ENDS = {4: ("198.51.100.1", "198.51.100.2"), 6: ("fd51::1", "fd51::2")}
OUTER = {4: 20, 6: 40}
SITES = [("10.9.0.0/24", "10.2.0.0/24"), ("fd09::/64", "fd02::/64")]


def linux(suite, outer, out=1, inn=2):
    """The kernel's gateway; its own site is an address of a dummy interface."""
    here, there = ENDS[outer]
    esn = "flag af-unspec" + (" flag esn" if suite.esn else "")
    lines = ["set -e", "ip xfrm state flush", "ip xfrm policy flush"]
    for src, dst, spi, seed in ((here, there, SPI_IN, out), (there, here, SPI_OUT, inn)):
        lines.append(f"ip xfrm state add src {src} dst {dst} proto esp spi {spi:#x} mode tunnel "
                     f"replay-window 64 {esn} {suite.linux_keys(seed)}")
    for own, other in SITES:
        for src, dst, a, b, way in ((own, other, here, there, "out"),
                                    (other, own, there, here, "in")):
            lines.append(f"ip xfrm policy add src {src} dst {dst} dir {way} "
                         f"tmpl src {a} dst {b} proto esp mode tunnel")
    return "\n".join(lines)


def ferrule(suite, outer, more=""):
    there, here = ENDS[outer]
    node = "lab = true\n" if suite.study else ""
    policies = "".join(f"""
[[policy]]
interface = "wan"
action = "protect"
tunnel = "t"
local = "{own}"
remote = "{other}"
""" for other, own in SITES)
    return node + ports() + f"""
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
[[tunnel]]
name = "t"
local = "{here}"
remote = "{there}"
suite = "{suite.name}"
esn = {str(suite.esn).lower()}
window = 64
placement = "{PLACEMENT}"
[tunnel.out]
spi = {SPI_OUT:#x}
key = "out"
[tunnel.in]
spi = {SPI_IN:#x}
key = "in"
""" + policies + more


def start(bench, suite, outer, out=2, inn=1):
    return Node(bench.lab, ferrule(suite, outer), {"out": suite.file(out), "in": suite.file(inn)})


def is_esp(frame):
    kind = ethertype(frame)
    return (kind == 0x0800 and frame[23] == 50) or (kind == 0x86dd and frame[20] == 50)


def esp_of(frame):
    """Where the ESP header of a frame is."""
    return 34 if ethertype(frame) == 0x0800 else 54


def is_neighbours(frame):
    """ARP, and ICMPv6 between neighbours."""
    kind = ethertype(frame)
    return kind == 0x0806 or (kind == 0x86dd and (frame[20] == 58 and frame[54] in range(133, 138)
                              or frame[20] == 0 and frame[62] == 143))


def look_at(check, frames, spi, who):
    clear = [f[:60].hex() for f in frames if not is_esp(f) and not is_neighbours(f)]
    check.equal(clear[:2], [], f"{who}: nothing in clear")
    sealed = [f for f in frames if is_esp(f)]
    numbers = []
    for f in sealed:
        at = esp_of(f)
        have, number = struct.unpack("!II", f[at:at + 8])
        numbers.append(number if have == spi else -1)
    jumps = [(a, b) for a, b in zip(numbers, numbers[1:])
             if b != a + 1 and who == "Ferrule"]
    check.equal(len(set(numbers)), len(numbers), f"{who}: no number twice")
    check.that(numbers and min(numbers) > 0 and not jumps, f"{who}: SPI and numbers: {jumps}")
    # Ethernet pads to 60 octets; the packet says how long it is.
    lengths = {struct.unpack("!H", f[16:18])[0] if ethertype(f) == 0x0800
               else struct.unpack("!H", f[18:20])[0] + 40 for f in sealed}
    return lengths, len(sealed)


def sweeps(suite, outer, sizes):
    """Payload sizes for IPv4 and IPv6, to the largest that fits."""
    most = suite.largest(OUTER[outer])
    texts = []
    for header in (28, 48):
        last = most - header
        texts.append({"all": f"0-{last}", "most": f"0-50,57-{last - 36}/19,{last - 35}-{last}",
                      "few": f"0-17,500,{last - 17}-{last}"}[sizes])
    return texts


def sizes(text):
    from pinger import sizes_of
    return set(sizes_of(text))


def one_kind(check, bench, suite, outer, which="most"):
    check.case(f"{suite.name}{', ESN' if suite.esn else ''}, outer IPv{outer}")
    bench.guest.sh(linux(suite, outer))
    node = start(bench, suite, outer)
    for at in ("10.9.0.1", "fd09::1"):      # until all neighbours are known
        bench.host_ping(at, "8")
    bench.wire.take()
    first = {sa["way"]: sa["packets"] for sa in node.show("sa")}
    sweep4, sweep6 = sweeps(suite, outer, which)
    for sweep, linux_at, host_at in ((sweep4, "10.9.0.1", "10.2.0.2"),
                                     (sweep6, "fd09::1", "fd02::2")):
        host, guest = bench.both_pings((linux_at, sweep, "--df"), (host_at, sweep))
        check.pings(host, f"host behind Ferrule to {linux_at}")
        check.pings(guest, f"Linux to {host_at}")
    to, of = bench.wire.take()
    want = {suite.sealed(s + 28, OUTER[outer]) for s in sizes(sweep4)} \
        | {suite.sealed(s + 48, OUTER[outer]) for s in sizes(sweep6)}
    counts = {}
    for frames, spi, who in ((to, SPI_IN, "Linux"), (of, SPI_OUT, "Ferrule")):
        lengths, counts[who] = look_at(check, frames, spi, who)
        check.equal(want - lengths, set(), f"{who}: a packet of every size")
        check.that(max(lengths) <= 1500, f"{who}: none above the MTU: {max(lengths)}")
    check.equal(node.lost(), {}, "nothing dropped at Ferrule")
    sas = {sa["way"]: sa for sa in node.show("sa")}
    for way, who in (("in", "Linux"), ("out", "Ferrule")):
        check.equal(sas[way]["packets"] - first[way], counts[who], f"show sa counts every packet {way}")
    errors = bench.guest.sh("grep -v '\\s0$' /proc/net/xfrm_stat || true").split()
    check.equal(errors, [], "no error counted by Linux")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


SERVER = """import hashlib, socket, sys
s = socket.create_server(("", 7000)); s.settimeout(20)
c, _ = s.accept(); c.settimeout(20)
h, n = hashlib.sha256(), 0
while (d := c.recv(65536)):
    h.update(d); n += len(d)
print(n, h.hexdigest())
"""
CLIENT = """import hashlib, socket
d = bytes(i * i & 0xff for i in range(400000))
c = socket.create_connection(("10.9.0.1", 7000), 10); c.settimeout(20)
c.sendall(d); c.close()
print(len(d), hashlib.sha256(d).hexdigest())
"""


def echoes(bench):
    """Echo requests that Linux took, datagrams that it put together."""
    rows = [line.split() for line in bench.guest.sh("cat /proc/net/snmp").splitlines()]
    tables = {}
    for names, values in zip(rows[::2], rows[1::2]):
        tables[names[0]] = dict(zip(names[1:], map(int, values[1:])))
    return tables["Icmp:"]["InEchos"], tables["Ip:"]["ReasmOKs"]


def too_big(check, bench, suite):
    """ICMP says how much fits, and the host keeps to it (RFC 1191, RFC 8201)."""
    check.case("too big for the tunnel")
    most = suite.largest(20)
    bench.guest.sh(linux(suite, 4))
    node = start(bench, suite, 4)
    lab = bench.lab
    bench.host_ping("10.9.0.1", "8")
    from peernode import Wire
    lan = Wire(lab, "fl")
    fits = f"{most - 28}"
    check.pings(bench.host_ping("10.9.0.1", fits, "--df"), "the largest that fits")
    result = bench.host_ping("10.9.0.1", f"{most - 27}", "--df", "--cold", "--wait 0.3")
    check.silent(result, "one octet more, and not to be fragmented")
    _, of = lan.take()
    errors = [f for f in of if ethertype(f) == 0x0800 and f[23] == 1 and f[34:36] == b"\x03\x04"]
    check.equal([struct.unpack("!H", f[40:42])[0] for f in errors], [most],
                "fragmentation needed, with the MTU")
    check.that(f"mtu {most}" in lab.sh("ip route get 10.9.0.1"), "the host learned it")
    check.equal(bench.host_ping("10.9.0.1", "1440", "--df", "--cold", "--wait 0.2")["refused"],
                [[1440, 90]], "and sends none that is larger")
    # Both seal what is long whole, and cut the outer packet.
    before = echoes(bench)
    cut = bench.host_ping("10.9.0.1", "1500-1650/50", "--cold", "--wait 0.3")
    if PLACEMENT == "inline":
        # A card puts nothing together.
        check.silent(cut, "outer fragments of Linux, to a card")
        check.that(node.dropped("fragment-not-supported") >= 8, f"counted: {node.drops()}")
    else:
        check.pings(cut, "outer fragments of Linux")
    check.equal([b - a for a, b in zip(before, echoes(bench))], [4, 4],
                "Linux put together and took the fragments of four requests")
    # Once duplicate address detection is through, the node answers for its address.
    check.pings(bench.host_ping("fd09::1", "8"), "IPv6, the node's address in use")
    lan.take()
    result = bench.host_ping("fd09::1", f"{most - 47}", "--df", "--cold", "--wait 0.3")
    check.silent(result, "IPv6, one octet too many")
    _, of = lan.take()
    errors = [f for f in of if ethertype(f) == 0x86dd and f[20] == 58 and f[54] == 2]
    check.equal([struct.unpack("!I", f[58:62])[0] for f in errors], [most],
                "packet too big, with the MTU")
    check.pings(bench.host_ping("fd09::1", "1400-3000/400"), "IPv6 fragments of the host pass")
    lan.close()
    # A stream that starts with segments too large.
    lab.sh("ip route flush cache")
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
    node.stop()


def wrong_key(check, bench, suite):
    check.case(f"wrong key, {suite.name}")
    bench.guest.sh(linux(suite, 4))
    node = start(bench, suite, 4, inn=5)
    bench.guest_ping("198.51.100.2", "8", "--cold", "--wait 0.1")
    bench.wire.take()
    check.silent(bench.guest_ping("10.2.0.2", "0-59", "--cold", "--wait 0.3"), "to Ferrule")
    to, of = bench.wire.take()
    check.equal(node.dropped("esp-bad-icv"), len([f for f in to if is_esp(f)]), "esp-bad-icv")
    check.that(node.dropped("esp-bad-icv") >= 60, f"all of them: {node.drops()}")
    check.that(not [f for f in of if is_esp(f)], "no reply")
    node.stop()
    node = start(bench, suite, 4, out=6)
    check.silent(bench.host_ping("10.9.0.1", "0-59", "--cold", "--wait 0.3"), "to Linux")
    errors = dict(line.split() for line in bench.guest.sh("cat /proc/net/xfrm_stat").splitlines())
    check.that(int(errors["XfrmInStateProtoError"]) >= 60, f"Linux refuses them: {errors}")
    node.stop()


def attacks(check, bench, suite):
    check.case("replayed, altered, clear and unknown packets")
    bench.guest.sh(linux(suite, 4))
    node = start(bench, suite, 4)
    bench.guest_ping("10.2.0.2", "8")
    bench.wire.take()
    bench.guest_ping("10.2.0.2", "0-60")
    seen = [f for f in bench.wire.take()[0] if is_esp(f)][-40:]

    def clear(f, protocol=17):
        """A clear packet from the other site to ours, its checksum right."""
        from pinger import checksum
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 48, 0, 0, 64, protocol, 0,
                           bytes([10, 9, 0, 1]), bytes([10, 2, 0, 2]))
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        return f[:14] + head + struct.pack("!HHHH", 7, 7, 28, 0) + bytes(20)

    ahead = [f[:38] + struct.pack("!I", struct.unpack("!I", f[38:42])[0] + 5000) + f[42:]
             for f in seen]
    kinds = {
        "esp-replay": seen,
        "esp-bad-icv": ahead,
        "esp-unknown-spi": [f[:34] + b"\x12\x34\x56\x78" + f[38:] for f in seen],
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
    check.equal({r for r in after if r.startswith("esp")} - set(kinds), set(), "no other ESP drop")
    check.pings(bench.guest_ping("10.2.0.2", "0-1400/7"), "traffic goes on afterwards")
    node.stop()


def card_reset(check, bench, suite):
    """A card that forgets its keys under traffic: nothing in clear, no number twice."""
    check.case("card reset under traffic")
    bench.guest.sh(linux(suite, 4))
    node = start(bench, suite, 4)
    for at in ("10.9.0.1", "fd09::1"):
        bench.host_ping(at, "8")
    bench.wire.take()
    got = {}
    t = threading.Thread(target=lambda: got.update(
        bench.host_ping("10.9.0.1", "0-1400", "--cold", "--every 0.002", "--wait 0.3")))
    t.start()
    resets = 0
    while t.is_alive() and resets < 8:
        node.reset_card("wan")
        resets += 1
        t.join(0.3)
    t.join()
    came = got["sent"] - len(got["lost"])
    check.that(came > got["sent"] / 2 and not got["altered"], f"most came through: {came} of "
               f"{got['sent']}")
    frames = bench.wire.take()[1]
    check.equal([f[:60].hex() for f in frames if not is_esp(f) and not is_neighbours(f)][:2], [],
                "nothing in clear")
    numbers = [f[esp_of(f):esp_of(f) + 8] for f in frames if is_esp(f)]
    check.equal(len(set(numbers)), len(numbers), "no number twice")
    card = node.show("cards")[0]
    check.equal((card["state"], card["resets"]), ("up", resets), "the card is up again")
    check.pings(bench.host_ping("10.9.0.1", "0-1400/7"), "traffic goes on afterwards")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


def bench_of(lab):
    """Both gateways and their sites, without SAs."""
    bench = Bench(lab, "dummy esp4 esp6 xfrm_user")
    bench.guest.sh("""set -e
ip link add d0 type dummy; ip link set d0 up
ip addr add 10.9.0.1/24 dev d0; ip -6 addr add fd09::1/64 dev d0 nodad
ip addr add 198.51.100.1/24 dev vec0; ip -6 addr add fd51::1/64 dev vec0 nodad
ip route add 10.2.0.0/24 via 198.51.100.2 src 10.9.0.1
ip -6 route add fd02::/64 via fd51::2 src fd09::1""")
    lab.ip("route", "add", "10.9.0.0/24", "via", "10.2.0.1")
    lab.ip("route", "add", "fd09::/64", "via", "fd02::1")
    return bench


def ends_well(check, bench, node):
    """Stops a gateway after a case in which neither side may have dropped ESP."""
    drops = {r: n for r, n in node.drops().items() if r.startswith("esp")}
    check.equal(drops, {}, "no ESP drop at Ferrule")
    errors = bench.guest.sh("grep -v '\\s0$' /proc/net/xfrm_stat || true").split()
    check.equal(errors, [], "no error counted by Linux")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


def main():
    signals_exit()
    need()
    check = Check()
    with Lab(cpu=CPU) as lab:
        bench = bench_of(lab)
        inline, whole = PLACEMENT == "inline", "whole" in sys.argv
        for i, suite in enumerate(SUITES):
            if not inline or i in (0, 3, 6):
                one_kind(check, bench, suite, 4, "all" if i == 0 and not inline else "most")
        for suite in [] if inline else MORE + (WHOLE if whole else []):
            one_kind(check, bench, suite, 4, "few")
        for suite in (SUITES[0], SUITES[3]):
            one_kind(check, bench, suite, 6)
        for suite in [] if inline else (gmac(128), ctr(256, "sha256"), null("sha256")):
            one_kind(check, bench, suite, 6, "few")
        too_big(check, bench, SUITES[0])
        for suite in (SUITES[0], SUITES[2]):
            wrong_key(check, bench, suite)
        attacks(check, bench, SUITES[0])
        if inline:
            card_reset(check, bench, SUITES[0])
    check.done()


if __name__ == "__main__":
    main()
