// The report page's script: plots that zoom, name values, hide series and follow the model's
// parameters; tables that sort; buttons that copy. Without it the page shows the same as SVG
// and tables.
(() => {
"use strict";

const MARKERS_MAX = 60;
// With more places on an axis than these its ticks are round numbers.
const SETTINGS_MAX = 12;
const DASH = { live: [7, 4], published: [2, 4], derived: [2, 4], asserted: [2, 4], fitted: [9, 3, 2, 3] };
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

/** Four digits, without zeros at the end. */
const shown = (value) => {
  if (value == null) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-6 || size >= 1e15) return value.toExponential(3);
  return String(size >= 1e4 ? Math.round(value) : Number(value.toPrecision(4)));
};
/** As in the SVG: by origin, and differently for a second one of the same colour and origin. */
const dashOf = (all, at) => {
  const { group, kind } = all[at];
  const second = all.slice(0, at).some((other) => other.group === group && other.kind === kind);
  return second ? [10, 3, 2, 3] : DASH[kind];
};
const withUnit = (value, axis) => shown(value) + (axis.unit ? " " + axis.unit : "");
const axisName = (axis) => axis.label + (axis.unit ? ` [${axis.unit}]` : "");
/** Points too close for a sign each. */
const isDense = (series) => series.followed || series.points.length > MARKERS_MAX;
const labelOf = (series) => series.name + (series.kind === "key" ? "" : `, ${series.kind}`);

/** On a logarithmic axis also between decades, as far as there is room. */
const labelled = (u, splits) => {
  const usable = splits.filter((v) => v > 0), decades = Math.log10(Math.max(...usable) / Math.min(...usable));
  const kept = decades <= 3 ? [1, 2, 5] : decades <= 6 ? [1, 3] : [1];
  return splits.map((v) => (kept.includes(Math.round(v / 10 ** Math.floor(Math.log10(v) + 1e-9))) ? v : null));
};

const swatch = (series, hue, dash) => {
  const colour = `var(--fr-${hue})`;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const part = (tag, attributes) => {
    const element = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    svg.append(element);
  };
  svg.setAttribute("width", 26); svg.setAttribute("height", 12);
  svg.setAttribute("aria-hidden", "true");
  if (series.kind !== "published" && series.shape !== "points")
    part("path", { d: "M0 6h26", stroke: colour, "stroke-width": 2, "stroke-dasharray": (dash || []).join(" ") });
  if (series.kind === "published")
    part("circle", { cx: 13, cy: 6, r: 4.5, fill: "none", stroke: colour, "stroke-width": 2 });
  else if (series.kind === "live") part("path", { d: "M13 1l5 5l-5 5l-5 -5z", fill: colour });
  else part("circle", { cx: 13, cy: 6, r: 3, fill: colour });
  return svg;
};

/** All series over one list of x, as uPlot wants them: each x as often as one of them has it. */
const aligned = (all) => {
  const times = new Map();
  for (const series of all) {
    const own = new Map();
    for (const { x } of series.points) own.set(x, (own.get(x) ?? 0) + 1);
    for (const [x, count] of own) times.set(x, Math.max(count, times.get(x) ?? 0));
  }
  const xs = [...times.keys()].sort((a, b) => a - b).flatMap((x) => new Array(times.get(x)).fill(x));
  const first = new Map();
  xs.forEach((x, i) => first.has(x) || first.set(x, i));
  const ys = all.map((series) => {
    const column = new Array(xs.length).fill(null), next = new Map(first);
    for (const { x, y } of series.points) {
      column[next.get(x)] = y.value;
      next.set(x, next.get(x) + 1);
    }
    return column;
  });
  return [xs, ...ys];
};

class Plot {
  constructor(figure) {
    const data = figure.querySelector("script.data");
    this.xy = JSON.parse(data.textContent);
    this.host = figure.querySelector(".live");
    this.host.classList.add("fr");
    // A colour for each group, the same in all figures of the page.
    this.hues = data.dataset.hues.split(" ");
    this.data = aligned(this.xy.series);
    this.on = this.xy.series.map(() => true);
    this.at = null;
    const title = figure.querySelector("h3").textContent;
    this.canvas = make("div", {
      class: "canvas", tabindex: "0", role: "group",
      "aria-label": `${title}. Plot: arrow keys move from value to value, plus and minus zoom, 0 shows all.`,
    });
    this.read = make("output", { "aria-live": "polite" });
    this.buttons = this.bar();
    this.host.append(make("div", { class: "yname" }, axisName(this.xy.y)), this.canvas, this.buttons, this.read);
    this.host.hidden = false;
    figure.querySelector(".svg").hidden = true;
    this.say(null);
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(true));
  }

  bar() {
    const bar = make("div", { class: "bar", role: "group", "aria-label": "Series" });
    this.xy.series.forEach((series, index) => {
      const button = make("button", { type: "button", "aria-pressed": "true" }, swatch(series, this.hues[index], dashOf(this.xy.series, index)), labelOf(series));
      button.addEventListener("click", () => {
        this.on[index] = !this.on[index];
        button.setAttribute("aria-pressed", this.on[index]);
        this.plot.setSeries(index + 1, { show: this.on[index] });
        this.say(this.at);
      });
      bar.append(button);
    });
    const tool = (words, label, act) => {
      const button = make("button", { type: "button", "aria-label": label, title: label }, words);
      button.addEventListener("click", act);
      return button;
    };
    bar.append(make("div", { class: "tools" },
      tool("+", "Zoom in", () => this.zoom(0.5)),
      tool("−", "Zoom out", () => this.zoom(2)),
      tool("All", "Show all", () => this.all())));
    return bar;
  }

  /** Curves that follow parameters: `call` has the model's functions by name. */
  follow({ knobs, curves }, hues, call) {
    const begin = this.xy.series.length;
    curves.forEach((curve, index) => {
      const name = `${curve.group}, closed form`;
      this.xy.series.push({ group: curve.group, name, kind: "derived", shape: "line", points: curve.points, followed: true });
      this.hues.push(hues[index]);
      this.on.push(true);
    });
    const values = knobs.map((knob) => knob.value);
    const given = (argument) => argument.number ?? values[argument.knob];
    const pointsOf = ({ function: name, arguments: all, points }) => points
      .map(({ x }) => ({ x, y: { value: call[name](x, ...all.map(given)) } }))
      .filter(({ y }) => Number.isFinite(y.value));
    const moved = () => {
      curves.forEach((curve, index) => { this.xy.series[begin + index].points = pointsOf(curve); });
      this.data = aligned(this.xy.series);
      this.plot?.setData(this.data);
      this.say(null);
    };
    const buttons = this.bar();
    this.buttons.replaceWith(buttons);
    this.buttons = buttons;
    this.host.append(this.knobs(knobs, values, moved));
    moved();
    this.draw(true);
  }

  /** A slider for each parameter, and a way back. */
  knobs(knobs, values, moved) {
    const box = make("fieldset", { class: "knobs" }, make("legend", {}, "Parameters of the model"));
    const all = knobs.map((knob, index) => {
      const slider = make("input", { type: "range", min: knob.low, max: knob.high, step: knob.step, value: knob.value });
      const read = make("span", { class: "value", "aria-hidden": "true" });
      const tell = () => {
        values[index] = slider.valueAsNumber;
        read.textContent = withUnit(values[index], { unit: knob.unit });
        slider.setAttribute("aria-valuetext", read.textContent);
      };
      slider.addEventListener("input", () => { tell(); moved(); });
      tell();
      box.append(make("label", {}, make("span", {}, knob.name), slider, read));
      return { slider, tell, first: knob.value };
    });
    const back = make("button", { type: "button" }, "As in the model");
    back.addEventListener("click", () => {
      all.forEach(({ slider, tell, first }) => { slider.value = first; tell(); });
      moved();
    });
    box.append(back);
    return box;
  }

  height() { return Math.max(240, Math.min(400, this.canvas.clientWidth * 0.6)); }

  draw(anew = false) {
    const width = this.canvas.clientWidth;
    if (!width) return;
    if (this.plot && !anew) return this.plot.setSize({ width, height: this.height() });
    const ranges = this.plot && ["x", "y"].map((key) => ({ ...this.plot.scales[key] }));
    this.plot?.destroy();
    this.plot = new uPlot(this.options(width), this.data, this.canvas);
    if (ranges) ranges.forEach(({ min, max }, i) => this.plot.setScale("xy"[i], { min, max }));
  }

  options(width) {
    const { x, y, series } = this.xy;
    const style = getComputedStyle(this.host);
    const colour = (name) => style.getPropertyValue(`--fr-${name}`).trim();
    const font = "12px system-ui, sans-serif";
    const axis = (more) => ({
      stroke: colour("soft"), font, grid: { stroke: colour("grid"), width: 1 },
      ticks: { stroke: colour("grid"), width: 1, size: 5 },
      values: (u, splits) => splits.map((v) => (v == null ? null : shown(v))), ...more,
    });
    const scale = (key) => ({
      distr: this.xy[key].log ? 3 : 1, log: 10, time: false, auto: true,
      range: (u, low, high) => this.range(key, low, high, u),
    });
    const settings = this.settings();
    const places = settings.length ? {
      splits: (u) => settings.filter((v) => v >= u.scales.x.min && v <= u.scales.x.max),
      filter: (u, splits) => this.apart(u, splits),
    } : x.log ? { filter: labelled } : {};
    return {
      width, height: this.height(), legend: { show: false }, padding: [8, 22, 0, 0],
      cursor: { drag: { x: true, y: true, uni: 40 }, focus: { prox: 24 }, points: { size: 9, width: 2 } },
      focus: { alpha: 0.35 },
      scales: { x: scale("x"), y: scale("y") },
      axes: [
        axis({ label: axisName(x), labelFont: font, labelSize: 22, size: 34, ...places }),
        axis({ ...(y.log ? { filter: labelled } : {}), size: (u, values) => 14 + 7.2 * Math.max(3, ...(values || []).map((v) => (v || "").length)) }),
      ],
      series: [{}, ...series.map((s, i) => this.seriesOptions(s, i, colour))],
      hooks: {
        draw: [(u) => this.extras(u, colour)],
        setCursor: [(u) => { if (u.cursor.idx != null && u.cursor.left >= 0) this.say(u.cursor.idx); }],
      },
    };
  }

  /** Places on the x axis that were set, if they are few: what its ticks stand at. */
  settings() {
    const set = this.xy.series.filter((series) => !series.followed);
    const all = [...new Set(set.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b);
    return all.length >= 2 && all.length <= SETTINGS_MAX ? all : [];
  }

  /** A label has its room, or it is left out. */
  apart(u, splits) {
    let free = -Infinity;
    return splits.map((value) => {
      const left = u.valToPos(value, "x"), half = shown(value).length * 3.6;
      if (left - half < free) return null;
      free = left + half + 6;
      return value;
    });
  }

  seriesOptions(series, index, colour) {
    const ink = colour(this.hues[index]);
    const many = isDense(series);
    const joined = series.shape !== "points" && (series.kind !== "published" || many);
    const stepped = series.shape === "step";
    const open = series.kind === "published";
    return {
      label: labelOf(series), show: this.on[index], stroke: ink, width: 2, spanGaps: true,
      dash: dashOf(this.xy.series, index), focus: true,
      paths: joined ? (stepped ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear()) : () => null,
      points: {
        show: !many && series.kind !== "live" && (open || !stepped), size: open ? 10 : 6,
        width: 2, stroke: ink, fill: open ? colour("paper") : ink,
      },
    };
  }

  /** Every place on one axis that is to be seen: spread and marks, too. */
  extent(key, u) {
    const axis = this.xy[key];
    const seen = key === "x" || !u || u.scales.x.min == null ? () => true
      : ({ x }) => x >= u.scales.x.min && x <= u.scales.x.max;
    const points = this.xy.series.flatMap((s, i) => (this.on[i] ? s.points : [])).filter(seen);
    const values = key === "x" ? points.map((p) => p.x).concat((this.xy.marks || []).map((m) => m.x))
      : points.flatMap(({ y }) => [y.value, y.low ?? y.value, y.high ?? y.value]);
    const usable = values.filter((v) => !axis.log || v > 0);
    if (axis.from != null) usable.push(axis.from);
    return usable.length ? [Math.min(...usable), Math.max(...usable)] : [axis.log ? 1 : 0, 10];
  }

  /** uPlot asks for ends: those of the data become round, those of a person stay. */
  range(key, low, high, u) {
    const columns = key === "x" ? [this.data[0]] : this.data.slice(1);
    const isData = (value) => columns.some((column) => column.includes(value));
    if (low != null && !(isData(low) && isData(high))) return [low, high];
    return this.whole(key, u);
  }

  whole(key, u) {
    const axis = this.xy[key];
    const [low, high] = this.extent(key, u);
    if (axis.log) {
      const down = 10 ** Math.floor(Math.log10(low)), up = 10 ** Math.floor(Math.log10(high));
      const from = [5, 2, 1].map((m) => m * down).find((v) => v <= low * 1.000001);
      const to = [1, 2, 5, 10].map((m) => m * up).find((v) => v >= high * 0.999999);
      return [from, to > from ? to : from * 10];
    }
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    return [low === axis.from ? low : low - room, high + room];
  }

  /** What uPlot has no words for: spread, diamonds, marked places. */
  extras(u, colour) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    const to = (x, y) => [u.valToPos(x, "x", true), u.valToPos(y, "y", true)];
    this.xy.series.forEach((series, index) => {
      if (!this.on[index]) return;
      ctx.strokeStyle = ctx.fillStyle = colour(this.hues[index]);
      ctx.lineWidth = 1.3 * ratio;
      const many = isDense(series);
      const spread = series.points.filter(({ y }) => y.low != null && y.high != null);
      if (many && spread.length) this.band(ctx, spread, to);
      for (const { x, y } of many ? [] : series.points) {
        if (y.low != null && y.high != null) {
          const [left, low] = to(x, this.xy.y.log ? Math.max(y.low, u.scales.y.min) : y.low), [, high] = to(x, y.high), arm = 4 * ratio;
          ctx.beginPath();
          ctx.moveTo(left, low); ctx.lineTo(left, high);
          for (const end of [low, high]) { ctx.moveTo(left - arm, end); ctx.lineTo(left + arm, end); }
          ctx.stroke();
        }
        if (series.kind === "live") {
          const [left, top] = to(x, y.value), r = 5 * ratio;
          ctx.beginPath();
          ctx.moveTo(left, top - r); ctx.lineTo(left + r, top); ctx.lineTo(left, top + r); ctx.lineTo(left - r, top);
          ctx.fill();
        }
      }
    });
    this.marks(u, ctx, colour, ratio);
    ctx.restore();
  }

  band(ctx, points, to) {
    ctx.save(); ctx.globalAlpha = 0.18; ctx.beginPath();
    points.forEach(({ x, y }) => ctx.lineTo(...to(x, y.high)));
    [...points].reverse().forEach(({ x, y }) => ctx.lineTo(...to(x, y.low)));
    ctx.fill(); ctx.restore();
  }

  marks(u, ctx, colour, ratio) {
    ctx.strokeStyle = ctx.fillStyle = colour("soft");
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.lineWidth = ratio;
    // A label that would stand on another one goes a line further down.
    const taken = [];
    for (const mark of this.xy.marks || []) {
      const left = u.valToPos(mark.x, "x", true), { top, height, width } = u.bbox;
      const far = left > u.bbox.left + width / 2;
      ctx.setLineDash([2 * ratio, 4 * ratio]);
      ctx.beginPath(); ctx.moveTo(left, top); ctx.lineTo(left, top + height); ctx.stroke();
      ctx.textAlign = far ? "right" : "left";
      const from = left + (far ? -5 : 5) * ratio, length = ctx.measureText(mark.label).width;
      const ends = far ? [from - length, from] : [from, from + length];
      const free = (line) => !taken.some((t) => t.line === line && t.ends[0] < ends[1] && ends[0] < t.ends[1]);
      let line = 0;
      while (!free(line)) line += 1;
      taken.push({ line, ends });
      ctx.fillText(mark.label, from, top + (13 + 15 * line) * ratio);
    }
  }

  /** The values at one place, in words. */
  say(index) {
    this.at = index;
    if (index == null) {
      this.read.textContent = "Point at the plot for values, drag to zoom; by keyboard: arrows, + and −, 0 for all.";
      return;
    }
    const { x, y, series } = this.xy;
    this.read.textContent = "";
    this.read.append(make("span", {}, make("b", {}, `${x.label} ${withUnit(this.data[0][index], x)}`)));
    series.forEach((s, i) => {
      const point = this.on[i] && s.points.find((p) => p.x === this.data[0][index]);
      if (!point) return;
      const { value, low, high } = point.y;
      const spread = low != null && high != null ? ` (${shown(low)}–${shown(high)})` : "";
      this.read.append(" ", make("span", {}, `${labelOf(s)}: `, make("b", {}, withUnit(value, y)), spread));
    });
  }

  /** The next place that has a value of a series which is shown. */
  step(by) {
    const has = (i) => this.xy.series.some((_, s) => this.on[s] && this.data[s + 1][i] != null);
    const { min, max } = this.plot.scales.x, xs = this.data[0];
    const inside = (i) => xs[i] >= min && xs[i] <= max;
    let i = this.at ?? (by > 0 ? -1 : xs.length);
    do i += by; while (i >= 0 && i < xs.length && !(has(i) && inside(i)));
    if (i < 0 || i >= xs.length) return;
    const left = this.plot.valToPos(xs[i], "x");
    const first = this.data.findIndex((column, s) => s > 0 && this.on[s - 1] && column[i] != null);
    this.plot.setCursor({ left, top: this.plot.valToPos(this.data[first][i], "y") });
    this.say(i);
  }

  zoom(by) {
    const { min, max, distr } = this.plot.scales.x;
    const [map, back] = distr === 3 ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
    const middle = this.at != null ? map(this.data[0][this.at]) : (map(min) + map(max)) / 2;
    const [low, high] = [middle - (middle - map(min)) * by, middle + (map(max) - middle) * by];
    this.plot.setScale("x", { min: back(low), max: back(high) });
  }

  all() {
    for (const key of ["x", "y"]) {
      const [min, max] = this.whole(key);
      this.plot.setScale(key, { min, max });
    }
  }

  key(event) {
    const act = {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      0: () => this.all(), Escape: () => this.all(),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }
}

/** A click on a head sorts by it; the third one restores the order. */
const sortable = (table) => {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  if (rows.length < 2) return;
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value != null) return Number(cell.dataset.value);
    return cell.classList.contains("missing") ? null : cell.textContent;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  };
  heads.forEach((head, column) => {
    const button = make("button", { type: "button", title: "Sort" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (order) head.setAttribute("aria-sort", order);
      const sign = order === "descending" ? -1 : 1;
      const sorted = order ? [...rows].sort((a, b) => {
        const [left, right] = [value(a, column), value(b, column)];
        // What is missing stays last whichever way.
        return left === null || right === null ? compare(left, right) : sign * compare(left, right);
      }) : rows;
      body.append(...sorted);
    });
  });
};

