#!/usr/bin/env python3
# time-limit: 60
"""What a service manager hears of a node: ready, alive, reloading, stopping; and nothing
more while the node hangs."""
import os
import signal
import socket
import subprocess

from rig import binary, eventually, need, run

need("ip")

NODE = """[node]
name = "service"
control = "service.sock"
[[port]]
name = "tun"
driver = "tun"
device = "{device}"
"""


def main(folder):
    path = os.path.join(folder, "notify")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(path)
    heard = []

    def listen():
        manager.setblocking(False)
        try:
            while True:
                heard.append(manager.recv(4096).decode())
        except BlockingIOError:
            return heard

    def waits_for(word):
        eventually(f"{word} in {heard}", lambda: any(word in h for h in listen()))

    config = os.path.join(folder, "service.toml")
    with open(config, "w") as file:
        file.write(NODE.format(device=f"fs{os.getpid() % 1000000}"))
    environment = {**os.environ, "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "600000"}
    node = subprocess.Popen([binary(), "run", "--quiet", config], env=environment)
    try:
        waits_for("READY=1")
        assert heard[0].startswith("READY=1\nSTATUS=service runs"), heard
        waits_for("WATCHDOG=1")
        del heard[:]
        run(binary(), "apply", config)
        waits_for("READY=1")
        told = [h.split("\n")[0] for h in heard if "WATCHDOG" not in h]
        assert told == ["RELOADING=1", "READY=1"], heard
        # A thread of a worker's that stands still, while the main loop would go on, is
        # what crates/daemon/src/supervisor.rs tests; here all of it does.
        node.send_signal(signal.SIGSTOP)
        listen()
        del heard[:]
        try:
            manager.settimeout(1.5)
            raise AssertionError(f"a node that hangs said {manager.recv(4096)}")
        except TimeoutError:
            pass
        node.send_signal(signal.SIGCONT)
        waits_for("WATCHDOG=1")
        node.terminate()
        assert node.wait(10) == 0
        waits_for("STOPPING=1")
    finally:
        if node.poll() is None:
            node.kill()
            node.wait()


if __name__ == "__main__":
    import tempfile
    with tempfile.TemporaryDirectory(prefix="ferrule-live-") as place:
        main(place)
    print("the service manager hears what it needs to")
