#!/usr/bin/env python3
# time-limit: 480
"""The study with live columns, as root, and without them, as somebody else.

study_live           bytes on both core links as printed, loads, ceilings and delay by hop
                     measured, nothing left
study_without_root   the same study says "not run: needs root" and leaves nothing
study_token_live     key stream ahead, with SoftHSM behind the card's delay: every live column
                     has numbers, the token after the buffer is empty is as fast as 126 blocks
                     in 16 ms, nothing was altered, delays keep a call alive
study_toe_live       three systems as nodes: throughput, latency and host cycles, both ways
study_acl_live       lists of 120 entries in and out, by size, share permitted and place: numbers
                     everywhere, a list costs something, no frame of a gigabit line
study_ipsec_live     FTP, SMTP and Telnet by Debian's programs over every protection: response
                     times, what the nodes did meanwhile; on the wires AH and ESP alone where
                     packets are sealed, in fragments where segments fill them
study_ipsec_ends     killed or interrupted amid transfers: no server, node or namespace is left
"""
import glob
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import binary, eventually, need  # noqa: E402

FERRULE = binary()
NOBODY = 65534
SERVERS = ("curl", "inetutils-inetd", "pgrep", "smtpd", "tcpdump", "telnetd", "vsftpd")
ONE_LABEL = {"plain": 1022, "IPsec": 1084, "MACsec": 1054}


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def study(program=FERRULE, name="macsec-mobility", codes=(1,), **more):
    done = subprocess.run(
        [program, "study", name, "--quick", "--json"],
        capture_output=True, text=True, timeout=200, **more)
    # 1: a claim of the study does not hold.
    check(done.returncode in codes, f"exit {done.returncode}: {done.stderr}")
    file = json.loads(done.stdout)
    check(file["schema"] == "ferrule-report/1", file["schema"])
    return file["report"]


def tables(report):
    blocks = [block for section in report["sections"] for block in section["blocks"]]
    return {block["table"]["id"]: block["table"] for block in blocks if "table" in block}


def live_columns(table):
    return [column for column in table["columns"] if column["kind"] == "live"]


def check_parts(table):
    """Columns of parts add up to the delay, as far as the table's digits say."""
    model = [column for column in table["columns"] if column["kind"] == "model"]
    delay, *parts = [[cell["value"] for cell in column["cells"]] for column in model]
    for whole, *each in zip(delay, *parts):
        check(abs(whole - sum(each)) < 1e-6, f"{table['id']}: {each} are not {whole}")


def namespaces():
    """Those that are there. Of a study that somebody killed the next one takes some away."""
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
        check(len(measured) == 3, f"one, two and four switches: {column['cells']}")
        check(all(0 < c["low"] <= c["value"] <= c["high"] for c in measured), measured)
    for name in ("chain", "chain-software"):
        (column,) = live_columns(found[name])
        measured = [cell for cell in column["cells"] if "value" in cell]
        check(len(measured) == 8, f"{name}, one to eight switches: {column['cells']}")
        check(all(0 < c["low"] <= c["value"] <= c["high"] for c in measured), measured)
    plain, edge, switch = live_numbers(found["chain-prices"], "work")
    check(0 < plain < edge < switch < 50_000, f"{plain}, {edge}, {switch} ns a frame")
    for name in ("chain", "chain-bursts", "chain-software"):
        check_parts(found[name])
    check(namespaces() <= before, f"left behind: {namespaces() - before}")


def live_numbers(table, head):
    found = [c for c in live_columns(table) if c["head"] == head]
    check(found, f"no live column {head} of {table['id']}")
    return [cell.get("value") for cell in found[0]["cells"]]


