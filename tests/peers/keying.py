#!/usr/bin/env python3
# time-limit: 200
"""A keying program between a Ferrule gateway and a Linux kernel.

The tunnel has no SA in its file. The first packet asks for one and is kept until the program has
agreed on keys with the kernel, by datagrams that pass the policy if it likes; soft lifetimes ask for the next ones, twenty times under traffic
without a packet lost. A key that is given again, also after `kill -9`, makes no nonce a second
time. A card in the port takes such keys, too. Then the kernel goes to another address, and the
tunnel follows.
"""
import json
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from esp import ENDS, SITES, SUITES, bench_of, ends_well, esp_of, ferrule, is_esp, key  # noqa: E402
from peernode import CPU, Check, Lab, Node, need, signals_exit  # noqa: E402
from peernode import ferrule as ferrule_binary  # noqa: E402

REKEYS = 20
RECEIVED = "5 received"
GCM = SUITES[0]
HERE, THERE = ENDS[4]           # Linux, Ferrule
ELSEWHERE = "198.51.100.77"
PORT = 4500


def gateway(more="", keying='keying = "external"\n'):
    """Ferrule's configuration, without an SA."""
    text = ferrule(GCM, 4)
    begin, end = text.index("[tunnel.out]"), text.index("[[policy]]")
    return text[:begin] + keying + more + text[end:]


def file_text(parts):
    return "".join(f"{word} {value}\n" for word, value in parts.items())


class Program:
    """Agrees on keys with the kernel as soon as the node asks for some."""

    def __init__(self, bench, node, soft=None, udp=False):
        self.bench, self.node, self.soft, self.udp = bench, node, soft, udp
        self.here, self.notices, self.replies = HERE, [], queue.Queue()
        # Number of the last keys, and of those in use.
        self.number = self.used = 0
        # Of the next keys to Linux, where they are not new.
        self.out_seed = None
        self.agreed, self.asking, self.wants = threading.Lock(), threading.Lock(), queue.Queue()
        self.s = socket.socket(socket.AF_UNIX)
        self.s.connect(str(node.socket))
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=self.work, daemon=True).start()
        assert self.ask({"notices": {}}) == {"done": {}}

    def read(self):
        for line in self.s.makefile():
            said = json.loads(line)
            if "notice" not in said:
                self.replies.put(said)
                continue
            self.notices.append(said["notice"])
            kind = next(iter(said["notice"]))
            if kind == "gone":
                self.used = 0
            if kind == "acquire" or kind == "expires" and said["notice"][kind]["way"] == "out":
                self.wants.put(kind)

    def work(self):
        while self.wants.get():
            self.rekey()

    def ask(self, request):
        with self.asking:
            self.s.sendall(json.dumps(request).encode() + b"\n")
            return self.replies.get(timeout=10)

    def sa(self, way, spi, **verb):
        return self.ask({"sa": {"tunnel": "t", "way": way, "spi": spi, **verb}})

    def state(self, number, to_ferrule):
        src, dst = (self.here, THERE) if to_ferrule else (THERE, self.here)
        spi = (0x00c00000 if to_ferrule else 0x10000100) + number
        return spi, f"src {src} dst {dst} proto esp spi {spi:#x}"

    def rekey(self):
        """Receive first, then send, then drop what was before."""
        with self.agreed:
            self.number += 1
            old, new = self.used, self.number
            seeds = (2 * new + 1, self.out_seed or 2 * new + 2)
            theirs, at_theirs = self.state(new, True)
            ours, at_ours = self.state(new, False)
            encap = f" encap espinudp {PORT} {PORT} 0.0.0.0" if self.udp else ""
            kind = f"mode tunnel replay-window 64 flag af-unspec flag esn{encap}"
            key_in, key_out = (file_text(GCM.file(seed)) for seed in seeds)
            self.bench.guest.sh(f"ip xfrm state add {at_ours} {kind} {GCM.linux_keys(seeds[1])}")
            done = [self.sa("in", theirs, add={"key": key_in})]
            # Linux seals with an SA as soon as it has it.
            self.bench.guest.sh(f"ip xfrm state add {at_theirs} {kind} {GCM.linux_keys(seeds[0])}")
            soft = {"soft": self.soft} if self.soft else {}
            done += [self.sa("out", ours, add={"key": key_out, **soft}),
                     self.sa("out", ours, use={})]
            assert done == [{"done": {}}] * 3, done
            if old:
                (was_in, at_in), (was_out, at_out) = self.state(old, True), self.state(old, False)
                self.bench.guest.sh(f"(ip xfrm state delete {at_in}; sleep 0.1; "
                                    f"ip xfrm state delete {at_out}) 2>/dev/null || true")
                done = [self.sa("in", was_in, drop={}), self.sa("out", was_out, drop={})]
                assert done == [{"done": {}}] * 2, done
            self.used = new

    def told(self, kind):
        return [n[kind] for n in list(self.notices) if kind in n]


