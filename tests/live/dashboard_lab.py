#!/usr/bin/env python3
# time-limit: 240
"""The dashboard of a laboratory in a real browser: a network in virtual time is
looked at, stopped, stepped and disturbed from the page."""
import json
import os
import re
import subprocess
import sys
import time

from browser import Browser, program
from rig import binary

program()


class Lab:
    """`ferrule lab run TOPOLOGY --web`, until the block is left."""

    def __init__(self, topology, *extra):
        command = os.environ.get("FERRULE_LAB", f"{binary()} lab run").split()
        self.process = subprocess.Popen([*command, topology, "--web", "127.0.0.1:0", *extra],
                                        stdout=subprocess.PIPE, text=True)
        found = None
        while not found:
            line = self.process.stdout.readline()
            assert line, "it ended before it said where the dashboard is"
            found = re.search(r"http://\S+#key=[0-9a-f]{32}", line)
        self.url = found[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("it does not stop when told to")


STATE = ("fetch('/api/state', {headers: {authorization: 'Bearer ' +"
         " sessionStorage.getItem('ferrule-key')}}).then((r) => r.json())")


def state(page):
    return page.js(STATE)


def phase(page, wanted):
    page.until(f"document.querySelector('#connection').textContent === {json.dumps(wanted)}",
               what=f"the page says {wanted}")


def link(page, name):
    return next(one for one in state(page)["links"] if one["name"] == name)


def dashboard_shows_nodes_and_moving_rates_of_a_running_lab(page):
    phase(page, "running")
    for name in ("h1", "gw1", "gw2", "h2"):
        assert page.js(f"Boolean(document.querySelector('[data-id=\"node {name}\"]'))"), name
    page.until("[...document.querySelectorAll('.label .there')].some((e) => /\\d\\sM/.test(e.textContent))",
               what="megabits on a link")
    first = page.text("#time")
    page.until(f"document.querySelector('#time').textContent !== {json.dumps(first)}")
    packets = page.text("#sas-table tbody tr:first-child td:nth-of-type(8)")
    page.until("document.querySelector('#sas-table tbody tr:first-child td:nth-of-type(8)')"
               f".textContent !== {json.dumps(packets)}", what="packets of an association grow")
    assert "ESP" in page.text("#sas-table")
    page.until("document.querySelector('#histogram-pick').textContent.includes('times, round trip')")
    page.until("document.querySelector('#histogram-pick').textContent.includes('frame sizes')")
    page.until("document.querySelector('#flows-table').textContent.includes('udp')")
    page.until("document.querySelector('.series .stroke')?.getAttribute('d').length > 20")
    boxes = page.js("[...document.querySelectorAll('.node .box')].map((e) => {"
                    " const b = e.getBoundingClientRect(); return [b.x, b.y, b.right, b.bottom] })")
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], "boxes overlap"


def dashboard_pause_by_keyboard_stops_virtual_time(page):
    page.js("document.activeElement.blur()")
    page.press(" ")
    phase(page, "paused")
    before = state(page)
    time.sleep(1.2)
    after = state(page)
    assert before["now_ns"] == after["now_ns"], "time went on"
    assert before["run"]["events"] == after["run"]["events"]
    assert after["run"]["broken"] == [], after["run"]["broken"]


def dashboard_steps_by_an_event_and_by_a_millisecond(page):
    before = state(page)
    page.press("n")
    page.until(f"{STATE}.then((s) => s.run.events === {before['run']['events'] + 1})",
               what="one event happens, and no more")
    after = state(page)
    assert after["now_ns"] == before["run"]["next_ns"], "the event that was due"
    page.press("m")
    page.until(f"{STATE}.then((s) => s.now_ns === {after['now_ns'] + 1_000_000})",
               what="one millisecond passes, and no more")
    shown = page.until("document.querySelector('#time').textContent")
    page.until("document.querySelector('#time').textContent.replace(/\\D/g, '') === "
               f"'{after['now_ns'] + 1_000_000}'.padStart(10, '0')", what=f"all digits: {shown}")
    assert page.text("#connection") == "paused"
    # The same by the mouse, on the button.
    page.click("#step-ms")
    page.until(f"{STATE}.then((s) => s.now_ns === {after['now_ns'] + 2_000_000})")


