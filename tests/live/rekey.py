#!/usr/bin/env python3
# time-limit: 300
"""`ferrule rekey --apply` gives both ends of a tunnel, or of a MACsec link, new keys under
traffic that loses nothing; the files that it writes without --apply do the same by hand;
a change that was cut short, by hand or by SIGKILL, is set right by the next one;
`apply --dry-run` says beforehand what changes, and changes nothing."""
import json
import os
import re
import subprocess

from rig import Rig, need, run

need("ip", "ping")


def counted(rig, change, to="10.0.2.2", count=2500):
    """Pings in a hurry while `change` happens: all must be answered."""
    pings = subprocess.Popen(rig.inside("ha", "ping", "-q", "-c", count, "-i", "0.002", to),
                             stdout=subprocess.PIPE, text=True)
    change()
    assert pings.poll() is None, "the traffic was over before the change"
    out, _ = pings.communicate(timeout=60)
    assert f" {count} received" in out, out


def spis(rig, name):
    return sorted((s["way"], s["spi"]) for s in rig.show(name)["sas"])


def cut_short(rig, ends, cut):
    """A change of keys of which only the first `cut` commands were carried out; another one,
    which is not interrupted, sets it right."""
    said = json.loads(run(rig.ferrule, "rekey", *ends, "--json").stdout)
    commands = [(name, command["file"]) for step in said["steps"]
                for name, command in zip(("ga", "gb"), step["commands"])]
    for name, file in commands[:cut]:
        rig.ask(name, "apply", "--new-keys", file)
        os.replace(file, rig.path(f"{name}.toml"))
    for _, file in commands[cut:]:
        os.unlink(file)
    run(rig.ferrule, "rekey", *ends, "--apply", "--silent", "1")


def dry(rig, name, file, *more, check=True):
    said = rig.ask(name, "apply", rig.path(file), "--dry-run", "--json", *more, check=check)
    return said.returncode, json.loads(said.stdout)


