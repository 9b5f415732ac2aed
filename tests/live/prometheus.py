#!/usr/bin/env python3
# time-limit: 120
"""A real Prometheus reads a live node, with the rules that are shipped: they are quiet
while all is well, and each fires for what it is there for. Waiting times are shorter
here, conditions are as shipped."""
import json
import os
import re
import subprocess
import sys
import time
import urllib.request

from rig import TOP, Rig, eventually, need, run

need("ip", "ping", "prometheus", "promtool")

RULES = os.path.join(TOP, "packaging", "monitoring", "alerts.yml")
BOARD = os.path.join(TOP, "packaging", "monitoring", "grafana.json")
NODE, PROMETHEUS = 9108, 9109


def shorter(rig):
    """The rules with seconds for minutes, and a start that is never long ago."""
    run("promtool", "check", "rules", RULES)
    with open(RULES) as file:
        text = file.read()
    text = re.sub(r"for: \d+[ms]", "for: 1s", text)
    text = text.replace("[5m]", "[10s]")
    return rig.write("alerts.yml", text, mode=0o644)


def start(rig):
    config = rig.write("prometheus.yml", f"""global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{shorter(rig)}"]
scrape_configs:
  - job_name: ferrule
    static_configs: [{{targets: ["127.0.0.1:{NODE}"]}}]
""", mode=0o644)
    log = open(rig.path("prometheus.log"), "w")
    process = subprocess.Popen(
        rig.inside("ga", "prometheus", f"--config.file={config}",
                   f"--storage.tsdb.path={rig.path('data')}",
                   f"--web.listen-address=127.0.0.1:{PROMETHEUS}"), stdout=log, stderr=log)
    rig.processes.append(process)


def ask(rig, path):
    """What Prometheus says; nothing until it is there."""
    script = ("import sys, urllib.request\n"
              "print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())")
    said = rig.do("ga", sys.executable, "-c", script, f"http://127.0.0.1:{PROMETHEUS}{path}",
                  check=False)
    return json.loads(said.stdout)["data"] if said.returncode == 0 else None


def firing(rig):
    data = ask(rig, "/api/v1/alerts")
    return {a["labels"]["alertname"] for a in data["alerts"] if a["state"] == "firing"}


def value(rig, expression):
    quoted = urllib.request.quote(expression)
    data = ask(rig, f"/api/v1/query?query={quoted}")
    return [float(r["value"][1]) for r in data["result"]] if data else []


def board_has_data(rig):
    """Every expression of the dashboard is one, and has data or may have none."""
    with open(BOARD) as file:
        board = json.load(file)
    count = 0
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$__rate_interval", "10s")
            expression = re.sub(r'\{[^}]*\$\w+[^}]*\}', "", expression)
            assert ask(rig, f"/api/v1/query?query={urllib.request.quote(expression)}") is not None, \
                expression
            count += 1
    return count


with Rig() as rig:
    rig.gateways(node=f'metrics = "127.0.0.1:{NODE}"\n')
    nodes = {name: rig.start(name) for name in ("ga", "gb")}
    rig.ping()
    start(rig)
    eventually("Prometheus reads the node", lambda: value(rig, 'up{job="ferrule"}') == [1.0], 30)
    eventually("all ports are up", lambda: value(rig, "ferrule_port_up") == [1.0, 1.0])
    eventually("the start is seen", lambda: "FerruleRestarted" in firing(rig))
    time.sleep(3)
    assert firing(rig) == {"FerruleRestarted"}, firing(rig)
    panels = board_has_data(rig)

    rig.do("gb", "ip", "link", "set", "wan", "down")
    eventually("a port that is down", lambda: "FerrulePortDown" in firing(rig), 20)
    rig.do("gb", "ip", "link", "set", "wan", "up")
    eventually("and up again", lambda: "FerrulePortDown" not in firing(rig), 20)

    # The other end gets another key: all of its packets look forged.
    key = next(rig.path(name) for name in rig.files(".key") if name.startswith("gb-to-ga"))
    nodes["gb"].terminate()
    nodes["gb"].wait(timeout=5)
    with open(key) as file:
        text = file.read()
    digits = re.search(r"[0-9a-f]{32,}", text)[0]
    rig.write(os.path.basename(key), text.replace(digits, digits[::-1]))
    run("rm", "-r", rig.path("gb.state"))
    rig.do("gb", rig.ferrule, "state", "create", rig.path("gb.toml"))
    rig.start("gb")
    flood = subprocess.Popen(rig.inside("hb", "ping", "-q", "-i", "0.01", "-c", "3000", "10.0.1.2"),
                             stdout=subprocess.DEVNULL)
    rig.processes.append(flood)
    eventually("wrong ICVs", lambda: "FerruleForgedPackets" in firing(rig), 30)
    nodes["ga"].kill()
    nodes["ga"].wait()
    eventually("a node that is down", lambda: "FerruleDown" in firing(rig), 20)
    print(f"alerts fire when they should; {panels} expressions of the dashboard are understood")