def dashboard_runs_at_the_speed_that_is_chosen(page):
    page.js("document.activeElement.blur()")
    page.press(" ")
    phase(page, "running")
    for press, wanted in (("-", 0.5), ("-", 0.1), ("+", 0.5), ("+", 1)):
        page.press(press)
        page.until(f"{STATE}.then((s) => s.run.speed === {wanted})", what=f"speed {wanted}")
    page.js("(() => { const s = document.querySelector('#speed'); s.value = '0.1';"
            " s.dispatchEvent(new Event('change')) })()")
    page.until(f"{STATE}.then((s) => s.run.speed === 0.1)")
    begun, first = time.monotonic(), state(page)["now_ns"]
    time.sleep(2)
    real, passed = time.monotonic() - begun, (state(page)["now_ns"] - first) / 1e9
    assert 0.5 * 0.1 * real < passed < 1.5 * 0.1 * real, f"{passed} virtual s in {real} s"
    page.press("+")
    page.press("+")
    page.until(f"{STATE}.then((s) => s.run.speed === 1)")


def dashboard_link_taken_down_shows_drops_and_recovers(page):
    name = "gw1-gw2"
    page.click(f"[data-id='link {name}'] .reach")
    page.until(f"document.querySelector('#selection-head').textContent === '{name}'")
    arrived = "[data-id='link gw2-h2']"
    page.js("document.activeElement.blur()")
    page.press("d")
    page.until(f"document.querySelector(\"[data-id='link {name}']\").classList.contains('down')")
    page.until("document.querySelector('#drops-list').textContent.includes('link-down')",
               what="what the link loses is in the list, with its reason")
    lost = link(page, name)["ways"][0]["lost"]
    page.until(f"{STATE}.then((s) => s.links.find((l) => l.name === '{name}').ways[0].lost > {lost})")
    page.until(f"document.querySelector(\"{arrived}\").getAttribute('aria-label').replace(/\\s/g, ' ').includes('h2 0 bit/s')",
               seconds=20, what="nothing arrives behind it")
    page.until("document.querySelector('#events-list').textContent.includes('link gw1-gw2 goes down')")
    page.click("#link-toggle")
    page.until(f"!document.querySelector(\"[data-id='link {name}']\").classList.contains('down')")
    through = link(page, name)["ways"][0]["packets"]
    page.until(f"{STATE}.then((s) => s.links.find((l) => l.name === '{name}').ways[0].packets"
               f" > {through + 100})", what="frames pass again")
    assert state(page)["run"]["broken"] == []


def dashboard_gives_a_link_loss_and_delay_and_restarts_a_node(page):
    page.js("(() => { document.querySelector('#loss').value = '10';"
            " document.querySelector('#delay').value = '2.5' })()")
    page.click("#impair")
    page.until(f"{STATE}.then((s) => s.links.find((l) => l.name === 'gw1-gw2').loss === 0.1)")
    assert link(page, "gw1-gw2")["delay_ns"] == 2_500_000
    page.until("document.querySelector('#drops-list').textContent.includes('link-loss')")
    page.until("/lost/.test(document.querySelector('.label .lost').parentNode.parentNode.textContent)")
    page.js("(() => { document.querySelector('#loss').value = '0' })()")
    page.click("#impair")
    page.until(f"{STATE}.then((s) => s.links.find((l) => l.name === 'gw1-gw2').loss === 0)")
    page.click("[data-id='node gw2']")
    page.until("document.querySelector('#selection-head').textContent === 'gw2'")
    page.js("document.activeElement.blur()")
    page.press("r")
    page.until("document.querySelector('#events-list').textContent.includes('gw2 restarts')")
    page.until(f"{STATE}.then((s) => s.nodes.find((n) => n.name === 'gw2').facts"
               ".some((f) => f.includes('restarted 1 times')))", what="the node is back")
    # While it is down its associations are not there.
    page.until("document.querySelectorAll('#sas-table tbody tr').length === 4")
    sealed = "document.querySelector('#sas-table tbody tr:nth-child(4) td:nth-of-type(8)')?.textContent"
    before = page.js(sealed)
    page.until(f"{sealed} !== {json.dumps(before)}", what="the node opens packets again")
    assert state(page)["run"]["broken"] == [], state(page)["run"]["broken"]


