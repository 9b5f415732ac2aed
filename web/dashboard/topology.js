// The drawing of the network: boxes for nodes, lines for links, rates beside them.

import { BOX, layout } from "./layout.js";
import { draw, say, set } from "./dom.js";
import { short, tight } from "./format.js";

/** More links than this, and rates are shown for the selected one alone. */
const LABELS_MAX = 40;
/** Below this width layers go downwards. */
const NARROW = 620;
/** The least scale at which the text can be read; below it the drawing scrolls. */
const SCALE_MIN = 0.62;
/** From this scale on it is read as easily as the rest of the page. */
const SCALE_GOOD = 0.8;

/** How far a second link between the same two nodes is from the first. */
const BESIDE = { right: 48, down: 96 };

const pathOf = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** A smooth line through points, level at its ends in the layers' direction. */
function curve(points, right) {
  if (points.length === 2 && (right ? points[0][1] === points[1][1] : points[0][0] === points[1][0])) {
    return pathOf(points);
  }
  let text = `M${points[0].join(" ")}`;
  for (let i = 1; i < points.length; i += 1) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const [mx, my] = [(x0 + x1) / 2, (y0 + y1) / 2];
    text += right ? `C${mx} ${y0} ${mx} ${y1} ${x1} ${y1}` : `C${x0} ${my} ${x1} ${my} ${x1} ${y1}`;
  }
  return text;
}

function clipped(text, letters) {
  return text.length > letters ? text.slice(0, letters - 1) + "…" : text;
}

/**
 * What the layout goes by. A tunnel lies over the links that carry it: where only
 * its near port is known, its far end stands behind that port's network.
 */
function edgesOf(links) {
  const wires = links.filter((l) => l.kind === "wire");
  const wired = new Set(wires.flatMap((l) => l.ends.map((e) => e.node)));
  const edges = [];
  for (const link of links) {
    const [a, b] = link.ends;
    const tunnel = link.kind === "tunnel";
    const carrier = tunnel && !wired.has(b.node) && wires.find((w) => w.ends[0].node === a.node && w.ends[0].port === a.port);
    if (carrier) edges.push([`beyond ${link.name}`, carrier.ends[1].node, b.node, false]);
    edges.push([link.name, a.node, b.node, tunnel && (Boolean(carrier) || wired.has(b.node))]);
  }
  return edges;
}

export class Topology {
  constructor(container, onSelect) {
    this.container = container;
    this.onSelect = onSelect;
    this.shape = "";
    this.items = new Map();
    this.focused = null;
    this.svg = draw("svg", { role: "group", "aria-label": "The network" });
    container.append(this.svg);
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(container);
  }

  resize() {
    if (this.state) {
      this.shape = "";
      this.update(this.model, this.selected);
    }
  }

  update(model, selected) {
    this.model = model;
    this.state = model.state;
    this.selected = selected;
    const { nodes, links } = this.state;
    const width = this.container.clientWidth;
    const shape = JSON.stringify([width, nodes.map((n) => [n.name, n.kind]), links.map((l) => [l.name, l.ends, l.kind])]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.build(nodes, links, width);
    }
    for (const node of nodes) this.updateNode(node);
    for (const link of links) this.updateLink(link);
  }

