#!/usr/bin/env python3
# time-limit: 240
"""The dashboard of a live node in a real browser: its associations, drops and
rates, by keyboard and at phone width, and what it refuses."""
import json
import re
import subprocess
import sys

from browser import Browser, program
from rig import Rig, eventually, need

need("ip", "ping")
program()


def address(path):
    """The page's address with its key, once it was printed."""
    found = []

    def printed():
        with open(path) as file:
            found[:] = re.findall(r"http://\S+#key=[0-9a-f]{32}", file.read())
        return found
    eventually("the dashboard's address is printed", printed)
    return found[0]


def fetch(page, path, **options):
    """What the server answers to the page's own script: status and text."""
    return page.js(f"fetch({json.dumps(path)}, {json.dumps(options)})"
                   ".then(async (r) => [r.status, await r.text()])")


def start_with_dashboard(rig, name):
    log = open(rig.path(f"{name}.log"), "a")
    process = subprocess.Popen(
        rig.inside(name, rig.ferrule, "run", rig.path(f"{name}.toml"), "--web", "127.0.0.1:0"),
        stdout=log, stderr=log)
    rig.processes.append(process)
    return process, address(rig.path(f"{name}.log"))


def dashboard_of_a_live_node_shows_sas_drops_and_rates(rig, page):
    page.until("document.querySelector('#connection').textContent === 'live'")
    assert page.text("#name") == "ga"
    page.until("document.querySelectorAll('#sas-table tbody tr').length === 2")
    for word in ("ESP", "aes-gcm-128", "site-to-site", "2⁶⁴"):
        assert word in page.text("#sas-table"), page.text("#sas-table")
    # Numbers that the program has, on the page.
    sealed = [s for s in rig.show("ga")["sas"] if s["way"] == "out"][0]
    assert sealed["spi"] in page.text("#sas-table")
    page.until("document.querySelector('#drops-list').textContent.includes('policy-discard')")
    page.until("/[1-9]/.test(document.querySelector('.label .there').textContent)",
               what="a rate on a link")
    page.until("document.querySelectorAll('#histogram tbody tr').length > 3")
    sizes = page.js("[...document.querySelectorAll('#histogram tbody tr')].map("
                    "(r) => Number(r.cells[2].textContent.replace(/\\D/g, '')))")
    assert sum(sizes) > 0, sizes
    for name in ("10.0.1.0/24", "198.51.100.0/24", "198.51.100.2", "ga"):
        assert name in page.text("#drawing"), page.text("#drawing")
    assert page.js("document.querySelector('#controls').hidden"), "a live node has no time to stop"
    assert not page.complaints(), page.complaints()


def dashboard_hides_keys_and_takes_the_key_out_of_the_address(rig, page, url):
    key = url.split("#key=")[1]
    assert key not in page.js("location.href")
    state = page.js("fetch('/api/state', {headers: {authorization: 'Bearer ' +"
                    " sessionStorage.getItem('ferrule-key')}}).then((r) => r.text())")
    assert json.loads(state)["schema"] == "ferrule-state/1"
    secrets = []
    for name in rig.files(".key"):
        with open(rig.path(name)) as file:
            secrets += re.findall(r"\b[0-9a-f]{16,}\b", file.read())
    assert secrets
    assert not [s for s in secrets if s in state], "a key is in the state"


def dashboard_refuses_without_the_key_and_from_elsewhere(page, url):
    command = {"method": "POST", "headers": {"content-type": "application/json"},
               "body": '{"command":"pause"}'}
    assert fetch(page, "/api/command", **command)[0] == 401
    assert fetch(page, "/api/state")[0] == 401
    command["headers"]["authorization"] = "Bearer " + url.split("#key=")[1]
    status, text = fetch(page, "/api/command", **command)
    assert status == 409 and "ferrule apply" in text, "a live node is not disturbed from the page"
    # A page from elsewhere, which knows neither the key nor a way around it.
    host = url.split("//")[1].split("/")[0]
    assert page.js(f"fetch('http://localhost:{host.split(':')[1]}/api/state', "
                   "{headers: {authorization: 'Bearer x'}}).then(() => 'read', () => 'refused')") \
        == "refused"


def dashboard_asks_for_the_key_at_the_door(browser, url):
    page = browser.page(url.split("#")[0])
    page.until("document.querySelector('#door').open")
    assert page.js("document.activeElement.id") == "door-key"
    page.write(url)
    page.press("Enter")
    page.until("document.querySelector('#connection').textContent === 'live'")
    assert page.js("!document.querySelector('#door').open")
    page.close()


