#!/usr/bin/env python3
# time-limit: 560
"""The studies' pages in a browser, as somebody who reads them.

first_screen   at three widths question, answer, claims and the figure are on it; nothing is
               wider than the window
folded         a page is short, a link opens what it leads to, on paper all is open
reachable      every link of the index leads to something that is there
legible        every text has the contrast of WCAG AA, light and dark
by_keyboard    the tab key reaches claims, sections, tables and plots, in order, visibly
accessible     axe finds nothing: all open, at two widths, light and dark, and in the index
movable        curves of the page's own code are those of the report; a parameter moves them
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, program  # noqa: E402
from rig import binary  # noqa: E402

NOBODY = 65534
SCREENS = ((390, 844), (800, 1100), (1400, 900))
FOLDED_MAX = 4_000
UNFOLDED_MAX = 45_000

# Every element with words of its own whose contrast with what is behind it is too low.
CONTRAST = """(() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0.99) return c;
    }
    return rgb(getComputedStyle(document.body).backgroundColor);
  };
  const poor = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest("script, style, .quiet, title, desc")) continue;
    const style = getComputedStyle(e), svg = e.namespaceURI.endsWith("svg");
    const [a, b] = [light(rgb(svg ? style.fill : style.color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) poor.push(`${e.tagName}.${e.className.baseVal ?? e.className}: ${ratio.toFixed(2)} ${e.textContent.slice(0, 30)}`);
  }
  return poor.slice(0, 5);
})()"""

BELOW = """[".question", ".answer", ".verdicts li", ".lead svg"].flatMap((selector) =>
  [...document.querySelectorAll(`header ${selector}`)].filter((e) => e.getClientRects().length)
    .map((e) => [selector, Math.round(e.getBoundingClientRect().bottom)]))
  .filter(([, bottom]) => bottom > innerHeight)"""


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def address(folder, name):
    return f"file://{folder}/pages/{name}"


def first_screen(browser, folder, names):
    for name in names:
        for width, height in SCREENS:
            page = browser.page(address(folder, name), width=width, height=height)
            seen = page.js("document.querySelectorAll('header .lead svg').length"
                           " * document.querySelectorAll('header .verdicts li').length")
            check(seen > 0, f"{name}: figure and claims")
            below = page.js(BELOW)
            check(not below, f"{name} at {width}x{height}: below the first screen: {below}")
            check(page.overflow() <= 0, f"{name} at {width}: {page.overflow()} pixels too wide")
            check(not page.complaints(), f"{name}: {page.complaints()}")
            page.close()


def folded(browser, folder, names):
    for name in names:
        page = browser.page(address(folder, name), width=390, height=844)
        height = page.js("document.documentElement.scrollHeight")
        check(height < FOLDED_MAX, f"{name}: {height} pixels")
        claim = page.js("document.querySelector('.verdicts a').getAttribute('href')")
        page.click(".verdicts a")
        page.until(f"document.querySelector('{claim}').closest('details').open")
        page.js("document.querySelector('.unfold').click()")
        page.until("document.querySelectorAll('main details:not([open])').length === 0")
        height = page.js("document.documentElement.scrollHeight")
        check(height < UNFOLDED_MAX, f"{name}, all of it: {height} pixels")
        check(page.overflow() <= 0, f"{name}: {page.overflow()} pixels too wide")
        cues = page.js("[...document.querySelectorAll('.scroll')].filter((e) => "
                       "e.scrollWidth > e.clientWidth + 4 && e.nextElementSibling.hidden).length")
        check(cues == 0, f"{name}: {cues} tables are cut off and do not say so")
        page.js("document.querySelectorAll('main details').forEach((e) => { e.open = false; })")
        page.js("dispatchEvent(new Event('beforeprint'))")
        check(page.js("document.querySelectorAll('main details:not([open])').length") == 0, name)
        page.close()


def reachable(browser, folder, names):
    page = browser.page(address(folder, "index.html"))
    links = page.js("[...document.querySelectorAll('a[href]')].map((a) => a.getAttribute('href'))")
    check({link.split("#")[0] for link in links} >= set(names), f"{names} of {links}")
    page.close()
    for name in [*names, "index.html"]:
        page = browser.page(address(folder, name))
        wanted = [link.split("#")[1] for link in links if link.startswith(f"{name}#")]
        own = page.js("[...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.hash.slice(1))")
        ids = set(page.js("[...document.querySelectorAll('[id]')].map((e) => e.id)"))
        lost = [to for to in wanted + own if to not in ids]
        check(not lost, f"{name}: nothing is at {lost}")
        page.close()


def legible(browser, folder, names):
    for name in [*names, "index.html"]:
        for dark in (False, True):
            page = browser.page(address(folder, name), width=1400, height=900, dark=dark)
            page.js("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
            poor = page.js(CONTRAST)
            check(not poor, f"{name}, {'dark' if dark else 'light'}: {poor}")
            page.close()


def by_keyboard(browser, folder, names):
    page = browser.page(address(folder, names[0]), width=1400, height=900)
    seen, last = [], -1
    for _ in range(400):
        page.press("Tab")
        where = page.js("""(() => { const e = document.activeElement; if (e === document.body) return null;
          const all = [...document.querySelectorAll('*')];
          return [e.tagName, all.indexOf(e), getComputedStyle(e).outlineStyle !== 'none'] })()""")
        if where is None:
            break
        tag, at, visible = where
        check(at > last and visible, f"after {seen[-3:]}: {where}")
        seen.append(tag)
        last = at
        if seen.count("SUMMARY") == 4:
            break
        if tag == "SUMMARY":
            page.press("Enter")
            page.until("document.activeElement.parentElement.open")
    check(seen.count("SUMMARY") == 4 and "DIV" in seen and "A" in seen, f"{seen}")
    page.close()


AXE = """axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations
  .map(({ id, help, nodes }) => [id, help, nodes.length, nodes[0].html.slice(0, 200)]))"""


def accessible(browser, folder, names):
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    with open(f"{top}/web/vendor/axe/axe.min.js", encoding="utf-8") as file:
        axe = file.read()
    for name in [*names, "index.html"]:
        for width, dark in ((1400, False), (390, True)):
            page = browser.page(address(folder, name), width=width, height=900, dark=dark)
            page.js("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
            page.js(f"{axe};0")
            found = page.js(AXE)
            check(not found, f"{name} at {width}: {found}")
            page.close()


# Of a figure with parameters: the points that the report has, and those that the page drew.
CURVES = """(() => { const data = JSON.parse(document.querySelectorAll('script.explore')[%d].textContent);
  const { plot } = document.querySelectorAll('script.explore')[%d].closest('figure');
  const drawn = plot.xy.series.filter((s) => s.followed);
  return data.curves.map((c, i) => [c.points, drawn[i].points].map((ps) => ps.map((p) => [p.x, p.y.value])));
})()"""


def apart(made, drawn):
    """The largest relative difference of two curves."""
    if len(made) != len(drawn):
        return 1
    return max(abs(b - a) / max(abs(a), abs(b), 1e-9) for (_, a), (_, b) in zip(made, drawn))


def movable(browser, folder, names):
    explored = []
    for name in names:
        page = browser.page(address(folder, name), width=1400, height=900)
        count = page.js("document.querySelectorAll('script.explore').length")
        if count:
            page.until("document.documentElement.dataset.models === 'run'")
        page.js("document.querySelectorAll('main details').forEach((e) => { e.open = true; })")
        for at in range(count):
            curves = lambda: page.js(CURVES % (at, at))  # noqa: E731
            check(all(apart(*curve) < 1e-9 for curve in curves()), f"{name}: {curves()}")
            figure = f"document.querySelectorAll('script.explore')[{at}].closest('figure')"
            sliders = page.js(f"{figure}.querySelectorAll('.knobs input').length")
            for slider in range(sliders):
                page.js(f"{figure}.querySelectorAll('.knobs input')[{slider}].focus()")
                for _ in range(3):
                    page.press("ArrowLeft")
                moved = any(apart(*curve) > 1e-4 for curve in curves())
                check(moved, f"{name}, figure {at}: parameter {slider} moves nothing")
                page.js(f"{figure}.querySelector('.knobs button').click()")
                check(all(apart(*curve) < 1e-9 for curve in curves()), f"{name}: the way back")
            explored.append(name)
        check(not page.complaints(), f"{name}: {page.complaints()}")
        page.close()
    check(len(set(explored)) >= 4 and len(explored) >= 6, f"{explored}")


def main():
    program()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        copy = shutil.copy(binary(), folder)
        done = subprocess.run(
            [copy, "study", "all", "--quick", "--report", f"{folder}/pages"],
            capture_output=True, text=True, timeout=400, cwd=folder,
            user=NOBODY, group=NOBODY, extra_groups=[])
        check(done.returncode in (0, 1), f"exit {done.returncode}: {done.stderr}")
        names = sorted(name for name in os.listdir(f"{folder}/pages") if name != "index.html")
        check(len(names) == 5, names)
        with Browser() as browser:
            for test in (first_screen, folded, reachable, legible, by_keyboard, accessible, movable):
                test(browser, folder, names)
                print(f"{test.__name__}: ok")


if __name__ == "__main__":
    main()
