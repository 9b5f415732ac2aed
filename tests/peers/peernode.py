"""A Ferrule node opposite a Linux guest: what the tests in this folder share.

    guest (Linux) vec0 ── tap ga ─┐ bridge wire ┌─ tap fw ── wan [ Ferrule ] lan ── tap fl
                                                                                 the namespace
                                                                                 is a host there
"""
import ctypes
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "peers"))
from peerlib import Lab, PeerError, missing, signals_exit  # noqa: E402, F401

PINGER = "tests/peers/pinger.py"
OUTGOING = 4                            # PACKET_OUTGOING of packet(7)


def ferrule():
    """The program: as named, or the newest that was built."""
    named = os.environ.get("FERRULE_BIN") or os.environ.get("FERRULE")
    if named and pathlib.Path(named).exists():
        return os.path.abspath(named)
    built = [p for p in (TOP / "target" / b / "ferrule" for b in ("dist", "release", "debug"))
             if p.exists()]
    if not built:
        raise SystemExit("no ferrule: cargo build --release --bin ferrule")
    return str(max(built, key=lambda p: p.stat().st_mtime))


# A guest that moves between processors has its frames overtake one another in the
# bridge, and a replay window of 0 is right to drop them: it stays on one, as a rule not
# that of a test beside this one.
CPU = sorted(os.sched_getaffinity(0))[os.getpid() % len(os.sched_getaffinity(0))]


def need():
    """Ends the test with 77 where it cannot be tried."""
    lacking = missing()
    if lacking:
        print("; ".join(lacking))
        raise SystemExit(77)


class Check:
    """Names what holds and what does not; the exit status is made of it."""

    def __init__(self):
        self.good, self.bad, self.start = 0, [], time.monotonic()
        self.at = ""

    def case(self, name):
        self.at = name
        print(f"{time.monotonic() - self.start:6.1f} s  {name}", flush=True)

    def that(self, truth, what):
        if truth:
            self.good += 1
        else:
            self.bad.append(f"{self.at}: {what}")
            print(f"    WRONG: {what}", flush=True)
        return bool(truth)

    def equal(self, have, want, what):
        return self.that(have == want, f"{what}: {have!r}, not {want!r}")

    def pings(self, result, what):
        """A sweep of which nothing may be missing."""
        lost = result["lost"] or result["altered"] or result["refused"]
        return self.that(result["sent"] and not lost, f"{what}: {short(result)}")

    def silent(self, result, what):
        """A sweep of which nothing may come through."""
        sent = result["sent"]
        return self.that(sent and len(result["lost"]) == sent, f"{what}: {short(result)}")

    def done(self):
        print(f"{self.good} checks hold, {len(self.bad)} do not")
        for line in self.bad:
            print(f"  WRONG: {line}")
        raise SystemExit(1 if self.bad else 0)


def short(result):
    return json.dumps(result)[:300]