const copy = async (text, button) => {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = make("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
};

for (const button of document.querySelectorAll("[data-csv]")) {
  button.hidden = false;
  button.addEventListener("click", () =>
    copy(JSON.parse(document.getElementById(`csv-${button.dataset.csv}`).textContent), button));
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(document.getElementById(button.dataset.copy).textContent, button));
}
document.querySelectorAll("figure.table table").forEach(sortable);

/** What scrolls says so in words, until it was scrolled to its end. */
for (const box of document.querySelectorAll(".scroll")) {
  const cue = make("p", { class: "cue", "aria-hidden": "true" }, "more to the right →");
  box.after(cue);
  const look = () => { cue.hidden = box.scrollLeft + box.clientWidth > box.scrollWidth - 4; };
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
}

// Folded sections open for a link into them, for print, and all at once.
const all = [...document.querySelectorAll("main details")];
const reveal = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const inside = target.querySelector(":scope > details");
  if (inside) inside.open = true;
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", reveal);
let folded = [];
addEventListener("beforeprint", () => {
  folded = all.filter((part) => !part.open);
  folded.forEach((part) => { part.open = true; });
});
addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
for (const button of document.querySelectorAll(".unfold")) {
  if (!all.some((part) => !part.open)) continue;
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = all.some((part) => !part.open);
    all.forEach((part) => { part.open = open; });
    button.textContent = open ? "Fold all" : "Unfold all";
  });
}
for (const figure of document.querySelectorAll("figure.plot")) {
  if (!figure.querySelector("script.data")) continue;
  try {
    figure.plot = new Plot(figure);
  } catch (error) {
    // The drawing stays.
    figure.querySelector(".live").hidden = true;
    figure.querySelector(".svg").hidden = false;
    console.error(error);
  }
}
reveal();

// The models' functions are in the page; where they do not run, the curves are as they were made.
const models = document.getElementById("models");
if (models && window.WebAssembly) {
  const octets = Uint8Array.from(atob(models.textContent), (sign) => sign.charCodeAt(0));
  WebAssembly.instantiate(octets).then(({ instance }) => {
    for (const data of document.querySelectorAll("script.explore")) {
      const { plot } = data.closest("figure");
      plot?.follow(JSON.parse(data.textContent), data.dataset.hues.split(" "), instance.exports);
    }
    document.documentElement.dataset.models = "run";
  }).catch(console.error);
}
})();
