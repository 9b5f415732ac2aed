#!/usr/bin/env python3
# time-limit: 120
"""`apply` puts another configuration in force without losing a packet; a bad
one leaves the running node as it was."""
import os
import subprocess
import sys

from rig import Rig, need

need("ip", "ping")


def counted(rig, change):
    """Pings in a hurry while `change` happens: all must be answered."""
    pings = subprocess.Popen(rig.inside("ha", "ping", "-q", "-c", 2000, "-i", "0.002", "10.0.2.2"),
                             stdout=subprocess.PIPE, text=True)
    change()
    out, _ = pings.communicate(timeout=60)
    assert " 2000 received" in out, out


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

    counted(rig, back_and_forth)
    print("20 changes of routes: 2000 of 2000 pings answered")
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

    counted(rig, with_a_port)
    print("a port opened and closed: 2000 of 2000 pings answered")

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

    counted(rig, all_bad)
    print(f"{len(bad)} bad configurations refused: 2000 of 2000 pings answered")
sys.exit(0)
