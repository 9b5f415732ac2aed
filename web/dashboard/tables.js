// Tables that stay in place while their numbers change. On a phone each row
// becomes a card, with the column's name in front of each value.

import { keyed, make, say, set } from "./dom.js";
import { count, short, share, span } from "./format.js";
import { saKey } from "./model.js";

/** `columns`: [{ name, number?, cell(item, td) }], the first one names the row. */
function table(container, caption, columns, items, key, none) {
  if (items.length === 0) {
    if (container.firstElementChild?.tagName !== "P") container.replaceChildren(make("p", { class: "quiet" }, none));
    return;
  }
  let body = container.querySelector("tbody");
  if (!body) {
    const heads = columns.map((c) => make("th", { scope: "col", class: c.number ? "number" : null }, c.name));
    body = make("tbody", {});
    container.replaceChildren(
      make("table", { class: "cards" }, make("caption", { class: "hidden" }, caption), make("thead", {}, make("tr", {}, ...heads)), body),
    );
  }
  const create = () =>
    make("tr", {}, ...columns.map((c, i) =>
      make(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: c.number ? "number" : c.wide ? "wide-cell" : null, "data-name": c.name })));
  keyed(body, items, key, create, (row, item) => {
    columns.forEach((column, i) => {
      const shown = column.cell(item, row.cells[i]);
      if (typeof shown === "string") say(row.cells[i], shown);
    });
  });
}

/** A word with a colour; the word alone says it, too. */
function tag(cell, text, kind) {
  if (!cell.firstElementChild) cell.append(make("span", { class: "tag" }));
  say(cell.firstElementChild, text);
  set(cell.firstElementChild, "class", `tag ${kind}`);
}

/** How much of the numbers is used up, as a bar and in words. */
function used(sa, cell) {
  const part = sa.number / sa.limit;
  if (!cell.firstElementChild) cell.append(make("meter", { min: 0, max: 1, low: 0.5, high: 0.75, optimum: 0 }), make("span", {}));
  const [meter, text] = cell.children;
  meter.value = part;
  const words = `${share(sa.number, sa.limit)} of 2${sa.limit > 2 ** 33 ? "⁶⁴" : "³²"}`;
  set(meter, "aria-label", `numbers used: ${words}`);
  say(text, words);
}

export function associations(container, model) {
  const faults = (sa) => Object.entries(sa.faults).map(([k, n]) => `${k} ${count(n)}`).join(", ");
  table(
    container,
    "Security associations",
    [
      { name: "Node and name", cell: (sa) => `${sa.node} · ${sa.name}` },
      { name: "Kind", cell: (sa, td) => tag(td, sa.protocol === "esp" ? "ESP" : "MACsec", sa.protocol) },
      { name: "Way", cell: (sa) => (sa.way === "out" ? "→ out" : "← in") },
      { name: "SPI, or SCI and AN", wide: true, cell: (sa, td) => (td.classList.add("mono"), sa.id) },
      { name: "Suite", cell: (sa) => sa.suite },
      { name: "Number", number: true, cell: (sa) => count(sa.number) },
      { name: "Used up", wide: true, cell: used },
      { name: "Window", number: true, cell: (sa) => (sa.window === null ? "–" : count(sa.window)) },
      { name: "Packets", number: true, cell: (sa) => count(sa.packets) },
      { name: "per s", number: true, cell: (sa) => short(model.rate(`sa|${saKey(sa)}`)) },
      { name: "Faults", cell: (sa, td) => (td.classList.toggle("bad", faults(sa) !== ""), faults(sa) || "none") },
    ],
    model.state.sas,
    saKey,
    "No packet is protected here: the configuration has neither a tunnel nor MACsec.",
  );
}

export function drops(container, model) {
  const all = [...model.state.drops].sort((a, b) => b.packets - a.packets);
  const several = new Set(all.map((d) => d.place)).size > 1;
  table(
    container,
    "Drops by reason",
    [
      { name: "Reason", cell: (d, th) => {
        if (!th.firstElementChild) th.append(make("code", {}), make("span", { class: "quiet block" }));
        say(th.children[0], d.reason);
        say(th.children[1], several || d.place !== model.state.name ? `${d.place}: ${d.about}` : d.about);
      } },
      { name: "Packets", number: true, cell: (d) => count(d.packets) },
      { name: "per s", number: true, cell: (d) => short(model.rate(`drop|${d.place}|${d.reason}`)) },
    ],
    all,
    (d) => `${d.place}|${d.reason}`,
    "Nothing was dropped.",
  );
}

export function flows(container, model) {
  const more = (flow) => Object.entries(flow.more).map(([k, n]) => `${k} ${count(n)}`).join(", ");
  table(
    container,
    "Flows between hosts",
    [
      { name: "Flow", cell: (f) => f.name },
      { name: "Kind", cell: (f) => f.kind },
      { name: "From, to", cell: (f) => `${f.from} → ${f.to}` },
      { name: "Counted", cell: (f) => f.unit },
      { name: "Sent", number: true, cell: (f) => count(f.sent) },
      { name: "Arrived", number: true, cell: (f) => count(f.received) },
      { name: "Not yet, or lost", number: true, cell: (f) => `${count(Math.max(0, f.sent - f.received))} (${share(Math.max(0, f.sent - f.received), f.sent)})` },
      { name: "Mean time", number: true, cell: (f) => (f.time_ns === null ? "–" : `${span(f.time_ns)} ${f.timed}`) },
      { name: "More", cell: (f) => more(f) || "–" },
    ],
    model.state.flows,
    (f) => f.name,
    "No host sends.",
  );
}

export function ports(container, model) {
  const all = model.state.nodes.flatMap((node) => node.ports.map((port) => ({ node: node.name, ...port })));
  const rate = (p, way) => {
    const octets = model.rate(`port|${p.node}|${p.name}|${way}`);
    return octets === undefined ? "–" : short(octets * 8, "bit/s");
  };
  table(
    container,
    "Ports",
    [
      { name: "Port", cell: (p) => `${p.node} · ${p.name}` },
      { name: "State", cell: (p, td) => tag(td, p.up ? "up" : "down", p.up ? "good" : "bad") },
      { name: "By", cell: (p) => p.about || "–" },
      { name: "Address", wide: true, cell: (p, td) => (td.classList.add("mono"), p.mac || "–") },
      { name: "MTU", number: true, cell: (p) => count(p.mtu) },
      { name: "Received", number: true, cell: (p) => count(p.rx.packets) },
      { name: "now", number: true, cell: (p) => rate(p, "rx") },
      { name: "Sent", number: true, cell: (p) => count(p.tx.packets) },
      { name: "now", number: true, cell: (p) => rate(p, "tx") },
      { name: "Missed, failed", number: true, cell: (p, td) => (td.classList.toggle("bad", p.missed + p.failed > 0), `${count(p.missed)}, ${count(p.failed)}`) },
    ],
    all,
    (p) => `${p.node}|${p.name}`,
    "There are no ports.",
  );
}
