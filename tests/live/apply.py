#!/usr/bin/env python3
# time-limit: 120
"""`apply` puts another configuration in force without losing a packet; a bad
one leaves the running node as it was."""
import json
import os
import re
import socket
import subprocess
import sys
import time

from rig import Rig, need

need("ip", "ping")


def client(rig):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(rig.socket("ga"))
    stream.settimeout(20)
    return stream


def line(stream):
    text = b""
    while not text.endswith(b"\n"):
        part = stream.recv(1 << 20)
        assert part, "the node hung up"
        text += part
    return text


def acl(rig):
    return json.loads(rig.ask("ga", "show", "acl", "--json").stdout)["acl"][0]["entries"]


with Rig() as rig:
    rig.gateways()
    rig.start("ga")
    rig.start("gb")
    rig.ping()
    with open(rig.path("ga.toml")) as file:
        good = file.read()
    more = good + '\n[[route]]\nprefix = "10.9.0.0/16"\nvia = "198.51.100.2"\n'

    def back_and_forth():
        for _ in range(10):
            for text in (more, good):
                rig.write("ga.toml", text)
                rig.ask("ga", "apply", rig.path("ga.toml"))

    pings = rig.lossless(back_and_forth)
    print(f"20 changes of routes: {pings} of {pings} pings answered")
    numbers = [s["number"] for s in rig.show("ga")["sas"] if s["way"] == "out"]
    assert numbers[0] > 2000, "a counter went back"

    # A port that is new, and gone again, beside the traffic.
    port = more + '\n[[port]]\nname = "extra"\ndriver = "tap"\ndevice = "extra0"\nmtu = 1400\n'
    port += '[[interface]]\nname = "extra"\nport = "extra"\naddress = ["10.7.0.1/24"]\n'

    def with_a_port():
        rig.write("ga.toml", port)
        said = rig.ask("ga", "apply", rig.path("ga.toml")).stdout
        assert "ports opened: extra" in said, said
        rig.do("ga", "ip", "link", "show", "extra0")
        rig.write("ga.toml", good)
        said = rig.ask("ga", "apply", rig.path("ga.toml")).stdout
        assert "ports closed: extra" in said, said

    pings = rig.lossless(with_a_port)
    print(f"a port opened and closed: {pings} of {pings} pings answered")

    # A list that takes long to read: the node serves others meanwhile.
    entries = "".join(f'{{ action = "permit", from = "10.{n >> 16}.{n >> 8 & 255}.{n & 255}/32" }},\n'
                      for n in range(100_000))
    large = good.replace('port = "lan"\n', 'port = "lan"\nacl-in = "large"\n', 1)
    large += f'\n[[access-list]]\nname = "large"\nentry = [\n{entries}{{ action = "permit" }}\n]\n'
    keys = {name: open(rig.path(name)).read() for name in re.findall(r'key = "([^"]+)"', good)}

    def with_a_large_list():
        served = 0
        with client(rig) as asks, client(rig) as looks:
            request = {"apply": {"file": rig.path("ga.toml"), "text": large, "keys": keys}}
            asks.sendall(json.dumps(request).encode() + b"\n")
            # What it asks for next is answered after that.
            asks.sendall(b'{"show":{}}\n')
            asks.setblocking(False)
            answer = b""
            while b"\n" not in answer:
                looks.sendall(b'{"show":{}}\n')
                assert b'"report"' in line(looks)
                served += 1
                try:
                    part = asks.recv(1 << 20)
                    assert part, "the node hung up"
                    answer += part
                except BlockingIOError:
                    time.sleep(0.02)
            assert answer.startswith(b'{"applied"'), answer[:200]
        # Its answer is counted, too.
        assert served > 3, served
        assert rig.ask("ga", "show", "acl").stdout.count("permit") == 100_001
        # A few entries change: an edit at first, trees of its own soon after.
        host = '{ action = "permit", from = "10.0.1.2", name = "host" },'
        edited = large.replace("entry = [\n", f"entry = [\n{host}\n", 1)
        for text in (edited, large, edited):
            rig.write("ga.toml", text)
            rig.ask("ga", "apply", rig.path("ga.toml"))
        counts = [0]
        for _ in range(4):
            rig.ping()
            entries = acl(rig)
            assert len(entries) == 100_003 and entries[0]["name"] == "host", entries[:2]
            counts.append(entries[0]["packets_in"])
            assert counts[-1] >= counts[-2] + 3, counts
            time.sleep(0.4)
        rig.write("ga.toml", good)
        rig.ask("ga", "apply", rig.path("ga.toml"))
        print(f"100,000 entries applied: {served} others answered meanwhile, ", end="")

    pings = rig.lossless(with_a_large_list)
    print(f"{pings} of {pings} pings answered")

    # A key that nobody began a counter for.
    rig.write("new.key", f"cipher {os.urandom(16).hex()}\nsalt {os.urandom(4).hex()}\n")
    bad = (
        ("an unknown key", good.replace("[node]", "[node]\nnmae = 1"), 2, "unknown field"),
        ("a missing interface", port.replace('driver = "tap"', 'driver = "af-packet"'), 3,
         "no interface is called"),
        ("a missing counter", good.replace("ga-to-gb.key", "new.key"), 3, "ferrule state create"),
        ("another name", good.replace('name = "ga"', 'name = "gx"'), 2, "cannot change"),
        ("a missing key file", good.replace("ga-to-gb.key", "no.key"), 2, "is not there"),
    )

    def all_bad():
        before = rig.show("ga")
        for name, text, code, words in bad:
            assert text != good, name
            rig.write("bad.toml", text)
            result = rig.ask("ga", "apply", rig.path("bad.toml"), check=False)
            assert result.returncode == code, (name, result.returncode, result.stderr)
            assert words in result.stderr and "bad.toml:" in result.stderr, (name, result.stderr)
            assert result.stderr.count("error:") == 1, (name, result.stderr)
        after = rig.show("ga")
        assert [p["name"] for p in before["ports"]] == [p["name"] for p in after["ports"]]
        assert [p["prefix"] for p in before["path"]] == [p["prefix"] for p in after["path"]]
        assert {s["spi"] for s in before["sas"]} == {s["spi"] for s in after["sas"]}

    pings = rig.lossless(all_bad)
    print(f"{len(bad)} bad configurations refused: {pings} of {pings} pings answered")
sys.exit(0)
