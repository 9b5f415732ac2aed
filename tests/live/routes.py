#!/usr/bin/env python3
# time-limit: 120
"""Routes, labels and addresses that a program gives a running node, beside its file: in force
when they are said to be, under traffic without a packet lost, refused whole, kept by `apply`,
gone with the node."""
import json
import os
import re
import socket
import subprocess
import threading
import time

from rig import Rig, eventually, need

need("ip", "ping", "tcpdump")


class Program:
    """A program at the management socket."""

    def __init__(self, rig, node):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(rig.socket(node))
        self.stream.settimeout(20)
        self.lines = self.stream.makefile("rb")

    def ask(self, *deltas):
        """Seconds to the answer, and the answer."""
        begin = time.monotonic()
        self.stream.sendall(json.dumps({"dynamic": deltas}).encode() + b"\n")
        answer = json.loads(self.lines.readline())
        return time.monotonic() - begin, answer

    def done(self, *deltas):
        seconds, answer = self.ask(*deltas)
        assert answer == {"done": {}}, answer
        return seconds


def route(prefix, *via):
    return {"set-route": {"prefix": prefix, "paths": [{"via": v} for v in via]}}


def paths(rig, node):
    report = json.loads(rig.ask(node, "show", "path", "--json").stdout)
    return {(p["vrf"], p["prefix"]): p for p in report["path"]}


