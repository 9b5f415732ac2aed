// What is selected in the drawing: facts about it, and what can be done to it.

import { byId, make, say } from "./dom.js";
import { bits, count, share, short, span } from "./format.js";

/** A node that is restarted from here is away for the time that the lab says. */
export class Selection {
  constructor(give) {
    this.give = give;
    this.id = null;
    this.loaded = null;
    byId("link-toggle").addEventListener("click", () => this.toggle());
    byId("restart").addEventListener("click", () => this.restart());
    byId("disturb").addEventListener("submit", (event) => {
      event.preventDefault();
      this.impair();
    });
  }

  find(state) {
    const [kind, name] = this.split();
    if (kind === "node") return state.nodes.find((n) => n.name === name);
    if (kind === "link") return state.links.find((l) => l.name === name);
    return undefined;
  }

  split() {
    if (!this.id) return [null, null];
    const at = this.id.indexOf(" ");
    return [this.id.slice(0, at), this.id.slice(at + 1)];
  }

  /** The next or the previous of all nodes and links. */
  step(state, by) {
    const all = [...state.nodes.map((n) => `node ${n.name}`), ...state.links.map((l) => `link ${l.name}`)];
    const at = all.indexOf(this.id);
    return all[(at + by + all.length + (at < 0 && by < 0 ? 1 : 0)) % all.length] ?? null;
  }

  update(model) {
    const item = this.find(model.state);
    this.item = item;
    const [kind] = this.split();
    say(byId("selection-head"), item ? item.name : "In all");
    const can = (command) => model.state.commands.includes(command);
    const link = Boolean(item) && kind === "link" && item.kind === "wire" && can("link");
    const node = Boolean(item) && kind === "node" && item.kind === "node" && can("restart");
    byId("disturb").hidden = !link && !node;
    byId("disturb-link").hidden = !link;
    byId("disturb-node").hidden = !node;
    document.querySelector("#disturb .fields").hidden = !item || (item.loss ?? null) === null;
    if (!item) {
      say(byId("selection-about"), "Choose a node or a link in the drawing, or by the keys [ and ].");
      this.facts(this.overview(model));
      return;
    }
    say(byId("selection-about"), kind === "link" ? this.ends(item) : item.about || item.kind);
    if (link) this.fields(item);
    this.facts(kind === "link" ? this.linkFacts(model, item) : this.nodeFacts(model, item));
  }

  /** All together, while nothing is selected. */
  overview(model) {
    const { state } = model;
    const sum = (what) => state.nodes.reduce((all, n) => all + (n.ledger?.[what] ?? 0), 0);
    const names = new Set(state.nodes.map((n) => n.name));
    const dropped = state.drops.filter((d) => names.has(d.place)).reduce((all, d) => all + d.packets, 0);
    const lost = state.links.reduce((all, l) => all + l.ways[0].lost + l.ways[1].lost, 0);
    const facts = ["received", "made", "sent", "consumed", "held"].map((what) => [`Packets ${what}`, count(sum(what))]);
    facts.splice(4, 0, ["Packets dropped", count(dropped)], ["Lost on links", count(lost)]);
    if (state.run) facts.push(["Promises", state.run.broken.length ? "broken: see what happened" : "kept: every packet is accounted for, no nonce twice, nothing in clear outside"]);
    return facts;
  }

  ends(link) {
    const words = link.ends.map((e) => (e.port ? `${e.node}:${e.port}` : e.node));
    return `${link.kind === "tunnel" ? "tunnel" : "link"} from ${words[0]} to ${words[1]}`;
  }

  /** The form shows the link's own values once, and then what a person writes. */
  fields(link) {
    say(byId("link-toggle"), link.up ? "Take it down" : "Bring it up");
    const was = JSON.stringify([link.name, link.loss, link.delay_ns]);
    if (this.loaded === was) return;
    this.loaded = was;
    byId("loss").value = link.loss === null ? "" : Number((link.loss * 100).toPrecision(6));
    byId("delay").value = link.delay_ns === null ? "" : link.delay_ns / 1e6;
  }

  facts(facts) {
    const list = byId("facts");
    const shown = facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
    if (list.children.length !== 2 * shown.length) {
      list.replaceChildren(...shown.flatMap(() => [make("dt", {}), make("dd", {})]));
    }
    shown.forEach(([name, value], i) => {
      say(list.children[2 * i], name);
      say(list.children[2 * i + 1], String(value));
    });
  }

  linkFacts(model, link) {
    const facts = [["State", link.up ? "up" : "down"]];
    if (link.outside) facts.push(["Trust", link.kind === "tunnel" ? "sealed" : "outside: no clear text may show"]);
    if (link.rate_bps !== null) facts.push(["Rate", bits(link.rate_bps)]);
    if (link.delay_ns !== null) facts.push(["Delay", span(link.delay_ns)]);
    if (link.loss !== null) facts.push(["Loss asked for", share(link.loss, 1)]);
    link.ways.forEach((way, i) => {
      const to = link.ends[1 - i].node;
      const now = model.linkBits(link, i);
      const load = link.rate_bps && now !== undefined ? ` (${share(now, link.rate_bps)} of the line)` : "";
      facts.push([`To ${to}`, `${now === undefined ? "–" : bits(now)}${load}`]);
      facts.push(["Frames", `${count(way.packets)}, ${short(way.octets, "B")}`]);
      if (way.lost) facts.push(["Lost", count(way.lost)]);
      if (way.queued) facts.push(["Waiting", count(way.queued)]);
    });
    return facts;
  }

  nodeFacts(model, node) {
    const facts = [["State", node.up ? "up" : "down"]];
    node.facts.forEach((fact, i) => facts.push([i === 0 ? "Has" : "", fact || " "]));
    if (node.queued !== null) facts.push(["Waiting in front", count(node.queued)]);
    if (node.ledger) {
      for (const what of ["received", "made", "sent", "consumed", "dropped", "held"]) {
        facts.push([what[0].toUpperCase() + what.slice(1), count(node.ledger[what])]);
      }
    }
    for (const sa of model.state.sas.filter((s) => s.node === node.name)) {
      facts.push([`${sa.protocol === "esp" ? "ESP" : "MACsec"} ${sa.way}`, `${sa.name}: number ${count(sa.number)}`]);
    }
    return facts;
  }

  toggle() {
    const [kind, name] = this.split();
    if (kind !== "link" || !this.item || byId("disturb-link").hidden) return;
    const up = !this.item.up;
    this.item.up = up;
    this.give({ command: "link", link: name, up }, `Link ${name} ${up ? "comes up" : "goes down"}`);
  }

  impair() {
    const [kind, name] = this.split();
    if (kind !== "link") return;
    const body = { command: "link", link: name };
    if (byId("loss").value !== "") body.loss = Number(byId("loss").value) / 100;
    if (byId("delay").value !== "") body.delay_ns = Math.round(Number(byId("delay").value) * 1e6);
    this.give(body, `Link ${name} has other impairments`);
  }

  restart() {
    const [kind, name] = this.split();
    if (kind !== "node" || byId("disturb-node").hidden) return;
    this.give({ command: "restart", node: name }, `${name} restarts`);
  }
}