def study_token_live():
    before = namespaces()
    found = tables(study(name="prebuffered-ctr", codes=(0, 1)))
    for name in ("throughput", "call", "voip", "drain", "sizes", "order", "nodes"):
        for column in live_columns(found[name]):
            check(any("value" in cell for cell in column["cells"]), f"{name}: {column}")
    # 126 blocks of key stream in 16 ms: 65 blocks a packet, then 9.
    rates = live_numbers(found["throughput"], "one direction")
    for rate, packets, octets in ((rates[1], 126 / 65, 1024), (rates[4], 14, 128)):
        ideal = packets / 0.016 * octets * 8 / 1000
        check(0.7 * ideal < rate < 1.05 * ideal, f"{rate} kbit/s, {ideal} at most")
    check(set(live_numbers(found["order"], "wrong")) == {0}, found["order"])
    check(set(live_numbers(found["nodes"], "altered")) == {0}, found["nodes"])
    plain, *rings = live_numbers(found["voip"], "in time")
    check(plain < 50 and min(rings) > plain + 30, f"in time: {plain} %, {rings}")
    slow, shaped = live_numbers(found["drain"], "after")[1::2]
    check(shaped > 1.5 * slow, f"empty after {slow} s, with delays {shaped} s")
    what = [cell["text"] for cell in found["nodes"]["columns"][0]["cells"]]
    in_time = dict(zip(what, live_numbers(found["nodes"], "within 100 ms")))
    crowded = in_time["a call beside large packets"]
    shaped = in_time["a call beside large packets, delayed by size"]
    check(shaped > crowded - 5, f"a call: {crowded} %, with delays {shaped} %")
    check(namespaces() <= before, f"left behind: {namespaces() - before}")


def study_toe_live():
    before = namespaces()
    found = tables(study(name="toe-ipsec"))
    for name in ("speeds-live", "sizes-live"):
        table = found[name]
        systems = {cell["text"] for cell in table["columns"][0]["cells"]}
        check(systems == {"software", "look-aside", "inline", "nothing sealed"}, systems)
        ways = {cell["text"] for cell in table["columns"][1]["cells"]}
        check(ways == {"sending", "receiving"}, ways)
        for head in ("arrived", "latency", "host"):
            numbers = [n for n in live_numbers(table, head) if n is not None]
            check(len(numbers) > len(systems) and min(numbers) > 0, f"{name} {head}: {numbers}")
    slowest = live_numbers(found["speeds-live"], "arrived")[0]
    check(slowest > 99, f"100 Mbit/s: {slowest} %")
    for name in ("today", "today-study", "crossover", "crossover-study"):
        check(live_columns(found[name]), name)
    check(namespaces() <= before, f"left behind: {namespaces() - before}")


def study_acl_live():
    found = tables(study(name="acl-mpls"))
    for name in ("sizes", "permitted", "places", "streams"):
        for column in live_columns(found[name]):
            numbers = [cell.get("value") for cell in column["cells"]]
            check(all(n and 1 < n < 5_000 for n in numbers), f"{name}: {column}")
    plain, listed = (live_numbers(found["sizes"], head) for head in ("router", "router, out"))
    # 64 to 1,024 octets; a frame of 64 takes 672 ns on a line of 1 Gbit/s.
    check(all(a < b for a, b in zip(plain, listed)) and listed[0] < 672, f"{plain}, {listed}")


# Wires of the study's lanes in the first node's namespace, what is on them, and whether a
# full segment is cut behind its sealing.
WIRES = {"w2": (6, False), "w3": (6, False), "w4": (51, True), "w5": (50, True),
         "w6": (50, False), "w7": (51, True), "w8": (50, False)}


def frames(path):
    """Type of every frame in a capture but for neighbour discovery, for IPv4 its protocol,
    and whether it is a fragment."""
    with open(path, "rb") as file:
        data = file.read()
    at = 24
    while at + 16 <= len(data):
        kept = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16:at + 16 + kept]
        at += 16 + kept
        kind = struct.unpack_from("!H", frame, 12)[0]
        if kind == 0x86dd and (frame[20] == 58 and 133 <= frame[54] <= 137
                               or frame[20] == 0 and frame[62] in (131, 132, 143)):
            continue  # neighbour and listener discovery of the nodes, which nobody seals
        fragment = kind == 0x0800 and struct.unpack_from("!H", frame, 20)[0] & 0x3fff != 0
        yield kind, frame[23] if kind == 0x0800 else None, fragment


def running(process):
    """Processes of a study, by the folder in their command line."""
    found = subprocess.run(["pgrep", "-af", f"ferrule-study-{process}-"],
                           capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if "pgrep" not in line]


