// What was seen: the last state, rates between states, and series of them.
//
// Rates are differences of counters by the node's own time, over the last few
// states. While time stands still, they stay what they were.

/** States that a rate looks back over: two seconds of polling. */
const LOOK_BACK = 4;
/** Points of a series. */
const POINTS_MAX = 300;

/** Counters of a state by name, flat, so that two states can be compared. */
function counters(state) {
  const all = new Map();
  for (const link of state.links) {
    link.ways.forEach((way, i) => {
      for (const what of ["packets", "octets", "lost"]) all.set(`link|${link.name}|${i}|${what}`, way[what]);
    });
  }
  for (const node of state.nodes) {
    for (const port of node.ports) {
      for (const way of ["rx", "tx"]) {
        all.set(`port|${node.name}|${port.name}|${way}`, port[way].octets);
      }
    }
  }
  // What links lose stands in both lists, and is counted once.
  const nodes = new Set(state.nodes.map((n) => n.name));
  let dropped = 0;
  for (const drop of state.drops) {
    if (nodes.has(drop.place)) dropped += drop.packets;
    all.set(`drop|${drop.place}|${drop.reason}`, drop.packets);
  }
  all.set("dropped", dropped);
  for (const sa of state.sas) all.set(`sa|${saKey(sa)}`, sa.packets);
  return all;
}

export const saKey = (sa) => [sa.node, sa.protocol, sa.name, sa.way, sa.id].join("|");

export class Model {
  constructor() {
    this.forget();
  }

  forget() {
    this.state = null;
    this.samples = [];
    this.points = [];
    this.rates = new Map();
    this.moved = false;
  }

  /** Takes a state in. */
  take(state) {
    const last = this.samples.at(-1);
    // Another run, or a node that was started anew.
    if (last && (state.now_ns < last.now || state.name !== this.state.name)) this.forget();
    this.state = state;
    this.moved = this.samples.length === 0 || state.now_ns > this.samples.at(-1).now;
    if (!this.moved) return;
    this.samples.push({ now: state.now_ns, counters: counters(state) });
    if (this.samples.length > LOOK_BACK + 1) this.samples.shift();
    const [first, now] = [this.samples[0], this.samples.at(-1)];
    const seconds = (now.now - first.now) / 1e9;
    if (seconds <= 0) return;
    this.rates = new Map();
    for (const [name, value] of now.counters) {
      // A counter that is new, or began anew, counts from nothing.
      const before = first.counters.get(name) ?? 0;
      this.rates.set(name, Math.max(0, value - before) / seconds);
    }
    this.point();
  }

  /** Adds a point to the series: of the last interval alone. */
  point() {
    const [before, now] = this.samples.slice(-2);
    if (!now) return;
    const seconds = (now.now - before.now) / 1e9;
    const values = new Map();
    let lost = 0;
    for (const [name, value] of now.counters) {
      const rate = Math.max(0, value - (before.counters.get(name) ?? 0)) / seconds;
      if (name.startsWith("link|")) {
        if (name.endsWith("|octets")) values.set(name, rate * 8);
        if (name.endsWith("|lost")) lost += rate;
      }
      if (name === "dropped") values.set("dropped", rate);
    }
    values.set("lost", lost);
    this.points.push({ from: before.now, at: now.now, values });
    if (this.points.length > POINTS_MAX) this.points.shift();
  }

  rate(name) {
    return this.rates.get(name);
  }

  /** Bits per second on a link, one way. */
  linkBits(link, way) {
    const octets = this.rate(`link|${link.name}|${way}|octets`);
    return octets === undefined ? undefined : octets * 8;
  }

  linkLost(link) {
    return (this.rate(`link|${link.name}|0|lost`) ?? 0) + (this.rate(`link|${link.name}|1|lost`) ?? 0);
  }

  series(name) {
    return this.points.map((p) => [p.at / 1e9, p.values.get(name) ?? 0]);
  }

  /** The link with the most traffic: what a newcomer wants to see. */
  busiest() {
    let best = null;
    for (const link of this.state?.links ?? []) {
      const octets = link.ways[0].octets + link.ways[1].octets;
      if (!best || octets > best.octets) best = { name: link.name, octets };
    }
    return best?.name ?? null;
  }
}
