#!/usr/bin/env python3
# time-limit: 150
# alone: its senders take all there is
"""Floods as fast as two senders go: ARP of strangers, broadcasts and rubbish at a gateway's LAN;
EAPOL of strangers, a live peer's own MKPDUs again and with another ICV, and frames that only look
like MACsec, on its MACsec line. No MKA session ends, no neighbour is lost, memory stays, and pings
go on as soon as the flood is over.

    ha ──┐                             ┌── [node gb] ── hb
         ├ hub ── [node ga] ── hub ────┤
    mx ──┘    lan              wan     └── mx
"""
import json
import os
import random
import re
import socket
import subprocess
import sys
import time

from rig import PORTS, Rig, eventually, need, run

need("ip", "ping", "ethtool")

SECONDS = 15
PAE = bytes.fromhex("0180c2000003")
GATEWAY = """[node]
name = "{name}"
control = "{name}.socket"
""" + PORTS + """[[interface]]
port = "lan"
address = ["{lan}.1/24"]
[[interface]]
port = "wan"
address = ["198.51.100.{own}/24"]
mtu = 1468
[[route]]
prefix = "{other}.0/24"
via = "198.51.100.{peer}"
[[macsec]]
port = "wan"
cipher = "gcm-aes-128"
send-sci = true
[macsec.mka]
priority = {own}
rekey = 0
[[macsec.mka.cak]]
ckn = "00112233"
key = "cak.key"
"""


def frames_of(kind, own, heard):
    """Frames of a flood, many different ones."""
    rng = random.Random(7)

    def mac():
        return bytes([2, *rng.randbytes(5)])

    if kind == "lan":
        for n in range(2000):
            source = mac()
            sender = bytes([10, 0, 1, rng.randrange(3, 255)])
            arp = bytes.fromhex("000108000604") + bytes([0, 1 + n % 2])
            yield b"\xff" * 6 + source + b"\x08\x06" + arp + source + sender + bytes(6) + bytes(
                [10, 0, 1, 1]) + bytes(18)
            yield own + source + rng.randbytes(2) + rng.randbytes(rng.randrange(46, 200))
            # To neighbours that nobody is.
            to = bytes([10, 0, 1, rng.randrange(3, 255)])
            ip = bytearray(bytes.fromhex("4500002e000000004011") + bytes(2) + sender + to)
            total = sum(ip[i] << 8 | ip[i + 1] for i in range(0, 20, 2))
            total = (total & 0xffff) + (total >> 16)
            ip[10:12] = (0xffff - ((total & 0xffff) + (total >> 16))).to_bytes(2, "big")
            yield own + source + b"\x08\x00" + bytes(ip) + bytes(26)
    else:
        for n in range(2000):
            live = bytearray(rng.choice(heard))
            yield bytes(live)
            live[-1 - rng.randrange(16)] ^= 1 << rng.randrange(8)
            yield bytes(live)
            live[rng.randrange(18, len(live))] ^= 0xff
            yield bytes(live)
            yield PAE + mac() + b"\x88\x8e" + rng.randbytes(rng.randrange(46, 200))
            yield own + bytes(live[6:12]) + b"\x88\xe5" + bytes([0x2c, 0]) + rng.randbytes(
                rng.randrange(60, 200))


def flood(kind):
    """Runs in the attacker's namespace: says how many frames it sent."""
    device = {"lan": "atlan", "wan": "atwan"}[kind]
    own = bytes.fromhex(sys.argv[2].replace(":", ""))
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x888e))
    s.bind((device, 0x888e))
    s.settimeout(10)
    heard = [s.recv(2000) for _ in range(4)] if kind == "wan" else []
    frames, sent = list(frames_of(kind, own, heard)), 0
    s.settimeout(None)
    print("ready", flush=True)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for frame in frames:
            try:
                s.send(frame)
                sent += 1
            except OSError:         # the queue is full: as fast as it goes
                pass
    print(sent, flush=True)


