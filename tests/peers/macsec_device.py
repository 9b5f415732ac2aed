#!/usr/bin/env python3
# time-limit: 280
"""`ferrule test macsec` beside devices that bridge between MACsec and the clear: a Ferrule node
with static SAKs of every kind, one keyed by MKA, and a Linux kernel. And `ferrule test mka` beside
the node. The node keeps all rules; what Linux does is written here, and in docs/howto/mka.md."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clauses import broken, key_file, seen, tested  # noqa: E402
from peernode import CPU, Check, Lab, Node, need, signals_exit  # noqa: E402
from supplicant import CAK, CKN, Supplicant  # noqa: E402

NODE, GUEST = "02:00:00:00:00:02", "02:00:00:00:00:01"
SALT = "a0a1a2a3a4a5a6a7a8a9aaab"
# Not to be expected of anybody: those of static keys, of windows of 0, of other SCIs.
NEVER = {"EAPOL passes", "inside the window", "inside the window, passes"}


def key(seed, octets=16):
    return bytes((seed * 37 + i * 11) & 0xff for i in range(octets)).hex()


class Kind:
    """One way to secure frames."""

    def __init__(self, name, cipher="gcm-aes-128", encrypt=True, window=0, more="", words=()):
        self.name, self.cipher, self.encrypt, self.window = name, cipher, encrypt, window
        self.more, self.words = more, list(words)
        self.xpn, self.octets = "xpn" in cipher, 32 if cipher.endswith("256") else 16

    def files(self):
        salt = {"salt": SALT} if self.xpn else {}
        return {"to": {"cipher": key(1, self.octets), **salt},
                "of": {"cipher": key(2, self.octets), **salt}}

    def options(self, lab):
        files = {name: key_file(lab, name, **words) for name, words in self.files().items()}
        xpn = ["--ssci", 1, "--device-ssci", 2] if self.xpn else []
        return ["--key", files["to"], "--device-key", files["of"], "--suite", self.cipher,
                "--window", self.window, *xpn, *self.words]


KINDS = [
    Kind("GCM-AES-128"),
    Kind("GCM-AES-256, a window of 64", "gcm-aes-256", window=64),
    Kind("GCM-AES-128, integrity only", encrypt=False, words=["--integrity-only"]),
    Kind("GCM-AES-128, offset 30, no number twice", window=32,
         more='offset = 30\nreplay = "strict"\n', words=["--offset", "30"]),
    Kind("GCM-AES-XPN-128", "gcm-aes-xpn-128"),
    Kind("GCM-AES-XPN-256, a window of 64", "gcm-aes-xpn-256", window=64),
]

BRIDGE = """
[[bridge]]
name = "site"
member = [{ port = "wan" }, { port = "lan" }]
"""


def ports():
    return f"""
[[port]]
name = "wan"
driver = "tap"
device = "fw"
mac = "{NODE}"
mtu = 1532
[[port]]
name = "lan"
driver = "tap"
device = "fl"
mac = "02:00:00:00:00:03"
mtu = 1500
"""


def static(kind, station):
    ssci = {"transmit": "ssci = 2\n", "receive": "ssci = 1\n"} if kind.xpn else {}
    return ports() + f"""
[[macsec]]
port = "wan"
cipher = "{kind.cipher}"
sci = "{NODE}/1"
encrypt = {str(kind.encrypt).lower()}
window = {kind.window}
{kind.more}
[[macsec.transmit]]
an = 0
key = "of"
{ssci.get("transmit", "")}
[[macsec.receive]]
an = 0
key = "to"
sci = "{station}/1"
{ssci.get("receive", "")}
{BRIDGE}"""


def keyed(priority):
    return ports() + f"""