with Rig() as rig:
    rig.gateways()
    # The gateways do not know the way to the other site.
    for name in ("ga", "gb"):
        text = open(rig.path(f"{name}.toml")).read()
        text, times = re.subn(r"\[\[route\]\]\n(?:[a-z-]+ = .*\n)+", "", text)
        assert times == 1, f"{times} routes"
        rig.write(f"{name}.toml", text)
    for name in ("ga", "gb"):
        rig.start(name)
    assert rig.ping(check=False, wait=1) == 0, "no route, and yet"
    rig.ask("ga", "route", "add", "10.0.2.0/24", "--via", "198.51.100.2")
    rig.ask("gb", "route", "add", "10.0.1.0/24", "--via", "198.51.100.1")
    rig.ping()
    told = rig.ask("ga", "show", "path").stdout
    assert re.search(r"10\.0\.2\.0/24 .*program", told), told
    print("routes by hand: pings are answered")

    # Under traffic: another address beside, other routes, and the same one by two ways.
    program, took = Program(rig, "ga"), []

    def batches():
        for n in range(150):
            address = {"interface": "wan", "address": f"198.51.100.{10 + n}/24"}
            took.append(program.done(
                {"add-address": address}, route("10.0.2.0/24", "198.51.100.2"),
                route(f"10.9.{n}.0/24", "198.51.100.2", "198.51.100.77"),
                {"drop-address": address}))

    pings = rig.lossless(batches)
    took.sort()
    print(f"150 batches: {pings} of {pings} pings answered; in force after "
          f"{took[75] * 1e3:.1f} ms, at most {took[-1] * 1e3:.1f} ms")
    assert len(paths(rig, "ga")) >= 150

    # The own addresses are reached, and no longer.
    program.done({"add-address": {"interface": "wan", "address": "198.51.100.200/24"}})
    rig.ask("gb", "route", "add", "10.77.0.0/24", "--via", "198.51.100.1")
    program.done(route("10.77.0.0/24", "198.51.100.2"))

    # Refused, whole.
    before = paths(rig, "ga")
    for wrong, why in (
            (route("10.10.0.1/24", "198.51.100.2"), "bits set behind the prefix"),
            ({"set-route": {"prefix": "10.10.0.0/24", "vrf": "blue", "paths": []}}, "no VRF"),
            ({"set-label": {"label": 5, "vrf": ""}}, "no label to use")):
        _, answer = program.ask(route("10.10.0.0/24", "198.51.100.2"), wrong)
        assert why in json.dumps(answer), answer
    result = rig.ask("ga", "route", "add", "10.10.0.0/24", "--via", "198.51.100.2", "--vrf", "blue",
                     check=False)
    assert result.returncode == 2 and "no VRF `blue`" in result.stderr, result.stderr
    rig.ask("ga", "route", "drop", "10.10.0.0/24")
    assert paths(rig, "ga") == before, "a refused batch changed something"
    lines = [json.dumps(route(f"10.11.{n}.0/24", "198.51.100.2")) for n in range(200)]
    batch = rig.write("batch", "\n".join([*lines, '{"set-route": {"prefix": "10.12.0.0/16"}}']))
    result = rig.ask("ga", "route", "batch", batch, check=False)
    assert result.returncode == 2 and "line 201" in result.stderr, result.stderr
    rig.ask("ga", "route", "batch", rig.write("batch", "\n".join(lines)))
    assert len(paths(rig, "ga")) == len(before) + 200
    print("refused batches change nothing, and say why")

    # A list is edited, and gets trees of its own soon after, beside batches all the time.
    text = open(rig.path("ga.toml")).read()
    hosts = "".join(f'{{ action = "permit", from = "10.3.{n >> 8}.{n & 255}" }},\n'
                    for n in range(5000))
    listed = text.replace('port = "lan"\n', 'port = "lan"\nacl-in = "large"\n', 1)
    listed += f'\n[[access-list]]\nname = "large"\nentry = [\n{hosts}{{ action = "permit" }}\n]\n'
    done = threading.Event()

    def flaps():
        while not done.is_set():
            program.done(route("10.10.0.0/24", "198.51.100.2"))
            program.done({"drop-route": {"prefix": "10.10.0.0/24"}})

    flapping = threading.Thread(target=flaps)
    flapping.start()
    for n in range(6):
        edit = f'entry = [\n{{ action = "permit", from = "10.4.0.{n}" }},'
        rig.write("ga.toml", listed.replace("entry = [", edit, 1))
        rig.ask("ga", "apply", rig.path("ga.toml"))
        rig.ask("ga", "apply", "--dry-run", rig.path("ga.toml"))
        time.sleep(0.3)
    done.set()
    flapping.join()
    log = open(rig.processes[0].log).read()
    assert "keep their edits" not in log and "under way" not in log, log[-2000:]
    rig.write("ga.toml", text)
    rig.ask("ga", "apply", rig.path("ga.toml"))
    rig.ping()
    print("a list edited beside batches: applied, and whole again")

    # 20,000 routes at once, and the time that a neighbour waits meanwhile.
    many = [route(f"172.{16 + (n >> 12)}.{n >> 4 & 255}.{n % 16 * 16}/28", "198.51.100.2")
            for n in range(20_000)]
    seconds = program.done(*many)
    print(f"20,000 routes in force after {seconds * 1e3:.0f} ms")

    # What would lead the other site's packets to the LAN, in clear, does not.
    eve = subprocess.Popen(rig.inside("ha", "tcpdump", "-i", "eth0", "-n", "-Q", "in", "-w",
                                      rig.path("lan.pcap"), "--immediate-mode", "-U",
                                      "icmp", "and", "src", "10.0.1.2"), stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    for address in ("198.51.100.200/24", "198.51.200.9/16"):
        program.done({"add-address": {"interface": "lan", "address": address}})
        rig.ping()
    eve.terminate()
    eve.wait()
    assert os.path.getsize(rig.path("lan.pcap")) <= 24, "packets of the tunnel came in clear"
    for address in ("198.51.100.200/24", "198.51.200.9/16"):
        program.done({"drop-address": {"interface": "lan", "address": address}})

    # `apply` keeps them; the file comes first.
    text = open(rig.path("ga.toml")).read()
    rig.write("ga.toml", text + '\n[[route]]\nprefix = "10.9.0.0/24"\ndiscard = true\n')
    rig.ask("ga", "apply", rig.path("ga.toml"))
    here = paths(rig, "ga")
    assert here["", "10.9.0.0/24"]["via"] == "discard" and not here["", "10.9.0.0/24"]["dynamic"]
    assert here["", "10.9.1.0/24"]["dynamic"]
    rig.ping()
    rig.write("ga.toml", text)
    rig.ask("ga", "apply", rig.path("ga.toml"))
    assert paths(rig, "ga")["", "10.9.0.0/24"]["dynamic"]
    print("apply keeps them, and the file comes first")

    # Nonsense, and much of it.
    program.done({"clear": {}})
    first = rig.memory(rig.processes[0])
    for n in range(300):
        wrong = [{"set-route": {"prefix": f"10.{n % 256}.0.0/16", "paths": [{"via": "0.0.0.0"}] * 40}}]
        _, answer = program.ask(*wrong)
        assert "refused" in answer, answer
        program.stream.sendall(b'{"dynamic": [{"set-route": {"prefix": "' + b"9" * 500 + b'"}}]}\n')
        assert b"refused" in program.lines.readline()
    grown = rig.memory(rig.processes[0]) - first
    assert grown < 20_000, grown
    assert rig.ping(count=1, check=False, wait=1) == 0, "all is clear"

    # They die with the node.
    rig.ask("ga", "route", "add", "10.0.2.0/24", "--via", "198.51.100.2")
    rig.ping()
    rig.processes[0].kill()
    rig.processes[0].wait()
    rig.start("ga")
    assert ("", "10.0.2.0/24") not in paths(rig, "ga")
    rig.ask("ga", "route", "add", "10.0.2.0/24", "--via", "198.51.100.2")
    eventually("pings after a restart", lambda: rig.ping(count=1, check=False, wait=1) == 1)
print("ok")
