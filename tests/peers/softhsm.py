#!/usr/bin/env python3
# time-limit: 240
"""A Ferrule node whose keys are in SoftHSM behind a slow token's delay, and its
peers: MACsec and ESP with a Linux kernel, which cannot tell, and ESP with an
implicit IV (RFC 8750) with an independent implementation here, since no stock
kernel has it.

The keys are imported wrapped (`ferrule token`). What is made ahead is at least 20
times as fast as the token packet by packet; with frames lost and overtaking one
another on the wire, nothing arrives altered.
"""
import base64
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import esp  # noqa: E402
import macsec  # noqa: E402
from peernode import (  # noqa: E402
    CPU, OUTGOING, Bench, Check, Lab, Node, ethertype, ferrule, in_namespace, need, signals_exit)

MODULES = ["/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so"]
PIN = "8842"
EXCHANGE = 0.012                        # of the study's token, at least


def module():
    found = [m for m in MODULES if os.path.exists(m)]
    if not found:
        print("no SoftHSM (Debian: softhsm2)")
        raise SystemExit(77)
    return found[0]


class Token:
    """A SoftHSM token of this test, with keys imported as a peer would send them."""

    def __init__(self, lab):
        self.dir = lab.dir / "softhsm"
        (self.dir / "tokens").mkdir(parents=True)
        config = self.dir / "softhsm2.conf"
        config.write_text(f"directories.tokendir = {self.dir}/tokens\nlog.level = ERROR\n")
        os.environ["SOFTHSM2_CONF"] = str(config)
        subprocess.run(["softhsm2-util", "--init-token", "--free", "--label", "gateway",
                        "--so-pin", "9911", "--pin", PIN], check=True, capture_output=True)
        self.pin = self.dir / "pin"
        self.pin.write_text(PIN + "\n")
        self.pin.chmod(0o600)
        self.config = self.dir / "token.toml"
        self.config.write_text(self.table("none"))
        self.public = self.ferrule("pair", "import")
        self.pem = self.dir / "import.pem"
        self.pem.write_text(self.public)
        self.kek = os.urandom(32)
        said = self.bring("kek", self.kek.hex(), "--unwraps", "--bits", "256")
        assert "unwraps" in said, said

    def table(self, profile, more=""):
        return (f'\n[token]\nmodule = "{module()}"\ntoken = "gateway"\npin-file = "{self.pin}"\n'
                f'profile = "{profile}"\nblocks = 65536\n{more}\n')

    def ferrule(self, action, *words):
        argv = [ferrule(), "token", action, str(self.config), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def bring(self, label, key, *words):
        """Wrapped with the token's public key."""
        wrapped = self.dir / f"{label}.wrapped"
        name = subprocess.run(
            [ferrule(), "token", "wrap", "-", "--with", str(self.pem),
             "--wrapped", str(wrapped)],
            input=bytes.fromhex(key), check=True, capture_output=True).stdout.split()[-1].decode()
        said = self.ferrule("import", label, "--with", "import", "--wrapped", str(wrapped),
                            "--keep-pair", *words)
        assert said.startswith(f"token:{label}"), said
        assert "--unwraps" in words or said.split()[-1] == name, (said, name)
        return said

    def bring_under(self, label, key):
        """Wrapped with a key that is on the token (RFC 3394), by somebody else."""
        from cryptography.hazmat.primitives.keywrap import aes_key_wrap
        wrapped = self.dir / f"{label}.wrapped"
        wrapped.write_bytes(aes_key_wrap(self.kek, bytes.fromhex(key)))
        said = self.ferrule("import", label, "--by", "aes-kw", "--with", "kek",
                            "--wrapped", str(wrapped))
        assert said.startswith(f"token:{label}"), said


class Relay:
    """In place of the bridge: loses frames and lets some overtake others."""

    def __init__(self, lab, a, b, seed=7, loss=0.08, swap=0.1):
        self.dice, self.loss, self.swap = random.Random(seed), loss, swap
        self.lost = self.swapped = 0
        lab.ip("link", "set", "dev", a, "nomaster")
        lab.ip("link", "set", "dev", b, "nomaster")

        def make(tap):
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
            s.bind((tap, 3))
            s.settimeout(0.02)
            return s
        self.sockets = [in_namespace(lab.ns, lambda t=t: make(t)) for t in (a, b)]
        self.lab, self.taps, self.end = lab, (a, b), False
        self.threads = [threading.Thread(target=self.run, args=pair, daemon=True)
                        for pair in (self.sockets, self.sockets[::-1])]
        for t in self.threads:
            t.start()

    def run(self, source, sink):
        held = None
        while not self.end:
            try:
                frame, address = source.recvfrom(65536)
            except TimeoutError:
                if held:
                    sink.send(held)
                    held = None
                continue
            if address[2] == OUTGOING:
                continue
            secured = ethertype(frame) == macsec.MACSEC or esp.is_esp(frame)
            if secured and self.dice.random() < self.loss:
                self.lost += 1
                continue
            if secured and held is None and self.dice.random() < self.swap:
                held = frame
                self.swapped += 1
                continue
            sink.send(frame)
            if held:
                sink.send(held)
                held = None

    def close(self):
        self.end = True
        for t in self.threads:
            t.join()
        for tap in self.taps:
            self.lab.ip("link", "set", "dev", tap, "master", "wire")


def burst(bench, address, count=300):
    """Datagrams from the host at once; seconds from the first to the last sealed
    frame on the wire, and how many there were."""
    tap = in_namespace(bench.lab.ns, lambda: socket.socket(
        socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
    tap.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
    in_namespace(bench.lab.ns, lambda: (tap.bind(("fw", 3)), 1))
    out = in_namespace(bench.lab.ns, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    times, end = [], time.monotonic() + 5
    tap.settimeout(0.3)

    def send():
        for i in range(count):
            out.sendto(bytes(64), (address, 9))
    t = threading.Thread(target=send)
    t.start()
    while len(times) < count and time.monotonic() < end:
        try:
            frame, to = tap.recvfrom(65536)
        except TimeoutError:
            break
        if to[2] != OUTGOING and (ethertype(frame) == macsec.MACSEC or esp.is_esp(frame)):
            times.append(time.monotonic())
    t.join()
    tap.close()
    out.close()
    return (times[-1] - times[0] if times else 0), len(times)


def filled(node, seconds=4.0):
    """Until the rings are full enough: the token makes about 7,800 blocks a second."""
    time.sleep(seconds)
    return node


def token_of(node):
    """What `ferrule show engines` says of the token."""
    return next(e for e in node.show("engines") if e["placement"] == "token")


def counted(node, *names):
    counters = token_of(node)["counters"]
    return [counters[name] for name in names]


def figures(node, what):
    """Says what the token did, and checks that it adds up."""
    engine = token_of(node)
    print(f"    {what}: " + ", ".join(f"{k} {v}" for k, v in engine["counters"].items()))
    for of, took in engine["latencies"].items():
        print(f"    {of}: {took}")
    for ring in engine["rings"]:
        print(f"    ring {ring['key']} {ring['op']}: {ring['filled']} of {ring['size']} blocks, "
              f"{ring['ahead']} packets ahead, {ring['least']} to {ring['most']} blocks each")
    return engine


def exchange(check, bench, node, host, guest, what):
    """Both ways, then a burst, then the same over a bad wire."""
    for at in (host[0], guest[0]):
        (bench.host_ping if at == host[0] else bench.guest_ping)(at, "8")
    filled(node)
    a, b = bench.both_pings(host, guest)
    check.pings(a, f"{what}: host behind Ferrule to Linux")
    check.pings(b, f"{what}: Linux to the host behind Ferrule")
    # The best of some bursts: the sender is a script on the same busy cores.
    best = (1e9, 0, 0)
    for n in range(4):
        filled(node)
        before = counted(node, "hits", "waits")
        took, count = burst(bench, host[0])
        slow = count * EXCHANGE
        hits, waits = (b - a for a, b in zip(before, counted(node, "hits", "waits")))
        print(f"    {count} packets in {took * 1000:.1f} ms; packet by packet {slow * 1000:.0f} ms: "
              f"{slow / max(took, 1e-6):.0f} times; {hits} hits, {waits} waits")
        if n == 0:
            check.that(took * 20 <= slow, f"{what}: the first burst is 20 times faster as well")
            check.equal(waits, 0, f"{what}: the first burst does not wait ({hits} hits)")
        if count >= 290:
            best = min(best, (took / count, count, took))
        if best[0] * 25 <= EXCHANGE:
            break
    check.that(best[0] * 20 <= EXCHANGE, f"{what}: 20 times faster: {best}")
    check.equal(node.lost(), {}, f"{what}: nothing dropped")
    engine = figures(node, what)
    check.that(engine["state"] == "works" and engine["with"] == "microsd", f"{what}: {engine}")
    check.that(engine["latencies"]["exchange"]["median_us"] >= EXCHANGE * 1e6, "it is that slow")
    filled(node, 2)
    relay = Relay(bench.lab, "ga", "fw")
    try:
        sweep = ("0-1400/35", "--wait 0.6")
        a, b = bench.both_pings((host[0], *sweep), (guest[0], *sweep))
    finally:
        relay.close()
    check.that(relay.lost > 2 and relay.swapped > 2, f"{relay.lost} lost, {relay.swapped} late")
    for got, who in ((a, "to Linux"), (b, "from Linux")):
        check.equal(got.get("altered"), [], f"{what}, bad wire, {who}: nothing altered")
        lost = len(got.get("lost", []))
        check.that(lost < got["sent"] * 3 // 4, f"{what}, bad wire, {who}: {lost} lost")
    a, b = bench.both_pings(host, guest)
    check.pings(a, f"{what}: afterwards, to Linux")
    check.pings(b, f"{what}: afterwards, from Linux")
    figures(node, f"{what}, after the bad wire")
    bad = {r for r in node.lost() if "icv" in r or "engine" in r}
    check.equal(bad, set(), f"{what}: no ICV was wrong, no engine failed: {node.drops()}")


def over_macsec(check, bench, token):
    check.case("MACsec with a Linux kernel, keys in SoftHSM behind the study's delay")
    secy = macsec.Secy("token", window=64)
    bench.guest.sh(secy.linux())
    token.bring("k1", macsec.key(1))
    token.bring_under("k2", macsec.key(2))
    text = secy.ferrule().replace('key = "k', 'key = "token:k')
    text = text.replace('placement = "software"', 'placement = "token"')
    node = Node(bench.lab, text + macsec.ROUTER + token.table("microsd"))
    exchange(check, bench, node, ("10.1.0.1", "0-1400/97"), ("10.2.0.2", "0-1400/97"), "MACsec")
    bad = {k: v for k, v in macsec.linux_counters(bench).items()
           if v and k in ("InPktsNotValid", "InPktsInvalid")}
    check.equal(bad, {}, "MACsec: Linux found every ICV right")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")
    bench.guest.sh("ip link del ms0; sysctl -q -w net.ipv6.conf.vec0.disable_ipv6=0")


def esp_node(bench, token, suite, name="aes-gcm-128"):
    text = esp.ferrule(suite, 4).replace(f'suite = "{suite.name}"', f'suite = "{name}"')
    text = text.replace('placement = "software"\n', "")
    text = text.replace(f'suite = "{name}"\n', f'suite = "{name}"\nplacement = "token"\n')
    rest = {}
    for way, seed in (("out", 2), ("in", 1)):
        text = text.replace(f'key = "{way}"\n', f'key = "token:{way}"\nrest = "{way}.rest"\n')
        rest[f"{way}.rest"] = {"salt": suite.parts(seed)[2]}
    return Node(bench.lab, text + token.table("microsd"), rest)


def over_esp(check, bench, token, suite):
    check.case("ESP with a Linux kernel, which XORs its IVs with a constant")
    bench.guest.sh("""set -e
ip link add d0 type dummy; ip link set d0 up
ip addr add 10.9.0.1/24 dev d0
ip addr add 198.51.100.1/24 dev vec0
ip route replace 10.2.0.0/24 via 198.51.100.2 src 10.9.0.1""")
    bench.guest.sh(esp.linux(suite, 4))
    token.bring("out", suite.parts(2)[0])
    token.bring_under("in", suite.parts(1)[0])
    node = esp_node(bench, token, suite)
    exchange(check, bench, node, ("10.9.0.1", "0-1400/97"), ("10.2.0.2", "0-1400/97"), "ESP")
    errors = dict(line.split() for line in bench.guest.sh("cat /proc/net/xfrm_stat").splitlines())
    check.equal(errors["XfrmInStateProtoError"], "0", "ESP: Linux found every ICV right")
    check.equal(node.stop(), 0, "Ferrule ends cleanly")


class Implicit:
    """The other gateway for ESP with implicit IVs: opens requests, seals replies."""

    def __init__(self, bench, suite):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        self.gcm = {way: (AESGCM(bytes.fromhex(suite.parts(seed)[0])),
                          bytes.fromhex(suite.parts(seed)[2]))
                    for way, seed in (("of", 2), ("to", 1))}
        self.number, self.opened, self.lengths, self.wrong = 0, 0, set(), []
        self.s = in_namespace(bench.lab.ns, lambda: socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        in_namespace(bench.lab.ns, lambda: (self.s.bind(("fw", 3)), 1))
        self.s.settimeout(0.1)
        self.end = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.end:
            try:
                frame, address = self.s.recvfrom(65536)
            except TimeoutError:
                continue
            if address[2] == OUTGOING or not esp.is_esp(frame):
                continue
            self.answer(frame)

    def answer(self, frame):
        total = struct.unpack("!H", frame[16:18])[0]
        packet = frame[34:14 + total]
        spi, low = struct.unpack("!II", packet[:8])
        gcm, salt = self.gcm["of"]
        # RFC 8750 section 4: the IV is the sequence number, zeros in front; ESN.
        number = struct.pack("!Q", low)
        try:
            inner = gcm.decrypt(salt + number, packet[8:], struct.pack("!I", spi) + number)
        except Exception as e:              # noqa: BLE001
            self.wrong.append(repr(e))
            return
        self.opened += 1
        pad = inner[-2]
        self.lengths.add((total, len(inner) - 2 - pad))
        inner = bytearray(inner[:-2 - pad])
        if inner[0] != 0x45 or inner[9] != 1 or inner[20] != 8:
            return
        inner[12:16], inner[16:20] = inner[16:20], inner[12:16]
        inner[20], inner[22:24] = 0, b"\0\0"
        from pinger import checksum
        inner[22:24] = struct.pack("!H", checksum(bytes(inner[20:])))
        self.send(frame, bytes(inner))

    def send(self, request, inner):
        self.number += 1
        pad = -(len(inner) + 2) % 4
        text = inner + bytes(range(1, pad + 1)) + bytes([pad, 4])
        gcm, salt = self.gcm["to"]
        number, spi = struct.pack("!Q", self.number), struct.pack("!I", esp.SPI_IN)
        sealed = spi + number[4:] + gcm.encrypt(salt + number, text, spi + number)
        from pinger import checksum
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(sealed), 0, 0, 64, 50, 0,
                           request[30:34], request[26:30])
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        self.s.send(request[6:12] + request[:6] + b"\x08\x00" + head + sealed)

    def close(self):
        self.end = True
        self.thread.join()


def over_implicit(check, bench, token, suite):
    check.case("ESP with an implicit IV, against an independent implementation")
    bench.guest.sh("ip xfrm state flush; ip xfrm policy flush")
    node = esp_node(bench, token, suite, "aes-gcm-128-iiv")
    peer = Implicit(bench, suite)
    try:
        bench.host_ping("10.9.0.1", "8")
        filled(node, 3)
        got = bench.host_ping("10.9.0.1", "0-1400/29", "--df")
    finally:
        peer.close()
    check.pings(got, "implicit IV, both ways")
    check.equal(peer.wrong, [], "every packet of Ferrule opens elsewhere")
    sizes = {(20 + 8 + -(-(inner + 2) // 4) * 4 + 16, inner) for _, inner in peer.lengths}
    check.equal(peer.lengths, sizes, "no IV travels")
    check.that(peer.opened >= 49, f"{peer.opened} packets")
    check.equal(node.lost(), {}, "nothing dropped")
    node.stop()


def main():
    signals_exit()
    need()
    module()
    check = Check()
    with Lab(cpu=CPU) as lab:
        token = Token(lab)
        check.that(base64.b64decode("".join(token.public.splitlines()[1:-1]))[0] == 0x30, "a key")
        bench = Bench(lab, "macsec dummy esp4 esp6 xfrm_user")
        lab.ip("route", "add", "10.1.0.0/24", "via", "10.2.0.1")
        lab.ip("route", "add", "10.9.0.0/24", "via", "10.2.0.1")
        suite = esp.SUITES[0]
        over_macsec(check, bench, token)
        over_esp(check, bench, token, suite)
        over_implicit(check, bench, token, suite)
    check.done()


if __name__ == "__main__":
    assert pathlib.Path(ferrule()).exists()
    main()