  /** Draws everything anew, for another network or another width. */
  build(nodes, links, width) {
    const had = this.svg.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    const names = nodes.map((n) => n.name);
    const edges = edgesOf(links);
    const plans = (width < NARROW ? ["down"] : ["right", "down"]).map((way) => [way, layout(names, edges, way, width)]);
    // The one that needs the least shrinking; to the right where that can be read.
    const fit = (plan) => (width >= SCALE_GOOD * plan.width ? 1 : width / plan.width);
    plans.sort((a, b) => fit(b[1]) - fit(a[1]));
    const [way, plan] = plans[0];
    this.right = way === "right";
    const [left, top, right, low] = this.margins(links);
    plan.width += left + right;
    plan.height += top + low;
    const scale = Math.max(SCALE_MIN, Math.min(1.15, width / plan.width));
    set(this.svg, "viewBox", `${-left} ${-top} ${plan.width} ${plan.height}`);
    this.svg.style.width = `${plan.width * scale}px`;
    this.svg.style.height = `${plan.height * scale}px`;
    this.items.clear();
    const lines = draw("g", { class: "links" });
    const boxes = draw("g", { class: "nodes" });
    const labels = draw("g", { class: "labels", "aria-hidden": "true" });
    this.labelled = links.length <= LABELS_MAX;
    const twins = new Map();
    for (const [name] of edges) {
      if (name.startsWith("beyond ")) lines.append(draw("path", { class: "beyond", d: curve(this.cut(plan.ways.get(name), 0), this.right) }));
    }
    for (const link of links) this.buildLink(link, plan, twins, lines, labels);
    for (const node of nodes) this.buildNode(node, plan.places.get(node.name), boxes);
    this.svg.replaceChildren(lines, labels, boxes);
    const first = this.items.values().next().value;
    const stay = this.items.get(this.focused) ?? first;
    if (stay) this.rove(stay.id, false);
    if (had && this.items.has(had)) this.items.get(had).element.focus();
  }

  /** Room at the sides for links that lie beside others: left, top, right, low. */
  margins(links) {
    const pairs = new Map();
    for (const link of links) {
      const pair = link.ends.map((e) => e.node).sort().join("\n");
      pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
    }
    const most = Math.max(0, ...pairs.values());
    const after = most > 1 ? 1 : 0;
    const before = most > 2 ? 1 : 0;
    return this.right ? [0, 22 * before, 0, 44 * after] : [70 * before, 0, 70 * after, 0];
  }

  element(id, kind, at, attributes, ...children) {
    const element = draw(
      "g",
      { ...attributes, tabindex: -1, role: "button", "data-id": id, onclick: () => this.choose(id) },
      ...children,
    );
    this.items.set(id, { id, kind, at, element });
    return element;
  }

  buildNode(node, [x, y], parent) {
    const [w, h] = [BOX.width, BOX.height];
    const box = draw("rect", { class: "box", x: x - w / 2, y: y - h / 2, width: w, height: h, rx: node.kind === "node" ? 7 : h / 2 });
    const name = draw("text", { class: "name", x, y: y - 3 }, clipped(node.name, 18));
    const about = draw("text", { class: "about", x, y: y + 13 }, clipped(node.about, 20));
    const badge = draw("g", { class: "badge", transform: `translate(${x + w / 2 - 6} ${y - h / 2})` },
      draw("rect", { x: -22, y: -9, width: 44, height: 18, rx: 9 }), draw("text", { y: 4 }));
    parent.append(this.element(`node ${node.name}`, "node", [x, y], { class: `node kind-${node.kind}` }, box, name, about, badge));
  }

  buildLink(link, plan, twins, lines, labels) {
    let points = plan.ways.get(link.name);
    if (!points) return;
    // Links between the same two nodes lie beside one another.
    const pair = link.ends.map((e) => e.node).sort().join("\n");
    const nth = twins.get(pair) ?? 0;
    twins.set(pair, nth + 1);
    points = this.cut(points, nth === 0 ? 0 : Math.ceil(nth / 2) * (nth % 2 ? 1 : -1) * BESIDE[this.right ? "right" : "down"]);
    const path = curve(points, this.right);
    const middle = draw("path", { d: path });
    const line = this.element(
      `link ${link.name}`, "link", null, { class: `link kind-${link.kind}` },
      draw("path", { class: "reach", d: path }),
      draw("path", { class: "bed", d: path }),
      draw("path", { class: "line", d: path }),
      draw("path", { class: "pulse there", d: path }),
      draw("path", { class: "pulse back", d: path }),
      draw("path", { class: "cross" }),
    );
    lines.append(line);
    const at = middle.getPointAtLength(middle.getTotalLength() * this.labelAt(link));
    const item = this.items.get(`link ${link.name}`);
    item.at = [at.x, at.y];
    line.querySelector(".cross").setAttribute("d", `M${at.x - 6} ${at.y - 6}l12 12m0 -12l-12 12`);
    item.label = this.buildLabel(at, this.outer(points, link));
    labels.append(item.label);
  }