class Flooded(Rig):
    """Hubs on both sides of ga, with an attacker at each."""

    def build(self):
        super().build()
        self.spaces.append(self.ns("mx"))
        run("ip", "netns", "add", self.ns("mx"))
        self.do("mx", "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                "net.ipv6.conf.default.disable_ipv6=1")
        self.do("ga", "ip", "link", "del", "lan")
        self.do("ga", "ip", "link", "del", "wan")
        for bridge, attacker, ends in (("brl", "atlan", (("ga", "lan"), ("ha", "eth0"))),
                                       ("brw", "atwan", (("ga", "wan"), ("gb", "wan")))):
            self.do("mx", "ip", "link", "add", bridge, "type", "bridge", "group_fwd_mask", "8",
                    "mcast_snooping", "0")
            self.do("mx", "ip", "link", "set", bridge, "up")
            for n, (space, device) in enumerate(ends):
                self.join(bridge, f"{bridge}{n}", space, device)
            self.join(bridge, f"{bridge}9", "mx", attacker)
        self.do("ha", "ip", "addr", "add", "10.0.1.2/24", "dev", "eth0")
        self.do("ha", "ip", "route", "add", "10.0.2.0/24", "via", "10.0.1.1")
        self.do("ha", "ethtool", "-K", "eth0", "tx", "off", check=False)

    def join(self, bridge, port, space, device):
        run("ip", "link", "add", port, "netns", self.ns("mx"), "type", "veth",
            "peer", "name", device, "netns", self.ns(space))
        self.do("mx", "ip", "link", "set", port, "master", bridge, "up")
        # A hub: no sender takes another's address away from its port.
        self.do("mx", "ip", "link", "set", port, "type", "bridge_slave", "learning", "off")
        self.do(space, "ip", "link", "set", device, "up")

    def mka(self, name):
        return json.loads(self.ask(name, "show", "mka", "--json").stdout)["mka"][0]

    def mac(self, name, device):
        return self.do(name, "cat", f"/sys/class/net/{device}/address").stdout.strip()


def main():
    with Flooded() as rig:
        run(rig.ferrule, "init", "key", "mka-128", rig.path("cak.key"))
        for name, own in (("ga", 1), ("gb", 2)):
            rig.write(f"{name}.toml", GATEWAY.format(
                name=name, own=own, peer=3 - own, lan=f"10.0.{own}", other=f"10.0.{3 - own}"))
        nodes = {name: rig.start(name) for name in ("ga", "gb")}
        eventually("secured", lambda: rig.ping(count=1, check=False, wait=1) == 1, 20)
        before, used = rig.mka("ga"), rig.memory(nodes["ga"])
        senders = [subprocess.Popen(
            rig.inside("mx", sys.executable, os.path.abspath(__file__), kind,
                       rig.mac("ga", kind)), stdout=subprocess.PIPE, text=True)
            for kind in ("lan", "wan")]
        rig.processes += senders
        for sender in senders:
            assert sender.stdout.readline() == "ready\n"
        through = rig.ping(count=10 * SECONDS, interval=0.1, check=False, wait=1)
        sent = [int(sender.stdout.readline()) for sender in senders]
        # The machine has few cores for two nodes, two senders and all that they make.
        assert through > 5 * SECONDS, f"{through} of {10 * SECONDS} pings"
        assert min(sent) > 20_000 * SECONDS // 10, f"no flood: {sent}"
        rig.ping(count=20, interval=0.05)
        after, grown = rig.mka("ga"), rig.memory(nodes["ga"]) - used
        rates = [f"{n / SECONDS / 1000:.0f}" for n in sent]
        print(f"{SECONDS} s of {rates[0]} and {rates[1]} thousand frames a second: "
              f"{through} of {10 * SECONDS} pings meanwhile, all after it; {grown} KiB more")
        for name, process in nodes.items():
            log = open(process.log).read()
            wrong = [line for line in log.splitlines() if re.search("MKA|neighbour|panick", line)]
            assert not [w for w in wrong if "secured" not in w and "SAK" not in w], wrong
        assert after["state"] == before["state"], (before, after)
        assert grown < 30_000, grown
        neighbours = rig.ask("ga", "show", "neighbours", "--json").stdout
        assert "10.0.1.2" in neighbours and "198.51.100.2" in neighbours, neighbours
        drops = rig.drops("ga")
        assert {"mka-forged", "mka-replay"} <= set(drops), drops
        print(f"dropped: {drops}")
    print("ok")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        flood(sys.argv[1])
    else:
        main()
