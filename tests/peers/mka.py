#!/usr/bin/env python3
# time-limit: 280
"""MKA between wpa_supplicant, over the MACsec of a Linux kernel, and the station of
`ferrule test mka`: each as key server, CAKs of 128 and 256 bits, new SAKs, a CAK and a CKN
that are wrong, and rules that are broken."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peernode import CPU, Check, Lab, ferrule, need, signals_exit  # noqa: E402
from supplicant import CAK, CKN, LONG, Supplicant  # noqa: E402

GUEST = "02:00:00:00:00:01/1"

need()
signals_exit()


class Peer(Supplicant):
    """With a look at the kernel's SecY."""

    def secy(self):
        return self.guest.sh("ip macsec show")


def tested(lab, keys, *more, cak=CAK, ckn=CKN):
    """The station's report, by rule, and its exit status."""
    keys.write_text(f"cak {cak}\n")
    keys.chmod(0o600)
    run = subprocess.run(
        ["ip", "netns", "exec", lab.ns, ferrule(), "test", "mka", "--interface", "station",
         "--cak", keys, "--ckn", ckn, "--duration", "6s", "--json", *more],
        capture_output=True, text=True, timeout=200)
    if not run.stdout.startswith("{"):
        raise SystemExit(run.stdout + run.stderr)
    report = json.loads(run.stdout)
    if "errors" in report:
        raise SystemExit(run.stdout)
    report = report["report"]
    (table,) = (block["table"] for section in report["sections"] for block in section["blocks"]
                if "table" in block)
    columns = [[cell.get("text", cell) for cell in column["cells"]] for column in table["columns"]]
    return run.returncode, report["answer"], list(zip(*columns))


def broken(rows):
    """What was broken. (A guest on a busy machine may be late.)"""
    return [row for row in rows if row[2] == "broken" and row[0] != "table 9-3"]


def seen(rows, rule):
    (row,) = (row for row in rows if rule in row[1])
    return row[2:]


check = Check()
with Lab(cpu=CPU) as lab:
    lab.bridge("lan")
    lab.tap("ta", bridge="lan", mac="02:00:00:00:00:01")
    lab.ip("link", "add", "station", "address", "02:00:00:00:00:02", "type", "veth",
           "peer", "name", "other")
    lab.ip("link", "set", "other", "master", "lan", "up")
    # The bridge hands on what an ordinary one does not.
    lab.ip("link", "set", "station", "up")
    guest = lab.guest("g", taps=["ta"])
    guest.sh("modprobe macsec; ip link set dev vec0 up")
    peer, keys = Peer(guest), pathlib.Path(lab.dir) / "cak.key"

    check.case("wpa_supplicant is key server, and rules are broken")
    peer.begin(priority=16, cak=CAK, ckn=CKN)
    code, answer, rows = tested(lab, keys, "--priority", "200", "--hostile")
    check.equal((code, broken(rows)), (0, []), answer)
    check.that(GUEST in answer, answer)
    check.equal(seen(rows, "SAKs unwrap")[0], "holds", "its SAK unwraps")
    check.equal(seen(rows, "is in use by both")[0], "holds", "in use")
    missing = [row for row in rows if row[2] != "holds" and row[0] != "table 9-3"]
    check.equal(missing, [], "every rule was seen")

    check.case("the station is key server, ten new SAKs")
    code, answer, rows = tested(lab, keys, "--priority", "1", "--rekeys", "10")
    check.equal((code, broken(rows)), (0, []), answer)
    check.equal(seen(rows, "to a new SAK"), ("holds", "10 of 10 within 6 s each"), "rekeys")
    check.that("RXSC: 0200000000020001" in peer.secy(),
               "the kernel has the station's channel")

    check.case("a CAK of 256 bits, GCM-AES-256")
    peer.begin(priority=16, cak=LONG, ckn=CKN)
    for priority in ("200", "1"):
        code, answer, rows = tested(lab, keys, "--priority", priority, cak=LONG)
        check.equal((code, broken(rows)), (0, []), f"priority {priority}: {answer}")

    check.case("wrong CAK, wrong CKN")
    code, answer, rows = tested(lab, keys, "--wait", "5s", cak=CAK)
    check.equal(code, 1, answer)
    check.equal(seen(rows, "that of the CAK"), ("broken", "by this CKN it has another CAK"), "CAK")
    code, answer, rows = tested(lab, keys, "--wait", "5s", cak=LONG, ckn="99")
    check.equal(code, 1, answer)
    check.that("other CKNs" in seen(rows, "that of the CAK")[1], str(rows))
check.done()