def policies(here):
    lines = ["set -e", "ip xfrm state flush", "ip xfrm policy flush"]
    for own, other in SITES:
        for src, dst, a, b, way in ((own, other, here, THERE, "out"),
                                    (other, own, THERE, here, "in")):
            lines.append(f"ip xfrm policy add src {src} dst {dst} dir {way} "
                         f"tmpl src {a} dst {b} proto esp mode tunnel")
    return "\n".join(lines)


def eventually(what, check):
    end = time.monotonic() + 10
    while not check():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.05)


def rekeys(check, bench, node):
    check.case("the first packet asks, and arrives")
    bench.guest.sh(policies(HERE))
    # Neighbours are known, so that nothing else waits.
    bench.lab.ip("route", "replace", "10.9.0.0/24", "via", "10.2.0.1")
    program = Program(bench, node, soft={"packets": 150})
    check.that("1 received" in bench.lab.sh("ping -c 1 -W 5 10.9.0.1 || true"), "the packet that asked")
    asked = program.told("acquire")
    check.equal([a["tunnel"] for a in asked], ["t"], "one notice")
    header = bytes.fromhex(asked[0]["header"])
    check.equal((header[9], header[16:20]), (1, bytes([10, 9, 0, 1])), "its packet")
    check.that("acquire" in node.said() and "10.9.0.1" in node.said(), "it is an event")

    check.case(f"{REKEYS} changes of keys under traffic, each asked for by a soft lifetime")
    bench.wire.take()
    end, got = node.dir / "end", {}
    sweeps = {"IPv4": ("10.9.0.1", "0-1380/7"), "IPv6": ("fd09::1", "0-1360/7")}
    runs = [threading.Thread(target=lambda way=way, sweep=sweep: got.update({
        way: bench.host_ping(*sweep, "--every 0.004", f"--until {end}")}))
        for way, sweep in sweeps.items()]
    for t in runs:
        t.start()
    try:
        limit = time.monotonic() + 60
        while program.number <= REKEYS and time.monotonic() < limit:
            time.sleep(0.05)
    finally:
        end.touch()
        for t in runs:
            t.join()
    check.that(program.number > REKEYS, f"{program.number} keys")
    for way in sweeps:
        check.pings(got.get(way, {"sent": 0, "lost": []}), f"{way} across all of them")
    for frames, first, who in zip(bench.wire.take(), (0x00c00000, 0x10000100), ("Linux", "Ferrule")):
        spis = [struct.unpack("!I", f[esp_of(f):esp_of(f) + 4])[0] for f in frames if is_esp(f)]
        turns = [a - first for i, a in enumerate(spis) if i == 0 or spis[i - 1] != a]
        check.equal(turns, list(range(turns[0], turns[0] + len(turns))), f"{who}: SPIs in turn")
        check.equal([f for f in frames if not is_esp(f) and f[12:14] == b"\x08\x00"][:1], [],
                    f"{who}: nothing in clear")
    return program


