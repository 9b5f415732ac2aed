#!/usr/bin/env python3
# time-limit: 180
"""What a running node lets people see: metrics, show, a trace, a capture whose
ESP stock tshark opens with the key log."""
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.error

from rig import Rig, eventually, need, run

need("ip", "ping", "tshark")


def scrape(rig, path="/metrics"):
    program = ("import urllib.request,sys\n"
               f"print(urllib.request.urlopen('http://127.0.0.1:9105{path}', timeout=5)"
               ".read().decode())")
    return rig.do("ga", sys.executable, "-c", program, check=False)


def nobody_asks(rig, seconds=2.5):
    """Waits until nothing was on the wire for so long, which is longer than nodes
    wait between two announcements or questions. Who was heard of then is not
    asked for in the next 30 s."""
    def count():
        wan = next(p for p in rig.show("ga")["ports"] if p["name"] == "wan")
        return wan["rx_packets"] + wan["tx_packets"]

    def silent():
        before = count()
        time.sleep(seconds)
        return count() == before
    eventually("nobody asks for a neighbour", silent, 30)


def interrupted(rig):
    """ctrl-C ends a capture with its last word, which counts what was lost
    because nobody took it: every frame is in the one number or the other."""
    pcap = rig.path("all.pcap")
    capture = subprocess.Popen([rig.ferrule, "capture", "--port", "lan", "-w", pcap,
                                "--socket", rig.socket("ga")], stderr=subprocess.PIPE, text=True)
    eventually("the capture begins", lambda: os.path.exists(pcap))
    before = rig.show("ga")
    capture.send_signal(signal.SIGSTOP)
    rig.do("ha", "ping", "-q", "-f", "-c", 4000, "-s", 1300, "10.0.2.2")
    after = rig.show("ga")
    capture.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    capture.send_signal(signal.SIGINT)
    _, said = capture.communicate(timeout=10)
    assert capture.returncode == 0, said
    os.remove(pcap)
    captured, lost = map(int, re.fullmatch(r"(\d+) frames captured, (\d+) lost\n", said).groups())
    lan = [next(p for p in shown["ports"] if p["name"] == "lan") for shown in (before, after)]
    passed = sum(lan[1][way] - lan[0][way] for way in ("rx_packets", "tx_packets"))
    assert lost > 0 and captured + lost == passed >= 8000, (captured, lost, passed)


def no_keys_unless_configured(rig):
    keys = rig.path("keys-refused")
    refused = rig.ask("ga", "capture", "-c", "1", "-w", rig.path("x"), "--keylog", keys, check=False)
    assert refused.returncode == 2 and "key-log = true" in refused.stderr, refused.stderr
    assert not os.path.exists(keys)
    rig.change("ga", r"^\[node\]$", "[node]\nkey-log = true")
    rig.ask("ga", "apply", rig.path("ga.toml"))