def dashboard_by_keyboard(page):
    """Tab comes to everything, what has the focus is seen, Enter selects."""
    page.js("document.activeElement.blur()")
    met = []
    for _ in range(40):
        page.press("Tab")
        name, outline = page.js(
            "(() => { const e = document.activeElement; const s = getComputedStyle("
            "e.querySelector('.box, .line') ?? e); return [e.id || e.dataset.id || e.className,"
            " e.dataset.id ? s.stroke : s.outlineStyle] })()")
        if name in met or not name:
            break
        met.append(name)
        assert outline not in ("none", ""), f"{name}: the focus is not seen"
    for name in ("skip", "theme", "help-open", "previous", "next", "traffic-link",
                 "histogram-pick"):
        assert name in met, f"{name} is not reached by Tab: {met}"
    drawn = [name for name in met if name.startswith(("node ", "link "))]
    assert len(drawn) == 1, f"the drawing is one stop: {drawn}"
    page.js("document.querySelector('#drawing [tabindex=\"0\"]').focus()")
    first = page.js("document.activeElement.dataset.id")
    seen = {first}
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowUp"):
        page.press(key)
        seen.add(page.js("document.activeElement.dataset.id"))
    assert len(seen) > 2, f"arrows go through the drawing: {seen}"
    chosen = page.js("document.activeElement.dataset.id")
    page.press("Enter")
    page.until(f"document.querySelector('#selection-head').textContent === "
               f"{json.dumps(chosen.split(' ', 1)[1])}")
    page.press("?")
    page.until("document.querySelector('#help').open")
    assert "next node" in page.text("#keys") and "pause" not in page.text("#keys")
    page.press("Escape")
    page.until("!document.querySelector('#help').open")
    page.press("]")
    page.until(f"document.querySelector('#selection-head').textContent !== "
               f"{json.dumps(chosen.split(' ', 1)[1])}")


def dashboard_at_phone_width(browser, url):
    for dark in (False, True):
        for width in (390, 320):
            page = browser.page(url, width=width, height=844, dark=dark)
            page.until("document.querySelectorAll('#ports-table tbody tr').length === 2")
            page.until("/[1-9]/.test(document.querySelector('.label .there').textContent)")
            assert page.overflow() <= 0, f"{width} px: {page.overflow()} px too wide"
            small = page.js("[...document.querySelectorAll('button, select')].filter((e) =>"
                            " e.offsetParent && e.getBoundingClientRect().height < 36).length")
            assert small == 0, "something is too small for a finger"
            ink, ground = page.js("[getComputedStyle(document.body).color,"
                                  " getComputedStyle(document.documentElement).backgroundColor]")
            light = [sum(map(int, re.findall(r"\d+", c)[:3])) for c in (ink, ground)]
            assert (light[0] > light[1]) == dark and abs(light[0] - light[1]) > 450, (ink, ground)
            assert not page.complaints(), page.complaints()
            page.close()


with Rig() as rig:
    rig.gateways(suite="aes-gcm-128")
    rig.start("gb")
    node, url = start_with_dashboard(rig, "ga")
    rig.ping(count=2)
    # Traffic of three sizes, and some that the policy discards.
    rig.do("ha", "ip", "addr", "replace", "10.3.0.2/32", "dev", "lo")
    for extra in (("-s", 56), ("-s", 500), ("-s", 1300), ("-I", "10.3.0.2")):
        rig.processes.append(subprocess.Popen(
            rig.inside("ha", "ping", "-q", "-i", "0.02", *extra, "10.0.2.2"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    with Browser(inside=rig.inside("ga")) as browser:
        page = browser.page(url)
        dashboard_of_a_live_node_shows_sas_drops_and_rates(rig, page)
        dashboard_hides_keys_and_takes_the_key_out_of_the_address(rig, page, url)
        dashboard_by_keyboard(page)
        dashboard_at_phone_width(browser, url)
        dashboard_asks_for_the_key_at_the_door(browser, url)
        dashboard_refuses_without_the_key_and_from_elsewhere(page, url)
        node.terminate()
        assert node.wait(timeout=5) == 0
        page.until("document.querySelector('#connection').textContent.includes('no answer')",
                   what="the page says that the node is gone")
print("dashboard of a live node: associations, drops, rates; keyboard, phone, refusals")
sys.exit(0)