  /** In the middle, or away from an end where many links meet. */
  labelAt(link) {
    const many = link.ends.map((e) => this.state.links.filter((l) => l.ends.some((o) => o.node === e.node)).length);
    const [a, b] = many.map((n) => n > 2);
    return a === b ? 0.5 : a ? 0.7 : 0.3;
  }

  /** Which side of a line that passes other nodes is away from them: -1, 1; 0 for others. */
  outer(points, link) {
    const axis = this.right ? 1 : 0;
    if (points.length < 3) {
      // A branch: on the side to which it leads.
      const aside = points[1][axis] - points[0][axis];
      return this.labelAt(link) >= 0.5 ? Math.sign(aside) : -Math.sign(aside);
    }
    const middle = points[Math.floor(points.length / 2)][axis];
    return middle < (points[0][axis] + points.at(-1)[axis]) / 2 ? -1 : 1;
  }

  buildLabel({ x, y }, outer) {
    // Beside a level line one above and one below it; beside a falling one, left
    // and right; both on the outer side of a line that passes other nodes.
    let [there, back, extra] = this.right
      ? [[x, y - 8, "middle"], [x, y + 17, "middle"], [x, y + 32, "middle"]]
      : [[x + 10, y - 3, "start"], [x - 10, y - 3, "end"], [x + 10, y + 12, "start"]];
    if (outer && this.right) {
      const base = outer < 0 ? y - 22 : y + 17;
      [there, back, extra] = [0, 14, -14].map((dy) => [x, base + dy, "middle"]);
    } else if (outer) {
      [there, back, extra] = [-6, 8, 22].map((dy) => [x + 9 * outer, y + dy, outer < 0 ? "end" : "start"]);
    }
    const text = (name, [tx, ty, anchor]) => draw("text", { class: name, x: tx, y: ty, "text-anchor": anchor });
    return draw("g", { class: "label" }, text("there", there), text("back", back), text("lost", extra));
  }

  /** Ends of the line at the boxes' edges, not in their middle. */
  cut(points, side) {
    const half = (this.right ? BOX.width : BOX.height) / 2;
    const axis = this.right ? 0 : 1;
    const copy = points.map((p) => [...p]);
    const [first, last] = [copy[0], copy[copy.length - 1]];
    const step = Math.sign(copy[1][axis] - first[axis]);
    if (step === 0) {
      // Both in one layer: a bow in front of them.
      const bow = half + 34 + Math.abs(side);
      const between = [(first[0] + last[0]) / 2, (first[1] + last[1]) / 2];
      between[axis] += bow;
      first[axis] += half;
      last[axis] += half;
      return [first, between, last];
    }
    first[axis] += step * half;
    last[axis] -= step * half;
    if (side === 0) return copy;
    const between = [(first[0] + last[0]) / 2, (first[1] + last[1]) / 2];
    between[1 - axis] += side;
    return copy.length > 2 ? copy.map((p, i) => (i && i < copy.length - 1 ? this.moved(p, axis, side) : p)) : [first, between, last];
  }

  moved(point, axis, side) {
    const copy = [...point];
    copy[1 - axis] += side;
    return copy;
  }

  updateNode(node) {
    const item = this.items.get(`node ${node.name}`);
    if (!item) return;
    const { element } = item;
    let dropping = 0;
    for (const drop of this.state.drops) {
      if (drop.place === node.name) dropping += this.model.rate(`drop|${drop.place}|${drop.reason}`) ?? 0;
    }
    element.classList.toggle("down", !node.up);
    element.classList.toggle("dropping", dropping > 0);
    this.mark(item, `node ${node.name}`);
    say(element.querySelector(".badge text"), dropping > 0 ? short(dropping) + "/s" : "");
    say(element.querySelector(".about"), clipped(node.up ? node.about : "down", 20));
    const drops = dropping > 0 ? `, drops ${short(dropping)} packets a second` : "";
    set(element, "aria-label", `${node.name}, ${node.about || node.kind}${node.up ? "" : ", down"}${drops}`);
  }