with Rig() as rig:
    for suite in ("aes-gcm-128", "aes-cbc-128 hmac-sha1-96"):
        rig.gateways(suite=suite, node='metrics = "127.0.0.1:9105"\n')
        nodes = [rig.start("ga"), rig.start("gb")]
        rig.ping(count=5)
        no_keys_unless_configured(rig)

        # A capture with the key log: of the sealed frames, and of nothing else.
        nobody_asks(rig)
        pcap, keys = rig.path("wire.pcapng"), rig.path("esp_sa")
        capture = subprocess.Popen([rig.ferrule, "capture", "-c", "8", "--port", "wan", "-w", pcap,
                                    "--keylog", keys, "--socket", rig.socket("ga")],
                                   stderr=subprocess.PIPE, text=True)
        eventually("the capture begins", lambda: os.path.exists(pcap))
        second = rig.ask("ga", "capture", "-c", "1", "-w", rig.path("x"), check=False)
        assert second.returncode == 2 and "running already" in second.stderr, second.stderr
        rig.ping(count=6)
        _, said = capture.communicate(timeout=10)
        assert "8 frames captured, 0 lost" in said, said
        assert stat.S_IMODE(os.stat(keys).st_mode) == 0o600
        with open(keys) as file:
            opens = [o for line in file for o in ("-o", "uat:esp_sa:" + line.strip())]
        fields = ["-T", "fields", "-e", "frame.interface_name", "-e", "frame.packet_flags_direction",
                  "-e", "frame.protocols", "-e", "_ws.expert.message"]
        shown = run("tshark", "-r", pcap, "-o", "esp.enable_encryption_decode:TRUE",
                    "-o", "esp.enable_authentication_check:TRUE", *opens, *fields)
        lines = shown.stdout.splitlines()
        assert len(lines) == 8, shown.stdout + shown.stderr
        assert all("esp:ip:icmp" in line and line.startswith("wan\t") for line in lines), lines
        assert [line.split("\t")[1] for line in lines] == ["0x00000002", "0x00000001"] * 4, lines
        again = rig.ask("ga", "capture", "-c", "1", "-w", pcap, "--keylog", keys, check=False)
        assert again.returncode == 3 and "exists" in again.stderr, again.stderr
        os.remove(keys)
        os.remove(pcap)
        interrupted(rig)

        text = scrape(rig).stdout
        for part in ('ferrule_port_received_packets_total{port="lan"}',
                     'ferrule_port_sent_octets_total{port="wan"}',
                     'ferrule_esp_packets_total{tunnel="site-to-site",way="out"',
                     'ferrule_packets_total{kind="received"}', "# EOF"):
            assert part in text, f"{part} is not in\n{text}"
        sealed = [l for l in text.splitlines() if 'way="out"' in l and "esp_packets_total" in l]
        assert int(sealed[0].split()[-1]) >= 5, sealed
        assert scrape(rig, "/").returncode != 0, "nothing but /metrics is served"

        # Discarded by the policy, counted, and explained.
        rig.do("ha", "ip", "addr", "replace", "10.3.0.2/32", "dev", "lo")
        rig.do("ha", "ping", "-c", 2, "-i", "0.2", "-W", 1, "-I", "10.3.0.2", "10.0.2.2", check=False)
        drops = rig.ask("ga", "show", "drops").stdout
        assert "policy-discard" in drops and "The policy discards this traffic." in drops, drops
        assert 'ferrule_dropped_packets_total{reason="policy-discard"}' in scrape(rig).stdout
        for what, word in (("sa", "site-to-site"), ("path", "10.0.2.0/24"), ("macsec", "none"),
                           ("mpls", "none"), ("bridges", "none"), ("neighbours", "198.51.100.2"),
                           ("ports", "af-packet")):
            shown = rig.ask("ga", "show", what).stdout
            assert word in shown, f"show {what}: {word} is not in\n{shown}"
        json.loads(rig.ask("ga", "show", "sa", "--json").stdout)

        # A trace: from port to port, stage by stage. The host may ask for its gateway's
        # link address meanwhile: the first packet need not be the ping.
        trace = subprocess.Popen([rig.ferrule, "trace", "-c", "3", "--port", "lan",
                                  "--socket", rig.socket("ga")], stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        rig.ping(count=4)
        out, _ = trace.communicate(timeout=10)
        packets = {}
        for line in out.splitlines():
            packets.setdefault(line.split()[0], []).append(line)
        assert len(packets) == 3, out
        ping = next((lines for lines in packets.values() if "ICMP" in lines[0]), None)
        assert ping, f"no ping among\n{out}"
        for stage in ("received lan", "attach", "ip", "policy", "esp-out", "output",
                      "transmit wan"):
            assert any(f" {stage} " in line for line in ping), f"{stage}\n{out}"
        assert "ESP" in ping[-1], out

        for node in nodes:
            node.terminate()
            assert node.wait(timeout=5) == 0
        print(f"{suite}: metrics, show, trace, capture opened by tshark")
sys.exit(0)