def dashboard_refuses_commands_of_a_lab_without_its_key(page, url):
    body = '{"command":"pause"}'
    ask = (f"fetch('/api/command', {{method: 'POST', body: {json.dumps(body)}, headers: HEADERS}})"
           ".then((r) => r.status)")
    for headers in ("{'content-type': 'application/json'}",
                    "{'content-type': 'application/json', authorization: 'Bearer ' + '0'.repeat(32)}"):
        assert page.js(ask.replace("HEADERS", headers)) == 401
    assert state(page)["run"]["phase"] == "running", "it was not carried out"
    good = "{authorization: 'Bearer ' + sessionStorage.getItem('ferrule-key')}"
    assert page.js(ask.replace("HEADERS", good)) == 415, "a form's request is none"


def dashboard_at_phone_width_with_controls_in_reach(browser, url):
    for dark in (False, True):
        page = browser.page(url, width=390, height=844, dark=dark)
        phase(page, "running")
        page.until("document.querySelectorAll('#sas-table tbody tr').length === 4")
        page.click("[data-id='link gw1-gw2'] .reach")
        page.until("!document.querySelector('#disturb').hidden")
        assert page.overflow() <= 0, f"{page.overflow()} px too wide"
        seen = page.js("[...document.querySelectorAll('#controls button, #controls select')].every("
                       "(e) => { const b = e.getBoundingClientRect(); return b.left >= 0 &&"
                       " b.right <= innerWidth && b.bottom <= innerHeight && b.height >= 40 })")
        assert seen, "a control is out of reach"
        rows = page.js("new Set([...document.querySelectorAll('#controls button')].map("
                       "(e) => Math.round(e.getBoundingClientRect().top))).size")
        assert rows == 1, "the controls take no more than a row"
        page.click("#pause")
        phase(page, "paused")
        page.click("#pause")
        phase(page, "running")
        assert not page.complaints(), page.complaints()
        page.close()


def dashboard_help_lists_the_keys_and_they_can_be_switched_off(page):
    page.press("?")
    page.until("document.querySelector('#help').open")
    for word in ("Space", "pause", "one event", "one millisecond", "restart"):
        assert word in page.text("#keys"), word
    page.click("#keys-on")
    page.press("Escape")
    page.until("!document.querySelector('#help').open")
    page.js("document.activeElement.blur()")
    page.press(" ")
    time.sleep(0.7)
    assert state(page)["run"]["phase"] == "running", "single keys are off"
    page.click("#help-open")
    page.click("#keys-on")
    page.press("Escape")


def dashboard_of_a_run_that_ends(browser):
    with Lab("two-gateways", "--for", "1s") as lab:
        page = browser.page(lab.url)
        page.until("document.querySelector('#connection').textContent === 'ended'", seconds=30)
        assert page.js("document.querySelector('#pause').disabled")
        assert state(page)["run"]["broken"] == []
        assert state(page)["flows"][0]["received"] > 0
        page.close()


with Browser() as browser:
    with Lab("two-gateways") as lab:
        page = browser.page(lab.url)
        dashboard_shows_nodes_and_moving_rates_of_a_running_lab(page)
        dashboard_pause_by_keyboard_stops_virtual_time(page)
        dashboard_steps_by_an_event_and_by_a_millisecond(page)
        dashboard_runs_at_the_speed_that_is_chosen(page)
        dashboard_link_taken_down_shows_drops_and_recovers(page)
        dashboard_gives_a_link_loss_and_delay_and_restarts_a_node(page)
        dashboard_help_lists_the_keys_and_they_can_be_switched_off(page)
        dashboard_at_phone_width_with_controls_in_reach(browser, lab.url)
        dashboard_refuses_commands_of_a_lab_without_its_key(page, lab.url)
        assert not [c for c in page.complaints() if "401" not in c and "415" not in c], \
            page.complaints()
    dashboard_of_a_run_that_ends(browser)
print("dashboard of a laboratory: rates, pause, steps, speed, disturbances, phone, refusals")
sys.exit(0)
