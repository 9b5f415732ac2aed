#!/usr/bin/env python3
# time-limit: 240
"""Host mode: an ordinary host's programs use a node by its TUN port, through ESP to a
gateway, in tunnel and transport mode, with one and two workers. What they carry is
intact, super-frames are cut and made at the port, and the wire shows ESP alone.

    host [programs ─ tun ferrule0 ─ node] wan ══ESP══ wan [gb] lan ── hb
    10.8.0.2                     198.51.100.1/.2         10.0.2.1     10.0.2.2

With --measure it says what super-frames gain: the same transfers with offload and
without, in turn, in one run.
"""
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time

from rig import Rig, eventually, need, run

SIZE = 12_000_000
SIZES = (1, 100, 1000, 1372, 1373, 1400, 3000, 8000)
ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7000)); s.settimeout(60)
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(65535)
    s.sendto(data, peer)
"""
ASK = """
import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2); s.connect((sys.argv[1], 7000))
whole = 0
for size in map(int, sys.argv[2:]):
    sent = os.urandom(size)
    s.send(sent)
    whole += s.recv(65535) == sent
print(whole)
"""


class Host(Rig):
    """`ga` is the host: its node has a TUN and the wire, and no other interface."""

    def begin(self, mode="tunnel", workers=1, offload=True):
        for name in self.files(".toml") + self.files(".key"):
            os.remove(self.path(name))
        words = ["--mode", mode] if mode == "transport" else []
        run(self.ferrule, "init", "host", "--dir", self.dir, "--pair", "--force", "--name", "ga",
            "--peer-name", "gb", "--device", "ferrule0", "--uplink", "wan", "--peer-lan", "lan",
            "--driver", "af-packet", *words)
        more = "every-worker = true\n" if workers > 1 else ""
        more += "" if offload else "offload = false\n"
        self.change("ga", r'^device = "ferrule0"$', f'device = "ferrule0"\n{more}'.rstrip())
        for name in ("ga", "gb"):
            self.change(name, r"^\[node\]$", f"[node]\nworkers = {workers}")
            if name == "gb":
                self.do(name, self.ferrule, "state", "create", self.path("gb.toml"))
            self.do(name, self.ferrule, "check", self.path(f"{name}.toml"))
        self.do("hb", "ip", "route", "replace", "10.8.0.0/24", "via", "10.0.2.1")
        self.running = [self.start("gb"), self.start("ga")]
        eventually("the host reaches the far host", lambda: self.ping(
            1, where="ga", to="10.0.2.2", check=False, wait=1) == 1, 15)

    def end(self):
        for node in reversed(self.running):
            node.terminate()
            assert node.wait(timeout=10) == 0, open(node.log).read()

    def port(self, name="host"):
        return next(p for p in self.show("ga")["ports"] if p["name"] == name)

    def iperf(self, *words, seconds=2):
        server = subprocess.Popen(self.inside("hb", "iperf3", "-s", "-1"),
                                  stdout=subprocess.DEVNULL)
        self.processes.append(server)
        time.sleep(0.5)
        result = json.loads(self.do("ga", "iperf3", "-c", "10.0.2.2", "-t", seconds, "-J",
                                    *words, timeout=60).stdout)
        server.wait(timeout=10)
        return result["end"]

    def sends(self):
        return self.iperf()["sum_received"]["bits_per_second"]

    def receives(self):
        return self.iperf("-R")["sum_received"]["bits_per_second"]


def programs(rig, mode, label):
    """Ping, files by HTTP both ways, TCP, UDP."""
    rig.ping(20, 0.02, where="ga", to="10.0.2.2")
    # In transport mode whole datagrams alone are sealed (RFC 4303 section 3.1.1).
    sizes = SIZES if mode == "tunnel" else SIZES[:-2]
    if mode == "tunnel":
        rig.ping(5, 0.05, size=4000, where="ga", to="10.0.2.2")
    rig.ping(5, 0.05, where="hb", to="10.8.0.2")
    octets = os.urandom(SIZE)
    digest = hashlib.sha256(octets).hexdigest()
    folder = rig.path("files")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "file"), "wb") as file:
        file.write(octets)
    for server, client, address in (("hb", "ga", "10.0.2.2"), ("ga", "hb", "10.8.0.2")):
        http = subprocess.Popen(
            rig.inside(server, sys.executable, "-m", "http.server", "8000", "-d", folder),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rig.processes.append(http)
        rig.do(client, "curl", "-sS", "--retry", "20", "--retry-connrefused", "--retry-delay", "1",
               "-o", rig.path("got"), f"http://{address}:8000/file", timeout=90)
        http.kill()
        http.wait()
        with open(rig.path("got"), "rb") as file:
            assert hashlib.sha256(file.read()).hexdigest() == digest, f"{label}: another file"
    echo = subprocess.Popen(rig.inside("hb", sys.executable, "-c", ECHO),
                            stdout=subprocess.PIPE, text=True)
    rig.processes.append(echo)
    assert echo.stdout.readline() == "ready\n"
    whole = rig.do("ga", sys.executable, "-c", ASK, "10.0.2.2", *sizes, timeout=60).stdout.strip()
    echo.kill()
    echo.wait()
    assert whole == str(len(sizes)), f"{label}: {whole} of {len(sizes)} datagrams came whole"
    for way in (rig.sends, rig.receives):
        assert way() > 1e6, f"{label}: {way.__name__}"
    udp = rig.iperf("-u", "-b", "5M")["sum"]
    assert udp["packets"] > 100 and udp["lost_percent"] < 20, udp


def wire_shows_esp_alone(pcap):
    """How many frames of ESP passed; beside them neighbours alone were asked for."""
    neighbours = "arp || (icmpv6.type >= 131 && icmpv6.type <= 137) || icmpv6.type == 143"
    # Later fragments of ESP are data to tshark.
    others = run("tshark", "-r", pcap, "-Y", f"!(esp || ip.proto == 50 || {neighbours})").stdout
    assert not others, f"more than ESP on the wire:\n{others[:2000]}"
    sealed = run("tshark", "-r", pcap, "-Y", "esp", "-T", "fields", "-e", "esp.spi").stdout.split()
    assert len(sealed) > 1000 and len(set(sealed)) == 1, f"{len(sealed)} of {set(sealed)}"
    return len(sealed)


def whole(mode, workers):
    label = f"{mode} mode, {workers} worker{'s' * (workers > 1)}"
    with Host() as rig:
        rig.begin(mode, workers)
        # A node's own frames pass the queueing discipline by: each end sees the other's.
        captures = [subprocess.Popen(
            rig.inside(end, "tcpdump", "-i", "wan", "-s", "200", "-B", "65536", "-U",
                       "-w", rig.path(f"{end}.pcap")),
            stderr=subprocess.DEVNULL) for end in ("ga", "gb")]
        rig.processes += captures
        time.sleep(1)
        programs(rig, mode, label)
        for capture in captures:
            capture.terminate()
            capture.wait(timeout=10)
        frames = sum(wire_shows_esp_alone(rig.path(f"{end}.pcap")) for end in ("ga", "gb"))
        port = rig.port()
        for cut in (("rx_supers", "rx_segments"), ("tx_supers", "tx_segments")):
            supers, segments = (port[key] for key in cut)
            assert supers > 20 and segments > 2 * supers, f"{label}: {cut}: {port}"
        assert port["rx_refused"] == 0, port
        text = rig.ask("ga", "show", "ports").stdout
        assert "super-frames cut into" in text, text
        shares = rig.show("ga")["shares"]
        assert len(shares) == workers and all(s["lookups"] > 0 for s in shares), shares
        links = json.loads(rig.do("ga", "ip", "-j", "link", "show", "ferrule0").stdout)
        assert links[0]["mtu"] == port["mtu"], "the TUN has the port's MTU"
        rig.end()
        ledger = f"{port['rx_supers']} cut into {port['rx_segments']} frames, " \
                 f"{port['tx_segments']} joined into {port['tx_supers']}"
        print(f"{label}: files whole, {frames} packets of ESP on the wire, nothing in clear; "
              f"super-frames: {ledger}")


def measure(rounds=3):
    """Octets that TCP carries with offload and without, in turn."""
    ratios = {"sends": [], "receives": []}
    for _ in range(rounds):
        speeds = {}
        for offload in (True, False):
            with Host() as rig:
                rig.begin(offload=offload)
                for way in (rig.sends, rig.receives):
                    speeds[way.__name__, offload] = way()
                rig.end()
        for way, list_ in ratios.items():
            list_.append(speeds[way, True] / speeds[way, False])
            print(f"{way}: {speeds[way, True] / 1e6:.0f} Mb/s with super-frames at the port, "
                  f"{speeds[way, False] / 1e6:.0f} without", flush=True)
    for way, list_ in ratios.items():
        print(f"the host {way} {statistics.median(list_):.2f} times as fast with super-frames "
              f"({min(list_):.2f} to {max(list_):.2f} in {rounds} rounds)")


need("ip", "ping", "curl", "iperf3", "tcpdump", "tshark")
if "--measure" in sys.argv:
    measure()
else:
    for mode, workers in (("tunnel", 1), ("transport", 1), ("tunnel", 2)):
        whole(mode, workers)
sys.exit(0)