def in_namespace(ns, make):
    """What `make()` returns, called by a thread that is in the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    got = []

    def enter():
        with open(f"/run/netns/{ns}") as f:
            if libc.setns(f.fileno(), 0x40000000):      # CLONE_NEWNET
                raise OSError(ctypes.get_errno(), "setns")
        got.append(make())

    t = threading.Thread(target=enter)
    t.start()
    t.join()
    if not got:
        raise PeerError("no socket in the namespace")
    return got[0]


class Wire:
    """Sees every frame at a tap, and can send some: `to` the program behind the
    tap, `of` it."""

    def __init__(self, lab, tap):
        self.tap, self.frames, self.lock = tap, [], threading.Lock()

        def make():
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)    # SO_RCVBUFFORCE
            s.bind((tap, 3))
            return s
        self.s = in_namespace(lab.ns, make)
        self.s.settimeout(0.2)
        self.end = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while not self.end:
            try:
                frame, address = self.s.recvfrom(65536)
            except TimeoutError:
                continue
            except OSError:
                time.sleep(0.05)
                continue
            with self.lock:
                self.frames.append((address[2] == OUTGOING, frame))

    def take(self):
        """All frames since the last call: (those to the program, those of it)."""
        time.sleep(0.1)
        with self.lock:
            frames, self.frames = self.frames, []
        return [f for to, f in frames if to], [f for to, f in frames if not to]

    def send(self, frame):
        """To the program behind the tap."""
        self.s.send(frame)

    def close(self):
        self.end = True


class Node:
    """`ferrule run`, its configuration and its management socket."""

    count = 0

    def __init__(self, lab, text, keys=None, name="node"):
        Node.count += 1
        self.lab = lab
        self.dir = lab.dir / f"{name}{Node.count}"
        self.dir.mkdir(parents=True)
        self.file = self.dir / "node.toml"
        self.socket = self.dir / "control.sock"
        # Keys of tests are the same every time, and of more than one node.
        os.environ["FERRULE_USED_KEYS"] = str(self.dir / "used-keys")
        self.keys(keys or {})
        self.write(text)
        self.counters()
        self.log = self.dir / "log"
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.p = self.lab.spawn([ferrule(), "run", str(self.file)], stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log, cwd=self.dir)
        end = time.monotonic() + 10
        while not self.socket.exists() or self.ask("show", "drops") is None:
            if not self.p.running() or time.monotonic() > end:
                raise PeerError("ferrule run: " + self.said())
            time.sleep(0.02)

    def said(self):
        return self.log.read_text(errors="replace")

    def keys(self, files):
        """Key files: {name: {word: hexadecimal}}."""
        for name, words in files.items():
            path = self.dir / name
            path.write_text("".join(f"{w} {v}\n" for w, v in words.items()))
            path.chmod(0o600)

    def counters(self):
        """Makes the counters of keys that are new."""
        if self.ask("state", "create", str(self.file), json_=False, socket_=False) is None:
            raise PeerError(f"ferrule state create: {self.error}")

    def write(self, text):
        head = (f'[node]\nname = "peer"\nstate = "{self.dir}/state"\n'
                f'control = "{self.socket}"\n')
        self.file.write_text(head + text)

    def ask(self, *words, json_=True, socket_=True):
        """What a subcommand says as JSON; nothing if it fails."""
        argv = [ferrule(), *words, *(["--socket", str(self.socket)] if socket_ else []),
                *(["--json"] if json_ else [])]
        r = subprocess.run(["ip", "netns", "exec", self.lab.ns, *argv], capture_output=True,
                           text=True, timeout=20, cwd=self.dir)
        if r.returncode:
            self.error = r.stdout + r.stderr
            return None
        return json.loads(r.stdout) if json_ else r.stdout

    def show(self, what):
        got = self.ask("show", what)
        if got is None:
            raise PeerError(f"ferrule show {what}: {self.error}\n{self.said()}")
        return got[{"sa": "sas"}.get(what, what)]

    def drops(self):
        """Packets by reason, of the node and of the cards in its ports."""
        total = {d["reason"]: d["packets"] for d in self.show("drops")}
        for card in self.show("cards"):
            for d in card["drops"]:
                total[d["reason"]] = total.get(d["reason"], 0) + d["packets"]
        return total

    def reset_card(self, port):
        """Lets the card of a port start again."""
        if self.ask("card", "reset", port, json_=False) is None:
            raise PeerError(f"ferrule card reset: {self.error}")

    def dropped(self, reason):
        return self.drops().get(reason, 0)

    def lost(self):
        """Packets by reason, without what hosts say to their neighbours and what
        comes before these are known, or before an IPv6 address of the node's is its own
        (RFC 4862 section 5.4: one second after its start)."""
        chatter = ("router-message", "bad-source", "not-routed", "not-for-us",
                   "unknown-protocol", "neighbour-queue-full", "no-neighbour",
                   "policy-discard", "address-withheld")
        return {r: n for r, n in self.drops().items() if r not in chatter}

    def apply(self, text):
        self.write(text)
        if self.ask("apply", "--new-keys", str(self.file), json_=False) is None:
            raise PeerError(f"ferrule apply: {self.error}")

    def kill(self):
        """An end without warning."""
        self.p.stop(sig=signal.SIGKILL)
        self.socket.unlink(missing_ok=True)

    def stop(self):
        """A clean end; the exit status."""
        rc = self.p.stop(grace=8)
        return rc


def ports(wan_mtu=1500, lan_mtu=1500):
    """The two ports of the picture above."""
    return f"""
[[port]]
name = "wan"
driver = "tap"
device = "fw"
mac = "02:00:00:00:00:02"
mtu = {wan_mtu}
[[port]]
name = "lan"
driver = "tap"
device = "fl"
mac = "02:00:00:00:00:03"
mtu = {lan_mtu}
"""


class Bench:
    """The network of the picture above, booted."""

    def __init__(self, lab, modules="", addresses=("10.2.0.2/24", "fd02::2/64")):
        self.lab = lab
        lab.bridge("wire")
        lab.tap("ga", bridge="wire", mac="02:00:00:00:00:01")
        self.guest = lab.guest("linux", taps=["ga"], src=TOP, timeout=280)
        lab.tap("fw", bridge="wire")
        lab.tap("fl")
        lab.sh("echo 0 >/proc/sys/net/ipv6/conf/fl/disable_ipv6")
        for a in addresses:
            lab.ip("addr", "add", a, "dev", "fl", *(["nodad"] if ":" in a else []))
        self.wire = Wire(lab, "fw")
        load = "; ".join(f"modprobe {m}" for m in ["ipv6", *modules.split()])
        self.guest.sh(f"set -e; {load}; echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; "
                      "ip link set dev vec0 up")

    def host_ping(self, address, sizes, *options):
        """From the namespace, which is a host at the node's port lan."""
        return json.loads(self.lab.sh(
            f"/usr/bin/python3 {TOP / PINGER} {address} {sizes} {' '.join(options)}"))

    def guest_ping(self, address, sizes, *options):
        """From the guest."""
        return json.loads(self.guest.sh(
            f"/usr/bin/python3 {PINGER} {address} {sizes} {' '.join(options)}"))

    def both_pings(self, host, guest):
        """Both at once: traffic in both directions, started from both sides."""
        got = {}
        t = threading.Thread(target=lambda: got.update(host=self.host_ping(*host)))
        t.start()
        got["guest"] = self.guest_ping(*guest)
        t.join()
        return got.get("host", {"sent": 0}), got["guest"]


def ethertype(frame):
    return struct.unpack("!H", frame[12:14])[0]
