#!/usr/bin/env python3
# time-limit: 180
"""The dashboard of a topology on real interfaces (`ferrule lab up --web`) in a real
browser: nodes, associations and rates; a link taken down from the page stops the
traffic on it, and brought up carries it again."""
import re
import subprocess
import sys

from browser import Browser, program
from rig import binary, eventually, need, run

need("ip", "ping", "ethtool")
program()
NAME = "two-gateways"
SPACE = f"lab-{NAME}-h1"


def ping(count=1):
    return run("ip", "netns", "exec", SPACE, "ping", "-q", "-c", count, "-i", "0.2", "-W", 1,
               "10.2.0.2", check=False).returncode == 0


run(binary(), "lab", "down", NAME, check=False)
process = subprocess.Popen([binary(), "lab", "up", NAME, "--web", "127.0.0.1:0"],
                           stdout=subprocess.PIPE, text=True)
try:
    url = None
    while not url:
        line = process.stdout.readline()
        assert line, "it ended before it said where the dashboard is"
        url = re.search(r"http://\S+#key=[0-9a-f]{32}", line)
    eventually("the hosts reach one another", ping, 20)
    flood = subprocess.Popen(["ip", "netns", "exec", SPACE, "ping", "-q", "-i", "0.01", "10.2.0.2"],
                             stdout=subprocess.DEVNULL)
    with Browser() as browser:
        page = browser.page(url[0])
        page.until("document.querySelectorAll('#sas-table tbody tr').length === 4")
        for name in ("h1", "gw1", "gw2", "h2"):
            assert page.js(f"Boolean(document.querySelector('[data-id=\"node {name}\"]'))"), name
        page.until("[...document.querySelectorAll('.label .there')].some("
                   "(e) => /[1-9].*b.s/.test(e.textContent))", what="a rate on a link")
        assert page.js("document.querySelector('#controls').hidden"), "real time does not stop"
        page.click("[data-id='link gw1-gw2'] .reach")
        page.until("!document.querySelector('#disturb').hidden")
        assert page.js("document.querySelector('#disturb .fields').hidden"), "no loss on veth"
        page.click("#link-toggle")
        down = "document.querySelector(\"[data-id='link gw1-gw2']\").classList.contains('down')"
        page.until(down, what="the page shows the link down")
        eventually("nothing passes", lambda: not ping())
        page.js("document.activeElement.blur()")
        page.press("d")
        page.until(f"!{down}", what="the page shows the link up")
        eventually("it passes again", ping, 20)
        assert page.overflow() <= 0 and not page.complaints(), page.complaints()
    flood.kill()
    flood.wait()
    process.terminate()
    assert process.wait(timeout=10) == 0
    assert ping(), "the network stays when the dashboard ends"
finally:
    if process.poll() is None:
        process.kill()
    run(binary(), "lab", "down", NAME, check=False)
print("dashboard of lab up: nodes, associations, rates; a link down and up from the page")
sys.exit(0)
