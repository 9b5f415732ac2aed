#!/usr/bin/env python3
# time-limit: 280
"""MKA between wpa_supplicant, over the MACsec of a Linux kernel, and the station of
`ferrule test mka`: each as key server, CAKs of 128 and 256 bits, new SAKs, a CAK and a CKN
that are wrong, and rules that are broken."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clauses import broken, key_file, seen, tested  # noqa: E402
from peernode import CPU, Check, Lab, need, signals_exit  # noqa: E402
from supplicant import CAK, CKN, LONG, Supplicant  # noqa: E402

GUEST = "02:00:00:00:00:01/1"

need()
signals_exit()


class Peer(Supplicant):
    """With a look at the kernel's SecY."""

    def secy(self):
        return self.guest.sh("ip macsec show")


def asked(lab, *more, cak=CAK, ckn=CKN):
    """The station's report, by rule, and its exit status."""
    keys = key_file(lab, "cak.key", cak=cak)
    return tested(lab, "mka", "--interface", "station", "--cak", keys, "--ckn", ckn,
                  "--duration", "6s", *more)


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
    peer = Peer(guest)

    check.case("wpa_supplicant is key server, and rules are broken")
    peer.begin(priority=16, cak=CAK, ckn=CKN)
    code, answer, rows = asked(lab, "--priority", "200", "--hostile")
    check.equal((code, broken(rows)), (0, []), answer)
    check.that(GUEST in answer, answer)
    check.equal(seen(rows, "SAKs unwrap")[0], "holds", "its SAK unwraps")
    check.equal(seen(rows, "is in use by both")[0], "holds", "in use")
    missing = [row for row in rows if row[2] != "holds" and row[0] != "table 9-3"]
    check.equal(missing, [], "every rule was seen")

    check.case("the station is key server, ten new SAKs")
    code, answer, rows = asked(lab, "--priority", "1", "--rekeys", "10")
    check.equal((code, broken(rows)), (0, []), answer)
    check.equal(seen(rows, "to a new SAK"), ("holds", "10 of 10 within 6 s each"), "rekeys")
    check.that("RXSC: 0200000000020001" in peer.secy(),
               "the kernel has the station's channel")

    check.case("a CAK of 256 bits, GCM-AES-256")
    peer.begin(priority=16, cak=LONG, ckn=CKN)
    for priority in ("200", "1"):
        code, answer, rows = asked(lab, "--priority", priority, cak=LONG)
        check.equal((code, broken(rows)), (0, []), f"priority {priority}: {answer}")

    check.case("wrong CAK, wrong CKN")
    code, answer, rows = asked(lab, "--wait", "5s", cak=CAK)
    check.equal(code, 1, answer)
    check.equal(seen(rows, "that of the CAK"), ("broken", "by this CKN it has another CAK"), "CAK")
    code, answer, rows = asked(lab, "--wait", "5s", cak=LONG, ckn="99")
    check.equal(code, 1, answer)
    check.that("other CKNs" in seen(rows, "that of the CAK")[1], str(rows))
check.done()