def begun(out):
    """A study amid its transfers: the process, and its namespaces' name."""
    study = subprocess.Popen([FERRULE, "study", "ipsec-ip-layer", "--quick", "--json"],
                             stdout=out, stderr=subprocess.PIPE, text=True)
    name = f"ferrule-study-{study.pid}"
    inside = ["ip", "netns", "exec", f"{name}-na", "cat", "/proc/net/dev"]

    def ready():
        check(study.poll() is None, f"it ended: {study.poll()}")
        lines = subprocess.run(inside, capture_output=True, text=True).stdout.splitlines()
        return any(line.strip().startswith(f"{list(WIRES)[-1]}:") for line in lines)
    try:
        eventually("two hosts and their wires", ready, 60)
    except BaseException:
        study.kill()
        raise
    return study, name


def study_ipsec_live():
    before = namespaces()
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/report", "w+") as out:
        study, name = begun(out)
        taps = [subprocess.Popen(
            ["ip", "netns", "exec", f"{name}-na", "tcpdump", "-Z", "root", "-U", "-s", "64",
             "-i", wire, "-w", f"{folder}/{wire}"], stderr=subprocess.DEVNULL) for wire in WIRES]
        said = study.communicate(timeout=200)[1]
        for tap in taps:
            tap.terminate()
            tap.wait()
        check(study.returncode in (0, 1), f"exit {study.returncode}: {said}")
        out.seek(0)
        found = tables(json.load(out)["report"])
        for wire, (protocol, cut) in WIRES.items():
            seen = list(frames(f"{folder}/{wire}"))
            kinds = {kind for kind, *_ in seen}
            check(kinds <= {0x0800, 0x0806}, f"{wire}: {kinds}")
            protocols = {found for kind, found, _ in seen if kind == 0x0800}
            check(protocols == {protocol}, f"{wire}: {protocols}, not {protocol} alone")
            check(any(fragment for *_, fragment in seen) == cut, f"{wire}: fragments")
            check(len(seen) > 1000, f"{wire}: {len(seen)} frames")
    for name, sizes in (("ftp", 4), ("smtp", 4), ("telnet", 3)):
        measured = 0
        for column in live_columns(found[f"{name}-live"]):
            check(len(column["cells"]) == sizes, column)
            for cell in column["cells"]:
                if "value" in cell:
                    measured += 1
                    check(0 < cell["low"] <= cell["value"] <= cell["high"], f"{name}: {cell}")
                else:
                    check(cell == {"missing": "refused outside the laboratory"}, cell)
        # No IPsec, BYPASS, and AH-SHA1 and AES-GCM in both modes.
        check(measured == 6 * sizes, f"{name}: {measured} measured")
    for head in ("crypto", "other"):
        numbers = [n for n in live_numbers(found["inside-live"], head) if n is not None]
        check(numbers and min(numbers) > 0, f"{head}: {numbers}")
    check(namespaces() <= before, f"left behind: {namespaces() - before}")


def study_ipsec_ends():
    before = namespaces()
    for ending in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        study, name = begun(subprocess.DEVNULL)
        servers = ["ip", "netns", "pids", f"{name}-hb"]
        eventually("servers", lambda: len(subprocess.run(
            servers, capture_output=True, text=True).stdout.split()) > 3, 20)
        time.sleep(1)
        study.send_signal(ending)
        study.wait(timeout=30)
        study.stderr.close()
        if ending != signal.SIGKILL:
            # Sessions of a killed study's servers are ended by the next one.
            pids = (study.pid, dead)
            eventually("all processes have ended", lambda: not any(map(running, pids)), 10)
        left = namespaces() - before
        if ending == signal.SIGKILL:
            # Nobody could take them away; the next study does.
            check(left and all(space.startswith(name) for space in left), left)
            dead = study.pid
            killed = glob.glob(f"{tempfile.gettempdir()}/{name}-*")
            check(killed, "its folders are still there")
        else:
            check(not left, f"left behind: {left}")
            check(not any(map(os.path.exists, killed)), f"left behind: {killed}")
            check(study.returncode != 0, "an interrupted study is no success")


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
    study_toe_live()
    print("study_toe_live: ok")
    study_acl_live()
    print("study_acl_live: ok")
    missing = [tool for tool in SERVERS if not shutil.which(tool)]
    if missing:
        print(f"study_ipsec_live, study_ipsec_ends: skipped, needs {', '.join(missing)}")
    else:
        study_ipsec_ends()
        print("study_ipsec_ends: ok")
        study_ipsec_live()
        print("study_ipsec_live: ok")
    study_token_live()
    print("study_token_live: ok")


if __name__ == "__main__":
    need("ip", "dumpcap", "softhsm2-util")
    main()