with Rig() as rig:
    rig.gateways()
    rig.start("ga")
    rig.start("gb")
    rig.ping()
    ends = [rig.path("ga.toml"), rig.path("gb.toml")]

    # By hand, from the files of the three steps.
    said = json.loads(run(rig.ferrule, "rekey", *ends, "--json").stdout)
    assert [step["step"] for step in said["steps"]] == ["make", "switch", "break"], said
    assert len(said["keys"]) == 2 and not said["applied"], said
    assert all(oct(os.stat(key).st_mode)[-3:] == "600" for key in said["keys"]), said["keys"]
    before = spis(rig, "ga")

    make = os.path.basename(said["steps"][0]["commands"][0]["file"])
    code, told = dry(rig, "ga", make, "--new-keys")
    found = [(d["section"], d["change"]) for d in told["differences"]]
    assert (code, found) == (0, [("sa", "added")]), told
    code, told = dry(rig, "ga", make, check=False)
    assert code == 3 and "ferrule state create" in told["errors"][0]["remedy"], told
    assert spis(rig, "ga") == before, "a dry run changed something"

    def by_hand():
        for step in said["steps"]:
            for name, command in zip(("ga", "gb"), step["commands"]):
                rig.ask(name, "apply", "--new-keys", command["file"])

    counted(rig, by_hand)
    after = spis(rig, "ga")
    assert not set(before) & set(after) and len(after) == 2, (before, after)
    print("three steps by hand: 2500 of 2500 pings answered, other SPIs at both ends")

    # The files of the last step are the configurations now.
    for name in ("ga", "gb"):
        os.replace(rig.path(f"{name}.3-break.toml"), rig.path(f"{name}.toml"))
        os.unlink(rig.path(f"{name}.1-make.toml"))
        os.unlink(rig.path(f"{name}.2-switch.toml"))

    # In one go, twice.
    for _ in range(2):
        before = spis(rig, "gb")
        counted(rig, lambda: run(rig.ferrule, "rekey", *ends, "--apply", "--silent", "1"))
        after = spis(rig, "gb")
        assert not set(before) & set(after) and len(after) == 2, (before, after)
        code, told = dry(rig, "gb", "gb.toml")
        assert (code, told["differences"]) == (0, []), told
    print("ferrule rekey --apply, twice: 5000 of 5000 pings answered")

    # Cut short after each step at each end.
    for cut in range(1, 6):
        before = spis(rig, "ga")
        counted(rig, lambda: cut_short(rig, ends, cut))
        for name in ("ga", "gb"):
            after = spis(rig, name)
            assert not set(before) & set(after) and len(after) == 2, (before, after)
            code, told = dry(rig, name, f"{name}.toml")
            assert (code, told["differences"]) == (0, []), told
    print("cut short five times and said again: 12500 of 12500 pings answered, nothing left over")

    # Killed at any moment.
    def killed():
        for delay in (0.0, 0.01, 0.02, 0.04, 0.06, 0.1, 0.2, 1.1, 1.2, 1.3):
            process = subprocess.Popen([rig.ferrule, "rekey", *ends, "--apply", "--silent", "1"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                _, told = process.communicate(timeout=delay)
                assert process.returncode == 0, told
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            for end in ends:
                if os.path.exists(f"{end}.new"):
                    os.unlink(f"{end}.new")
        run(rig.ferrule, "rekey", *ends, "--apply", "--silent", "1")

    counted(rig, killed, count=5000)
    for name in ("ga", "gb"):
        assert len(spis(rig, name)) == 2, spis(rig, name)
        code, told = dry(rig, name, f"{name}.toml")
        assert (code, told["differences"]) == (0, []), told
    print("killed ten times and said again: 5000 of 5000 pings answered, nothing left over")

    # New files are for whoever read the old ones; a link stays one.
    def keys():
        return [rig.path(key) for key in re.findall(r'key = "([^"]+)"', open(ends[0]).read())]

    def owner(path):
        return os.stat(path).st_uid, os.stat(path).st_gid

    before = keys()
    for path in (ends[0], *before):
        os.chown(path, 1234, 5678)
    os.rename(ends[1], rig.path("really.toml"))
    os.symlink("really.toml", ends[1])
    run(rig.ferrule, "rekey", *ends, "--apply", "--silent", "1")
    assert keys() and not set(keys()) & set(before), (before, keys())
    assert {owner(path) for path in (ends[0], *keys())} == {(1234, 5678)}, keys()
    assert os.path.islink(ends[1])
    os.rename(rig.path("really.toml"), ends[1])

    # A file of somebody else's, where the new configuration would be made, is left alone.
    text = open(ends[1]).read()
    rig.write("gb.toml.new", "not ours")
    result = run(rig.ferrule, "rekey", *ends, "--apply", "--json", check=False)
    told = json.loads(result.stdout)["errors"][0]
    assert result.returncode == 3 and "gb.toml.new" in told["what"], told
    assert open(rig.path("gb.toml.new")).read() == "not ours" and open(ends[1]).read() == text
    os.unlink(rig.path("gb.toml.new"))
    run(rig.ferrule, "rekey", *ends, "--apply", "--silent", "1")

    # What would change, by section; and what would not be accepted.
    rig.change("ga", r"^(\[\[policy\]\])", '[[route]]\nprefix = "10.9.0.0/16"\nvia = "198.51.100.2"\n\n\\1')
    code, told = dry(rig, "ga", "ga.toml")
    assert [(d["section"], d["name"]) for d in told["differences"]] == [("route", "10.9.0.0/16")], told
    text = rig.ask("ga", "apply", rig.path("ga.toml"), "--dry-run").stdout
    assert "  route\n    + 10.9.0.0/16\n" in text, text
    assert not any(p["prefix"] == "10.9.0.0/16" for p in rig.show("ga")["path"])
    rig.change("ga", r'^name = "ga"', 'name = "gx"')
    code, told = dry(rig, "ga", "ga.toml", check=False)
    assert code == 2 and told["errors"][0]["line"] > 0, told
    assert "cannot change" in told["errors"][0]["what"], told

    # Ends that do not belong together.
    result = run(rig.ferrule, "rekey", rig.path("gb.toml"), rig.path("gb.toml"), "--json", check=False)
    told = json.loads(result.stdout)
    assert result.returncode == 2 and told["errors"][0]["file"].endswith("gb.toml"), told
    print("dry runs say what would change, and why not")

# A MACsec link: other association numbers, by hand once and in one go until all four have
# been in use.
for cipher in ("gcm-aes-128", "gcm-aes-xpn-256"):
    with Rig() as rig:
        rig.edges(cipher=cipher)
        rig.start("ga")
        rig.start("gb")
        rig.ping(to="10.5.0.2")
        ends = [rig.path("ga.toml"), rig.path("gb.toml")]

        def numbers(name):
            return sorted((sa["way"], sa["an"]) for sa in rig.show(name)["macsec"])

        def by_hand():
            said = json.loads(run(rig.ferrule, "rekey", *ends, "--json").stdout)
            assert said["port"] == "uplink" and len(said["keys"]) == 2, said
            for step in said["steps"]:
                for name, command in zip(("ga", "gb"), step["commands"]):
                    rig.ask(name, "apply", "--new-keys", command["file"])
            for name in ("ga", "gb"):
                os.replace(rig.path(f"{name}.3-break.toml"), rig.path(f"{name}.toml"))
                os.unlink(rig.path(f"{name}.1-make.toml"))
                os.unlink(rig.path(f"{name}.2-switch.toml"))

        def at_once():
            run(rig.ferrule, "rekey", *ends, "--port", "uplink", "--apply", "--silent", "1")

        for turn, change in enumerate((by_hand, at_once, at_once, at_once, at_once), 1):
            counted(rig, change, to="10.5.0.2")
            for name in ("ga", "gb"):
                assert numbers(name) == [("rx", turn % 4), ("tx", turn % 4)], numbers(name)
        for cut in (1, 3, 5) if cipher == "gcm-aes-128" else ():
            before = numbers("ga")
            counted(rig, lambda: cut_short(rig, ends, cut), to="10.5.0.2")
            for name in ("ga", "gb"):
                after = numbers(name)
                assert len(after) == 2 and not set(before) & set(after), (before, after)
        # What was used before is no more accepted than what never was.
        drops = rig.drops("gb")
        assert not any(reason.startswith("macsec") for reason in drops), drops
    print(f"{cipher}: a SecY's keys changed five times, 12500 of 12500 pings answered")