[[macsec]]
port = "wan"
sci = "{NODE}/1"
mka = {{ priority = {priority}, cak = [{{ ckn = "{CKN}", key = "cak" }}] }}
{BRIDGE}"""


def address(lab, name):
    return lab.sh(f"cat /sys/class/net/{name}/address").strip()


def macsec(lab, interface, clear, *words):
    return tested(lab, "macsec", "--interface", interface, "--clear", clear, *words)


def unseen(rows):
    return {row[1] for row in rows if row[2] == "not seen"}


def show(rows):
    for clause, rule, what, by in rows:
        if what != "holds":
            print(f"            {what}: {clause} {rule}: {by}", flush=True)


def nodes(check, lab):
    """A Ferrule node: it keeps all rules."""
    lab.tap("fw", mtu=1532)
    lab.tap("fl")
    for kind in KINDS:
        check.case(f"Ferrule, {kind.name}")
        node = Node(lab, static(kind, address(lab, "fw")), kind.files())
        code, answer, rows = macsec(lab, "fw", "fl", *kind.options(lab))
        show(rows)
        check.equal((code, broken(rows)), (0, []), answer)
        check.that(NODE + "/1" in answer, answer)
        few = {r for r in unseen(rows) if not any(n in r for n in NEVER)}
        check.equal(few, set(), "every rule was seen")
        node.stop()
    for priority, what in ((200, "the station"), (1, "the node")):
        check.case(f"Ferrule, MKA, {what} is key server")
        node = Node(lab, keyed(priority), {"cak": {"cak": CAK}})
        cak = key_file(lab, "cak", cak=CAK)
        words = ["--cak", cak, "--ckn", CKN]
        code, answer, rows = macsec(lab, "fw", "fl", *words, "--window", 64)
        show(rows)
        check.equal((code, broken(rows)), (0, []), answer)
        check.equal(seen(rows, "EAPOL passes")[0], "holds", "EAPOL")
        code, answer, rows = tested(lab, "mka", "--interface", "fw", *words,
                                    "--duration", "6s", "--hostile")
        show(rows)
        check.equal((code, broken(rows)), (0, []), f"test mka: {answer}")
        node.stop()


def linux(kind, station):
    """A bridge between the kernel's MACsec and its other interface."""
    def sa(way, seed, ssci):
        who = f"sci {station.replace(':', '')}0001 " if way == "rx" else ""
        number = f"xpn 1 salt {SALT} ssci {ssci}" if kind.xpn else "pn 1"
        return (f"ip macsec add ms0 {way} {who}sa 0 {number} on "
                f"key {seed:032x} {key(seed, kind.octets)}")
    return f"""set -e
ip link del ms0 2>/dev/null || true
ip link del br0 2>/dev/null || true
ip link add link vec0 name ms0 type macsec cipher {kind.cipher} \
encrypt {'on' if kind.encrypt else 'off'} send_sci on replay on window {kind.window} \
validate strict
{sa('tx', 2, 2)}
ip macsec add ms0 rx sci {station.replace(':', '')}0001 on
{sa('rx', 1, 1)}
ip link add br0 type bridge
ip link set ms0 master br0
ip link set vec1 master br0
ip link set dev ms0 up
ip link set dev br0 up
"""


def findings(kind):
    """What Linux does otherwise."""
    found = {"what a MAC pads behind the ICV is left out", "an SL of 48 or more is dropped"}
    if kind.xpn:
        # Without XPN the SCI is in the nonce, and the ICV wrong by another.
        found.add("ES with SCB is the channel of port 0, and unknown")
    if kind.xpn and kind.window:
        found.add("a late number of the upper half before, inside the window, passes")
    return found



def kernel(check, lab):
    lab.tap("ga", mac=GUEST)
    lab.tap("gb", mac="02:00:00:00:00:03")
    guest = lab.guest("linux", taps=["ga", "gb"], timeout=280)
    guest.sh("set -e; modprobe macsec; modprobe bridge; "
             "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 2>/dev/null || true; "
             "ip link set dev vec0 up promisc on; ip link set dev vec1 up promisc on")
    print("         Linux", guest.sh("uname -r").strip(), flush=True)
    for kind in (KINDS[0], KINDS[1], KINDS[2], KINDS[4], KINDS[5]):
        check.case(f"Linux, {kind.name}")
        guest.sh(linux(kind, address(lab, "ga")))
        code, answer, rows = macsec(lab, "ga", "gb", *kind.options(lab), "--largest", 1482)
        show(rows)
        found = {row[1] for row in broken(rows)}
        check.equal((code, found), (1, findings(kind)), answer)
    check.case("Linux, MKA by wpa_supplicant")
    guest.sh("ip link del ms0; ip link del br0")
    peer = Supplicant(guest)
    peer.begin(priority=200)
    guest.sh("""set -e
for n in $(seq 100); do ip link show macsec0 >/dev/null 2>&1 && break; sleep 0.1; done
ip link add br0 type bridge
ip link set macsec0 master br0
ip link set vec1 master br0
ip link set dev br0 up""")
    # Its replay protection is off if nothing is said.
    code, answer, rows = macsec(lab, "ga", "gb", "--cak", key_file(lab, "cak", cak=CAK), "--ckn",
                                CKN, "--window", "off", "--largest", 1482)
    show(rows)
    check.equal((code, {row[1] for row in broken(rows)}), (1, findings(KINDS[0])), answer)
    check.equal(seen(rows, "EAPOL passes")[0], "holds", "EAPOL")
    peer.end()


def main():
    need()
    signals_exit()
    check = Check()
    with Lab(cpu=CPU) as lab:
        only = sys.argv[1] if len(sys.argv) > 1 else ""
        if only in ("", "ferrule"):
            nodes(check, lab)
        if only in ("", "linux"):
            kernel(check, lab)
    check.done()


if __name__ == "__main__":
    main()
