#!/usr/bin/env python3
# time-limit: 280
"""The study with live columns, as root, and without them, as somebody else.

study_live           bytes on both core links as printed, loads, ceilings and delay by hop
                     measured, nothing left
study_without_root   the same study says "not run: needs root" and leaves nothing
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import binary, need  # noqa: E402

FERRULE = binary()
NOBODY = 65534
ONE_LABEL = {"plain": 1022, "IPsec": 1084, "MACsec": 1054}


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def study(program=FERRULE, **more):
    done = subprocess.run(
        [program, "study", "macsec-mobility", "--quick", "--json"],
        capture_output=True, text=True, timeout=200, **more)
    # 1: a claim of the study does not hold.
    check(done.returncode == 1, f"exit {done.returncode}: {done.stderr}")
    file = json.loads(done.stdout)
    check(file["schema"] == "ferrule-report/1", file["schema"])
    return file["report"]


def tables(report):
    blocks = [block for section in report["sections"] for block in section["blocks"]]
    return {block["table"]["id"]: block["table"] for block in blocks if "table" in block}


def live_columns(table):
    return [column for column in table["columns"] if column["kind"] == "live"]


def namespaces():
    return set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()


def study_live():
    before = namespaces()
    found = tables(study())
    systems = [cell["text"] for cell in found["overhead"]["columns"][0]["cells"]]
    behind, front = live_columns(found["overhead"])
    for system, one, two in zip(systems, behind["cells"], front["cells"]):
        check(one.get("value") == ONE_LABEL[system], f"{system}: {one}")
        check(two.get("value") == ONE_LABEL[system] + 4, f"{system}: {two}")
    for system in ("plain", "ipsec", "macsec"):
        delay, loss = live_columns(found[f"load-{system}"])
        measured = [cell for cell in delay["cells"] if "value" in cell]
        check(measured, f"{system}: nothing measured: {delay['cells']}")
        check(all(c["low"] <= c["value"] <= c["high"] for c in measured), measured)
        check(any("value" in cell for cell in loss["cells"]), loss)
    (ceilings,) = live_columns(found["ceilings"])
    check(all(0 < cell["value"] <= 100 for cell in ceilings["cells"]), ceilings)
    for column in live_columns(found["hops"]):
        measured = [cell for cell in column["cells"] if "value" in cell]
        check(len(measured) == 3, f"one to three switches: {column['cells']}")
        check(all(0 < c["low"] <= c["value"] <= c["high"] for c in measured), measured)
    check(namespaces() == before, f"left behind: {namespaces() - before}")


def study_without_root():
    # Somebody else may not look into our folders.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = shutil.copy(FERRULE, folder)
        report = study(copy, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
    for table in tables(report).values():
        for column in live_columns(table):
            check(all(c == {"missing": "not run: needs root"} for c in column["cells"]), column)


def main():
    study_without_root()
    print("study_without_root: ok")
    study_live()
    print("study_live: ok")


if __name__ == "__main__":
    need("ip", "dumpcap")
    main()
