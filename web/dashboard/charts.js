// Small time series, drawn as SVG: a grid that can be read, lines, the last
// value in words. Nothing moves by itself, so there is nothing to slow down.

import { draw, make, say, set } from "./dom.js";

const PAD = { left: 68, right: 10, top: 10, bottom: 22 };

/** 1, 2 or 5 times a power of ten, not below `value`. */
function nice(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((f) => f * power).find((v) => v >= value * (1 - 1e-9));
}

export class Chart {
  /**
   * `lines`: [{ class }]; `show` turns a value into text. `mirrored`: the second
   * line goes downwards, so that two that are alike do not hide one another.
   */
  constructor(container, title, lines, show, mirrored = false) {
    Object.assign(this, { container, title, lines, show, mirrored });
    this.svg = draw("svg", { role: "img", class: "series" });
    this.legend = make("p", { class: "chart-legend" });
    this.words = lines.map((line) => {
      const value = make("b", {});
      const name = make("span", {});
      this.legend.append(make("span", { class: `entry ${line.class}` }, make("i", { "aria-hidden": "true" }), name, value));
      return { name, value };
    });
    container.append(this.svg, this.legend);
    this.last = null;
    new ResizeObserver(() => this.last && this.update(...this.last)).observe(container);
  }

  /** `data`: one array of [seconds, value] for each line. */
  update(data, names) {
    this.last = [data, names];
    const width = Math.max(200, this.container.clientWidth);
    const height = Math.max(60, this.container.clientHeight - this.legend.offsetHeight);
    set(this.svg, "viewBox", `0 0 ${width} ${height}`);
    const all = data.flat();
    const from = all.length ? Math.min(...all.map((p) => p[0])) : 0;
    const to = all.length ? Math.max(...all.map((p) => p[0])) : 1;
    const top = nice(Math.max(0, ...all.map((p) => p[1])));
    const long = to > from ? to - from : 1;
    const x = (t) => PAD.left + ((t - from) / long) * (width - PAD.left - PAD.right);
    const low = this.mirrored ? -top : 0;
    const y = (v) => height - PAD.bottom - ((v - low) / (top - low)) * (height - PAD.top - PAD.bottom);
    const turned = data.map((points, i) => (this.mirrored && i === 1 ? points.map(([t, v]) => [t, -v]) : points));
    this.svg.replaceChildren(
      this.grid(x, y, [low, top], [from, to], width),
      ...turned.map((points, i) => this.line(points, i, x, y)),
    );
    this.tell(data, names);
  }

  grid(x, y, [low, top], [from, to], width) {
    const grid = draw("g", { class: "grid", "aria-hidden": "true" });
    for (const part of [0, 0.5, 1]) {
      const value = low + (top - low) * part;
      const at = y(value);
      grid.append(
        draw("path", { d: `M${PAD.left} ${at.toFixed(1)}H${width - PAD.right}`, class: value === 0 ? "zero" : null }),
        draw("text", { x: PAD.left - 8, y: at + 4, "text-anchor": "end" }, this.show(Math.abs(value)).replace(/\.0+(?=\D)/, "")),
      );
    }
    const step = nice((to - from) / Math.max(2, Math.floor(width / 170)));
    for (let t = Math.ceil(from / step) * step; t <= to && step > 0; t += step) {
      if (x(t) < PAD.left + 14 || x(t) > width - 24) continue;
      const digits = Math.max(0, -Math.floor(Math.log10(step)));
      grid.append(draw("text", { x: x(t), y: y(low) + 16, "text-anchor": "middle" }, `${t.toFixed(digits)} s`));
    }
    return grid;
  }

  line(points, i, x, y) {
    const { class: name } = this.lines[i];
    if (points.length === 0) return draw("g", {});
    const line = points.map(([t, v], n) => `${n ? "L" : "M"}${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const area = `${line}L${x(points.at(-1)[0]).toFixed(1)} ${y(0)}L${x(points[0][0]).toFixed(1)} ${y(0)}Z`;
    return draw("g", { class: name }, draw("path", { class: "area", d: area }), draw("path", { class: "stroke", d: line }));
  }

  tell(data, names) {
    const told = data.map((points, i) => {
      const value = points.length ? this.show(points.at(-1)[1]) : "–";
      say(this.words[i].name, names[i]);
      say(this.words[i].value, value);
      const most = points.reduce((m, p) => Math.max(m, p[1]), 0);
      return `${names[i]} ${value} now, ${this.show(most)} at most`;
    });
    set(this.svg, "aria-label", `${this.title}: ${told.join("; ")}`);
  }
}

/** A histogram as a table with bars: read by eyes and by screen readers alike. */
export function histogram(container, data, show, count, share) {
  const total = data.counts.reduce((a, b) => a + b, 0);
  const most = Math.max(1, ...data.counts);
  let [first, last] = [data.counts.findIndex((n) => n > 0), data.counts.findLastIndex((n) => n > 0)];
  // Its neighbours give a class its meaning.
  [first, last] = [Math.max(0, first - 2), Math.min(data.counts.length - 1, last + 2)];
  if (data.counts.length <= 8) [first, last] = [0, data.counts.length - 1];
  const rows = data.counts.map((n, i) => [i, n]).filter(([i]) => total > 0 && i >= first && i <= last);
  if (rows.length === 0) {
    container.replaceChildren(make("p", { class: "quiet" }, "Nothing was measured yet."));
    return;
  }
  let body = container.querySelector("tbody");
  if (!body || body.rows.length !== rows.length) {
    body = make("tbody", {}, ...rows.map(() =>
      make("tr", {}, make("th", { scope: "row" }), make("td", { class: "bar" }, make("span", {})), make("td", {}), make("td", { class: "quiet" }))));
    const head = ["up to", "", "counted", "share"].map((text) => make("th", { scope: "col" }, text));
    container.replaceChildren(make("table", { class: "histogram" },
      make("caption", { class: "hidden" }), make("thead", {}, make("tr", {}, ...head)), body));
  }
  say(container.querySelector("caption"), `${data.name}, ${data.of}`);
  rows.forEach(([i, n], row) => {
    const [name, bar, value, part] = body.rows[row].cells;
    say(name, data.bounds[i] === null ? "more" : show(data.bounds[i]));
    bar.firstChild.style.width = `${((100 * n) / most).toFixed(2)}%`;
    say(value, count(n));
    say(part, share(n, total));
  });
}