  updateLink(link) {
    const item = this.items.get(`link ${link.name}`);
    if (!item) return;
    const { element, label } = item;
    const rates = [0, 1].map((way) => this.model.linkBits(link, way));
    const lost = this.model.linkLost(link);
    element.classList.toggle("down", !link.up);
    element.classList.toggle("outside", link.outside);
    element.classList.toggle("lossy", lost > 0);
    const running = this.state.run ? this.state.run.phase === "running" : true;
    [".there", ".back"].forEach((name, way) => {
      const pulse = element.querySelector(`.pulse${name}`);
      pulse.classList.toggle("on", running && link.up && rates[way] > 0);
      if (link.rate_bps) pulse.style.setProperty("--load", Math.min(1, rates[way] / link.rate_bps).toFixed(2));
    });
    const selected = this.mark(item, `link ${link.name}`);
    const shown = this.labelled || selected;
    const [a, b] = this.arrows(link);
    const rate = (sign, bits) => (bits === undefined ? "" : `${sign} ${tight(bits)}`);
    say(label.querySelector(".there"), shown ? rate(a, rates[0]) : "");
    say(label.querySelector(".back"), shown ? rate(b, rates[1]) : "");
    say(label.querySelector(".lost"), shown && !link.up ? "down" : shown && lost > 0 ? `lost ${short(lost)}/s` : "");
    const spoken = rates.map((r) => (r === undefined ? "not known" : short(r, "bit/s")));
    set(element, "aria-label",
      `Link ${link.name}, ${link.ends[0].node} to ${link.ends[1].node} ${spoken[0]}, back ${spoken[1]}` +
      `${link.up ? "" : ", down"}${lost > 0 ? `, loses ${short(lost)} frames a second` : ""}`);
  }

  /** Arrows that point the way the first end's frames go. */
  arrows(link) {
    const [a, b] = link.ends.map((e) => this.items.get(`node ${e.node}`)?.at ?? [0, 0]);
    const axis = this.right ? 0 : 1;
    const onwards = b[axis] >= a[axis];
    const signs = this.right ? ["▸", "◂"] : ["▾", "▴"];
    return onwards ? signs : signs.reverse();
  }

  mark(item, id) {
    const selected = this.selected === id;
    item.element.classList.toggle("selected", selected);
    set(item.element, "aria-pressed", String(selected));
    return selected;
  }

  choose(id) {
    this.rove(id, false);
    this.onSelect(id);
  }

  /** One element of the drawing is in the tab order: the one that was met last. */
  rove(id, focus) {
    for (const item of this.items.values()) item.element.setAttribute("tabindex", item.id === id ? 0 : -1);
    this.focused = id;
    if (focus) this.items.get(id).element.focus();
  }

  key(event) {
    const at = event.target.closest?.("[data-id]")?.dataset.id;
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Enter" || event.key === " ") {
      this.choose(at);
    } else if (ways[event.key]) {
      const next = this.towards(this.items.get(at), ways[event.key]);
      if (next) this.rove(next.id, true);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** The nearest element in a direction; what lies aside counts thrice. */
  towards(from, [dx, dy]) {
    let best = null;
    for (const item of this.items.values()) {
      const [x, y] = [item.at[0] - from.at[0], item.at[1] - from.at[1]];
      const ahead = x * dx + y * dy;
      if (item === from || ahead <= 1) continue;
      const cost = ahead + 3 * Math.abs(x * dy + y * dx);
      if (!best || cost < best.cost) best = { item, cost };
    }
    return best?.item;
  }
}
