#!/usr/bin/env python3
# time-limit: 280
"""The demo, as `make demo` runs it: four variants on real interfaces.

demo_live            the study's bytes on both core links, files intact, tshark
                     names every layer without a warning and reads ESP
demo_captures        the kept captures say so by themselves, read again here
demo_interrupted     a signal at any of three moments leaves nothing behind
demo_broken_step     neither does a step that fails
demo_without_root    the same bytes on wires in memory
"""
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import binary, need  # noqa: E402

ONE_LABEL = {"plain": 1022, "macsec": 1054, "esp-cbc-sha1": 1084, "esp-gcm": 1072}
FERRULE = binary()
NOBODY = 65534


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def left_behind(process):
    """Namespaces, processes and folders of a demo that ran as `process`."""
    found = []
    netns = "/run/netns"
    if os.path.isdir(netns):
        found += [n for n in os.listdir(netns) if n.startswith(f"ferrule-{process}-")]
    for other in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{other}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"ferrule-{process}-" in line or f"ferrule-demo-{process}/" in line:
            found.append(line)
    if os.path.exists(os.path.join(tempfile.gettempdir(), f"ferrule-demo-{process}")):
        found.append("the demo's folder")
    return found


def start(*words, **more):
    return subprocess.Popen(
        [FERRULE, "demo", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def finish(demo, seconds=200):
    out, err = demo.communicate(timeout=seconds)
    return demo.returncode, out, err


def rows(report, table):
    """The rows of a table of a ferrule-report/1 document, by its column heads."""
    for section in report["report"]["sections"]:
        for block in section["blocks"]:
            found = block.get("table")
            if found and found["id"] == table:
                heads = [column["head"] for column in found["columns"]]
                cells = [[cell.get("value", cell.get("text", cell.get("missing")))
                          for cell in column["cells"]] for column in found["columns"]]
                return [dict(zip(heads, row)) for row in zip(*cells)]
    raise AssertionError(f"no table {table}")


def read(text):
    report = json.loads(text)
    check(report["schema"] == "ferrule-report/1", report["schema"])
    return report


def variants(report):
    """What was measured, by variant."""
    found = []
    for row in rows(report, "traffic"):
        name = row["variant"]
        own = lambda table: [r for r in rows(report, table) if r["variant"] == name]
        two, one = own("wires")
        (file,) = own("file")
        captures = [r["where"] for r in rows(report, "files") if r["what"].startswith(f"{name} ")]
        found.append({**row, "pe_to_p": two, "p_to_pe": one, "file": file,
                      "tshark": own("tshark"), "captures": captures})
    return found


def check_bytes(report):
    for row in variants(report):
        name = row["variant"]
        one, two = row["p_to_pe"], row["pe_to_p"]
        check(one["bytes"] == ONE_LABEL[name], f"{name}: {one}")
        check(two["bytes"] == ONE_LABEL[name] + 4, f"{name}: {two}")
        check((one["labels"], two["labels"]) == (1, 2), f"{name}: labels {one} {two}")
        check(one["frames"] >= row["received"] > 0, f"{name}: {one} {row}")
        file = row["file"]
        check(len(file["SHA-256 served"]) == 64, f"{name}: {file}")
        check(file["SHA-256 served"] == file["SHA-256 arrived"], f"{name}: {file}")
        check(file["size"] == 8 << 20, f"{name}: {file}")
        check(min(row["TCP to host2"], row["TCP back"]) > 1e6, f"{name}: {row}")
        check(row["replies"] > 0 and row["round trip, median"] > 0, f"{name}: {row}")
    # The provider's list sees the flow that it denies as long as nothing seals it.
    refused = [(r["variant"], r["sent"], r["denied"], r["arrived"]) for r in rows(report, "refused")]
    check(refused == [(name, 20, *((20, 0) if name == "plain" else (0, 20))) for name in ONE_LABEL],
          refused)
    names = [r["variant"] for r in variants(report)]
    check(names == list(ONE_LABEL), "four variants, in order")


def demo_live(folder):
    demo = start("--json", "--keep", "--out", folder)
    code, out, err = finish(demo)
    check(code == 0, f"exit {code}\n{out}\n{err}")
    report = read(out)
    check('"kind": "live"' in out and '"kind": "model"' not in out, "all of it is live")
    check_bytes(report)
    for row in variants(report):
        name = row["variant"]
        check(len(row["tshark"]) == 2, f"{name}: {row['tshark']}")
        for verdict in row["tshark"]:
            check(verdict["all layers"] == "yes", f"{name}: {verdict}")
            check(verdict["complaints"] == "0", f"{name}: {verdict}")
        check(row["loss"] < 1, f"{name}: lost {row['loss']} %")
        check(row["spoilt"] == 0, f"{name}: {row}")
    with open(rows(report, "files")[0]["where"], encoding="utf-8") as file:
        page = file.read()
    for size in ONE_LABEL.values():
        check(f">{size}</td>" in page and f">{size + 4}</td>" in page, f"{size} not in report")
    check("<svg" in page and "default-src 'none'" in page and "src=\"" not in page, "self-contained")
    check(not left_behind(demo.pid), left_behind(demo.pid))
    return report


def read_capture(capture, keys):
    """Length, layers, complaints and UDP payload of each frame, by tshark."""
    command = ["tshark", "-n", "-r", capture]
    if keys:
        command += ["-o", "esp.enable_encryption_decode:TRUE",
                    "-o", "esp.enable_authentication_check:TRUE"]
        with open(keys, encoding="ascii") as file:
            for line in file.read().splitlines():
                command += ["-o", f"uat:esp_sa:{line}"]
    command += ["-T", "fields", "-E", "separator=/t"]
    for field in ("frame.len", "frame.protocols", "_ws.malformed", "_ws.expert.severity",
                  "mpls.label", "data.len"):
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def demo_captures(report, folder):
    for row in variants(report):
        name = row["variant"]
        for capture, labels in zip(row["captures"], (["16002", "17002"], ["17002"])):
            size = ONE_LABEL[name] + 4 * (len(labels) - 1)
            keys = os.path.join(folder, "files", name, "esp_sa")
            keys = keys if os.path.exists(keys) else None
            check(bool(keys) == name.startswith("esp"), f"{name}: key log {keys}")
            frames = read_capture(capture, keys)
            layers = collections.Counter()
            for length, protocols, malformed, severity, stack, data in frames:
                check(not malformed, f"{name}: {protocols} {malformed}")
                severe = max((int(s) for s in severity.split(",") if s), default=0)
                check(severe < 0x600000, f"{name}: {protocols} {severity}")
                if int(length) == size and stack == ",".join(labels):
                    layers[protocols] += 1
                    inner = "954" if name != "macsec" else str(1000 - 12)
                    check(data == inner, f"{name}: payload of {data} octets")
            check(len(layers) == 1, f"{name}: {layers}")
            protocols, count = layers.popitem()
            check(count >= 990, f"{name}: {count} frames of the study's")
            end = {"plain": "vlan:ethertype:ip:udp:data", "macsec": "macsec:data"}
            check(protocols.endswith(end.get(name, "ip:esp:ip:udp:data")), f"{name}: {protocols}")
            check("mpls:pwethheuristic:pwethcw:eth" in protocols, f"{name}: {protocols}")


def demo_interrupted():
    moments = [("one process each", signal.SIGINT), ("captured on both", signal.SIGTERM),
               ("iperf3", signal.SIGINT)]
    for words, number in moments:
        demo = start("--json")
        said = ""
        for line in demo.stderr:
            said += line
            if words in line:
                break
        check(words in said, f"never said {words!r}:\n{said}")
        time.sleep(0.7)
        demo.send_signal(number)
        code, out, err = finish(demo, 30)
        # With --json the error is the answer.
        check(code == 1 and "interrupted" in out + err, f"{words}: exit {code}\n{out}\n{err}")
        check(not left_behind(demo.pid), f"{words}: {left_behind(demo.pid)}")


def demo_broken_step():
    """A tool that is there and fails: iperf3 in front of the real one."""
    with tempfile.TemporaryDirectory() as tools:
        fake = os.path.join(tools, "iperf3")
        with open(fake, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho out of order >&2\nexit 1\n")
        os.chmod(fake, 0o755)
        demo = start("--json", env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
        code, out, err = finish(demo, 60)
        check(code == 1, f"exit {code}\n{out}\n{err}")
        check("iperf3" in out and "out of order" in out, out + err)
        check(not left_behind(demo.pid), left_behind(demo.pid))


def demo_without_root():
    with tempfile.TemporaryDirectory() as folder:
        # Somewhere that another user may go.
        os.chmod(folder, 0o777)
        copy = os.path.join(folder, "ferrule")
        shutil.copy(FERRULE, copy)
        begun = time.monotonic()
        done = subprocess.run(
            [copy, "demo", "--json", "--out", os.path.join(folder, "out")],
            capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[],
            timeout=60, cwd=folder)
        check(done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        report = read(done.stdout)
        check('"kind": "live"' not in done.stdout and "virtual: the same" in done.stdout, "a model")
        check_bytes(report)
        check("no root" in done.stderr, done.stderr)
        print(f"    without root: {time.monotonic() - begun:.1f} s")


def main():
    need("ip", "ethtool", "ping", "iperf3", "curl", "dumpcap", "tshark")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        report = demo_live(out)
        print("demo_live: ok:", report["report"]["answer"])
        demo_captures(report, out)
        print("demo_captures: ok")
    for test in (demo_interrupted, demo_broken_step, demo_without_root):
        test()
        print(f"{test.__name__}: ok")


if __name__ == "__main__":
    main()