def datagrams(check, bench, node, program):
    """UDP 500 past the policy, which lets nothing else through in clear."""
    check.case("datagrams of keying, both ways")
    # Sends one of its own, then answers whoever writes.
    bench.guest.sh("nohup /usr/bin/python3 -c 'import socket\n"
                   "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                   f"s.bind((\"{HERE}\", 500))\n"
                   f"s.sendto(b\"hello\", (\"{THERE}\", 500))\n"
                   "data, peer = s.recvfrom(65535)\n"
                   "s.sendto(data[::-1], peer)' >/dev/null 2>&1 &")
    local, remote = f"{THERE}:500", f"{HERE}:500"
    heard = lambda: [bytes.fromhex(d["payload"]) for d in program.told("datagram")  # noqa: E731
                     if (d["local"], d["remote"]) == (local, remote)]
    eventually("Linux speaks first", lambda: heard() == [b"hello"])
    said = program.ask({"datagram": {"local": local, "remote": remote,
                                     "payload": bytes(range(200)).hex()}})
    check.equal(said, {"done": {}}, "sent")
    eventually("Linux answers", lambda: len(heard()) == 2)
    check.equal(heard()[1], bytes(range(199, -1, -1)), "what came back")
    said = program.ask({"datagram": {"local": f"{THERE}:501", "remote": remote, "payload": ""}})
    check.that("port 501" in str(said), f"another port: {said}")


def refusals(check, node, program):
    check.case("what does not fit is refused in words")
    with program.agreed:
        program.soft = None
    text = file_text(GCM.file(77))
    wrong = [
        (program.sa("out", 0x9000, use={}), "has no SA 0x9000 out"),
        (program.sa("out", 0x9000, add={"key": f"cipher {key(1, 8)}\n"}), "8 octets of `cipher`"),
        (program.sa("in", 200, add={"key": text}), "SPI"),
        (program.sa("in", 0x9000, add={"key": text, "worker": 9}), "there is no worker 9"),
        (program.ask({"sa": {"tunnel": "x", "way": "in", "spi": 1, "drop": {}}}), "no tunnel `x`"),
        (program.sa("out", 0x10000100 + program.used,
                    move={"local": "10.99.0.1", "remote": HERE}), "no address of this node"),
        (program.sa("in", 0x9000, add={"key": text, "soft": {"years": 1}}), "unknown field"),
    ]
    for said, words in wrong:
        check.that(words in said.get("refused", {}).get("text", ""), f"{words}: {said}")
    check.that(key(77, 16) not in node.said(), "no key in the log")


def by_hand(check, node, program):
    """The same orders on the command line."""
    check.case("ferrule sa")
    node.keys({"by-hand.key": GCM.file(90)})
    watch = subprocess.Popen([ferrule_binary(), "sa", "watch", "--json", "--socket",
                              str(node.socket)], stdout=subprocess.PIPE, text=True)
    try:
        file = str(node.dir / "by-hand.key")
        said = node.ask("sa", "add", "t", "out", "--spi", "0x8001", "--key", file,
                        "--hard-seconds", "1")
        check.equal(said, {"tunnel": "t", "way": "out", "spi": 0x8001, "done": "sa add"}, "added")
        sas = [sa for sa in node.show("sa") if int(str(sa["spi"]), 0) == 0x8001]
        check.equal([(sa["way"], sa["tunnel"]) for sa in sas], [("out", "t")], "it is shown")
        told = json.loads(watch.stdout.readline())
        check.equal(told.get("expired", {}).get("spi"), 0x8001, f"its end is told: {told}")
        check.that(node.ask("sa", "drop", "t", "out", "--spi", "0x8001"), "dropped")
        check.equal(node.ask("sa", "use", "t", "--spi", "0x8001"), None, "gone")
        check.that("has no SA 0x8001 out" in node.error, f"in words: {node.error}")
    finally:
        watch.send_signal(signal.SIGINT)
        check.equal(watch.wait(5), 0, "ctrl-C ends it well")


def nonces_never_come_again(check, bench, node, program):
    """One key for three SAs one after the other, the last one after `kill -9`."""
    check.case("one key, given again and again, makes no nonce twice")
    bench.wire.take()
    ivs, numbers = [], []
    for start in ("in the place of others", "again", "after kill -9"):
        if start == "after kill -9":
            with program.agreed:
                node.kill()
            node.start()
            bench.guest.sh("ip xfrm state flush")
            number, program = program.number, Program(bench, node)
            program.number = number
        if start == "again":
            # Never by two SAs at a time.
            program.out_seed = None
            program.rekey()
            bench.wire.take()
        program.out_seed = 200
        program.rekey()
        check.that(RECEIVED in bench.lab.sh("ping -c 5 -i 0.05 -W 5 10.9.0.1 || true"), start)
        sent = [f for f in bench.wire.take()[1] if is_esp(f)]
        ivs += [f[esp_of(f) + 8:esp_of(f) + 16] for f in sent]
        numbers += [f[esp_of(f) + 4:esp_of(f) + 8] for f in sent]
    check.that(len(ivs) >= 15 and len(set(ivs)) == len(ivs), f"IVs: {[iv.hex() for iv in ivs]}")
    check.that(len(set(numbers)) < len(numbers), "sequence numbers begin anew")
    check.equal(program.told("acquire"), [], "nobody had to ask")


def follows(check, bench):
    check.case("the kernel goes to another address, and the tunnel follows")
    bench.guest.sh(f"ip addr add {ELSEWHERE}/24 dev vec0; {policies(HERE)}")
    node = Node(bench.lab, gateway('encapsulation = "udp"\nfollow = true\nkeepalive-seconds = 0\n'))
    bench.guest.sh("nohup /usr/bin/python3 -c 'import socket, time\n"
                   "for a in (\"198.51.100.1\", \"198.51.100.77\"):\n"
                   " s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((a, 4500))\n"
                   " s.setsockopt(17, 100, 2); globals()[a] = s\n"
                   "time.sleep(200)' >/dev/null 2>&1 & sleep 0.3")
    program = Program(bench, node, udp=True)
    check.pings(bench.host_ping("10.9.0.1", "8"), "at the first address")
    program.here = ELSEWHERE
    bench.guest.sh(policies(ELSEWHERE))
    program.wants.put("moved")
    eventually("another key", lambda: program.used == 2)
    check.silent(bench.host_ping("10.9.0.1", "8", "--wait 0.5"), "nobody heard of it yet")
    check.pings(bench.guest_ping("10.2.0.2", "8-88/8"), "from the second address, and back")
    check.pings(bench.host_ping("10.9.0.1", "8-88/8"), "to the second address")
    check.equal(program.told("peer-moved"), [{"tunnel": "t", "address": f"{ELSEWHERE}:{PORT}"}],
                "a notice")
    check.that("peer-moved" in node.said(), "an event")
    check.equal(node.stop(), 0, "a clean end")


def on_a_card(check, bench):
    check.case("keys of a card in the port, which a reset takes")
    bench.guest.sh(f"ip xfrm state flush; {policies(HERE)}")
    node = Node(bench.lab, gateway().replace('placement = "software"', 'placement = "inline"'))
    program = Program(bench, node, soft={"packets": 100})
    for round in (1, 2):
        bench.wire.take()
        # A card keeps no packet that asks.
        bench.host_ping("10.9.0.1", "1", "--wait 0.5")
        eventually("an SA is asked for", lambda: len(program.told("acquire")) == round
                   and program.used > 0)
        with program.agreed:
            before = program.number
        check.pings(bench.host_ping("10.9.0.1", "8-1300/4", "--every 0.005"), "there and back")
        check.that(program.number >= before + 2, f"{program.number - before} changes of keys")
        check.equal([f for f in bench.wire.take()[1] if not is_esp(f) and f[12:14] == b"\x08\x00"],
                    [], "nothing in clear")
        if round == 1:
            # Nothing asks for further keys, and no change of them is under way.
            program.soft = None
            program.rekey()
            eventually("nothing is wanted", program.wants.empty)
            with program.agreed:
                program.soft = {"packets": 100}
            check.that(node.ask("card", "reset", "wan"), "reset")
            eventually("its keys are gone", lambda: len(program.told("gone")) == 2)
            bench.guest.sh("ip xfrm state flush")
    check.equal(node.stop(), 0, "a clean end")


def main():
    signals_exit()
    need()
    check = Check()
    with Lab(cpu=CPU) as lab:
        bench = bench_of(lab)
        node = Node(bench.lab, "keying-ports = [500]\n" + gateway())
        program = rekeys(check, bench, node)
        datagrams(check, bench, node, program)
        refusals(check, node, program)
        by_hand(check, node, program)
        nonces_never_come_again(check, bench, node, program)
        check.equal(node.stop(), 0, "a clean end")
        on_a_card(check, bench)
        follows(check, bench)
    check.done()


if __name__ == "__main__":
    main()
