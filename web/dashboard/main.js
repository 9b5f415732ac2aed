// The page: asks for the state, shows it, and gives commands.

import * as api from "./api.js";
import { Chart, histogram } from "./charts.js";
import { byId, keyed, make, say, set } from "./dom.js";
import { bits, clock, count, short, span, uptime } from "./format.js";
import { Keys } from "./keys.js";
import { Model } from "./model.js";
import { Selection } from "./selection.js";
import * as tables from "./tables.js";
import { Topology } from "./topology.js";

/** Milliseconds between two questions: while somebody looks, and while nobody does. */
const EVERY_MS = 400;
const HIDDEN_MS = 4000;
/** What is waited for after a failure, longer each time. */
const RETRY_MS = [500, 1000, 2000, 5000];
const SPEEDS = [0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 100];

const model = new Model();
const selection = new Selection(give);
const topology = new Topology(byId("drawing"), select);
const traffic = new Chart(byId("traffic-chart"), "Traffic", [{ class: "there" }, { class: "back" }], bits, true);
const losses = new Chart(byId("drops-chart"), "Dropped and lost", [{ class: "dropped" }, { class: "lost" }], (v) => short(v, "/s"));
let watched = null;
let failures = 0;
let given = 0;
let timer = 0;

// ---- asking

async function poll() {
  clearTimeout(timer);
  try {
    const before = given;
    const state = await api.state();
    failures = 0;
    // What was asked before a command may have been answered before it, too.
    if (given === before) present(state);
  } catch (error) {
    if (error.status === 401) return door(error.message);
    failures += 1;
    connection("bad", error.status ? error.message : "no answer; trying again");
  }
  const wait = failures ? RETRY_MS[Math.min(failures, RETRY_MS.length) - 1] : document.hidden ? HIDDEN_MS : EVERY_MS;
  timer = setTimeout(poll, wait);
}

async function give(body, words) {
  given += 1;
  const number = given;
  try {
    const state = await api.command(body);
    if (given === number) present(state);
    notice(words, false);
  } catch (error) {
    if (error.status === 401) return door(error.message);
    notice(`Not done: ${error.message}`, true);
  }
}

function door(why) {
  connection("bad", "the key is missing");
  if (why.includes("another run")) say(byId("door-why"), "The program was started anew and has another key: open the address that it printed, or enter the key in it.");
  if (!byId("door").open) byId("door").showModal();
}

byId("door-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useKey(byId("door-key").value);
  byId("door").close();
  model.forget();
  poll();
});
byId("door").addEventListener("cancel", (event) => event.preventDefault());
document.addEventListener("visibilitychange", () => !document.hidden && !byId("door").open && poll());
addEventListener("hashchange", () => location.reload());

let noticed = 0;
function notice(words, bad) {
  const box = byId("notice");
  say(box, words);
  box.classList.toggle("bad", bad);
  box.classList.add("on");
  clearTimeout(noticed);
  noticed = setTimeout(() => box.classList.remove("on"), bad ? 8000 : 3500);
}

function connection(kind, words) {
  set(byId("dot"), "class", `dot ${kind}`);
  say(byId("connection"), words);
}

// ---- showing

/** A fault of this page is said as one, and not taken for one of the network. */
function present(state) {
  try {
    show(state);
  } catch (error) {
    reportError(error);
    connection("bad", `this page has a fault: ${error.message}`);
  }
}

function show(state) {
  if (state.schema !== "ferrule-state/1") return connection("bad", `this page does not know ${state.schema}`);
  const first = model.state === null;
  model.take(state);
  if (first) begin(state);
  if (!selection.find(state)) selection.id = null;
  head(state);
  controls(state);
  topology.update(model, selection.id);
  selection.update(model);
  charts(state);
  lists(state);
}

/** Once, when it is known what is looked at. */
function begin(state) {
  document.title = `${state.name} · Ferrule`;
  document.body.dataset.kind = state.kind;
  keys.list();
  const kinds = new Set(state.links.map((l) => (l.kind === "tunnel" ? "tunnel" : l.outside ? "outside" : "wire")));
  const words = { wire: "link", outside: "outside: nothing may pass in clear", tunnel: "tunnel" };
  byId("legend").replaceChildren(
    ...["wire", "outside", "tunnel"].filter((k) => kinds.has(k)).map((k) => make("li", { class: k }, make("i", { "aria-hidden": "true" }), words[k])),
    make("li", { class: "down" }, make("i", { "aria-hidden": "true" }), "down"),
  );
}

function head(state) {
  say(byId("name"), state.name);
  say(byId("about"), state.about);
  const run = state.run;
  if (!run) {
    say(byId("time"), uptime(state.now_ns));
    say(byId("time-about"), "since its start");
    return connection("good", "live");
  }
  const still = run.phase !== "running";
  say(byId("time"), clock(state.now_ns, still));
  const until = run.until_ns === null ? "" : ` of ${clock(run.until_ns).replace(/\.000/, "")}`;
  say(byId("time-about"), `virtual${until}, seed ${run.seed}`);
  const words = { running: "running", paused: "paused", ended: "ended" }[run.phase];
  const broken = run.broken.length ? `, ${run.broken.length} broken` : "";
  connection(broken ? "bad" : still ? "still" : "good", words + broken);
}

function controls(state) {
  const run = state.run;
  byId("controls").hidden = !run;
  if (!run) return;
  const running = run.phase === "running";
  const ended = run.phase === "ended";
  say(byId("pause-sign"), running ? "❚❚" : "▶");
  say(byId("pause-text"), running ? "Pause" : "Run");
  for (const id of ["pause", "step-event", "step-ms"]) byId(id).disabled = ended;
  const wanted = run.speed === null ? "max" : String(run.speed);
  const box = byId("speed");
  const values = [...SPEEDS.map(String), ...(SPEEDS.map(String).includes(wanted) || wanted === "max" ? [] : [wanted]), "max"];
  if (box.options.length !== values.length) {
    box.replaceChildren(...values.map((v) => make("option", { value: v }, v === "max" ? "as fast as can be" : `${v} ×`)));
  }
  if (document.activeElement !== box && box.value !== wanted) box.value = wanted;
  const next = run.next_ns === null ? "nothing more is due" : `next event in ${span(Math.max(0, run.next_ns - state.now_ns))}`;
  const behind = running && run.speed !== null && run.pace > 0 && run.pace < 0.8 * run.speed ? ": this machine can no more" : "";
  say(byId("pace"), running ? `${run.pace >= 0.0995 ? run.pace.toFixed(2) : run.pace.toPrecision(2)} virtual s per s${behind} · ${count(run.events)} events` : `${count(run.events)} events · ${ended ? "the run is over" : next}`);
}

function charts(state) {
  const pick = byId("traffic-link");
  keyed(pick, state.links, (l) => l.name, (l) => make("option", { value: l.name }, l.name), () => {});
  const chosen = selection.id?.startsWith("link ") ? selection.id.slice(5) : null;
  watched = chosen ?? (state.links.some((l) => l.name === watched) ? watched : model.busiest());
  if (watched !== null && document.activeElement !== pick && pick.value !== watched) pick.value = watched;
  const link = state.links.find((l) => l.name === watched);
  if (link) {
    const names = [`to ${link.ends[1].node}`, `to ${link.ends[0].node}`];
    traffic.update([0, 1].map((way) => model.series(`link|${link.name}|${way}|octets`)), names);
  }
  losses.update([model.series("dropped"), model.series("lost")], ["dropped by nodes", "lost on links"]);
}

function lists(state) {
  const dropped = state.drops.reduce((sum, d) => sum + d.packets, 0);
  say(byId("drops-total"), dropped ? `${count(dropped)} packets` : "");
  tables.drops(byId("drops-list"), model);
  tables.associations(byId("sas-table"), model);
  const sides = new Set(state.sas.map((s) => s.node)).size;
  say(byId("sas-about"), state.sas.length ? `${state.sas.length} at ${sides} node${sides === 1 ? "" : "s"}` : "");
  byId("flows").hidden = state.flows.length === 0;
  if (state.flows.length) tables.flows(byId("flows-table"), model);
  tables.ports(byId("ports-table"), model);
  const wires = state.links.filter((l) => l.kind === "wire").length;
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  say(byId("network-about"), `${many(state.nodes.filter((n) => n.kind === "node").length, "node")}, ${many(wires, "link")}`);
  measured(state);
  happened(state);
}

const histogramKey = (h) => `${h.name}: ${h.of}`;

function measured(state) {
  const pick = byId("histogram-pick");
  byId("histograms").hidden = state.histograms.length === 0;
  if (state.histograms.length === 0) return;
  keyed(pick, state.histograms, histogramKey, (h) => make("option", { value: histogramKey(h) }, histogramKey(h)), () => {});
  const data = state.histograms.find((h) => histogramKey(h) === pick.value) ?? state.histograms[0];
  const units = { ns: span, octets: (v) => `${count(v)} B` };
  histogram(byId("histogram"), data, units[data.unit] ?? count, count, share);
}

function share(part, whole) {
  return whole ? `${((100 * part) / whole).toFixed(1)} %` : "–";
}

function happened(state) {
  const list = byId("events-list");
  const latest = [...state.events].reverse().slice(0, 100);
  const broken = (state.run?.broken ?? []).map((text) => ({ number: "broken", at_ns: null, text, broken: true }));
  latest.unshift(...broken);
  byId("events").hidden = latest.length === 0;
  const row = () => make("li", {}, make("time", {}), make("span", {}));
  keyed(list, latest, (e) => `${e.number} ${e.text}`, row, (li, e) => {
    say(li.children[0], e.at_ns === null ? "" : clock(e.at_ns, true));
    say(li.children[1], e.text);
    li.classList.toggle("bad", Boolean(e.broken));
  });
}

// ---- doing

function select(id) {
  selection.id = selection.id === id ? null : id;
  if (model.state) {
    topology.update(model, selection.id);
    selection.update(model);
    charts(model.state);
  }
}

function step(by) {
  if (!model.state) return;
  const id = selection.step(model.state, by);
  if (id && id !== selection.id) select(id);
  if (id) topology.rove(id, false);
}

const phase = () => model.state?.run?.phase;
const isLab = () => Boolean(model.state?.run);

// What was asked for is taken for true until the answer comes, so that a key that is
// pressed twice means two different things, however slow the answer is.

function pause() {
  const { run } = model.state ?? {};
  if (run?.phase === "running") {
    run.phase = "paused";
    give({ command: "pause" }, "Time stands still");
  } else if (run?.phase === "paused") {
    run.phase = "running";
    give({ command: "resume" }, "Time passes");
  }
}

const stepBy = (by, words) => phase() !== "ended" && give({ command: "step", by }, words);

function speed(value) {
  model.state.run.speed = value === "max" ? null : Number(value);
  const pace = value === "max" ? "unbounded" : { times: Number(value) };
  give({ command: "speed", pace }, value === "max" ? "As fast as the machine can" : `${value} virtual seconds in a second`);
}

function speedBy(by) {
  const now = model.state?.run?.speed;
  if (now === undefined) return;
  const all = [...SPEEDS, Infinity];
  const at = now === null ? all.length - 1 : by > 0 ? all.findLastIndex((s) => s <= now) : all.findIndex((s) => s >= now);
  const next = all[Math.max(0, Math.min(all.length - 1, at + by))];
  speed(next === Infinity ? "max" : String(next));
}

const THEMES = { "": ["◐", "Colours: as the system's"], light: ["☀", "Colours: light"], dark: ["☾", "Colours: dark"] };

function theme(next) {
  const names = Object.keys(THEMES);
  const now = next ?? names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length];
  if (now) document.documentElement.dataset.theme = now;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("ferrule-theme", now);
  say(byId("theme"), THEMES[now][0]);
  set(byId("theme"), "aria-label", THEMES[now][1]);
}

const takes = (command) => Boolean(model.state?.commands.includes(command));
const isLink = () => takes("link") && Boolean(selection.id?.startsWith("link "));
const isNode = () => takes("restart") && Boolean(selection.id?.startsWith("node "));
const keys = new Keys([
  [" ", "pause, or run on", pause, isLab],
  ["n", "step: one event", () => stepBy("event", "One event"), isLab],
  ["m", "step: one millisecond", () => stepBy("millisecond", "One millisecond"), isLab],
  ["+", "faster", () => speedBy(1), isLab],
  ["-", "slower", () => speedBy(-1), isLab],
  ["[", "the previous node or link", () => step(-1)],
  ["]", "the next node or link", () => step(1)],
  ["d", "take the selected link down, or bring it up", () => isLink() && selection.toggle(), () => takes("link")],
  ["r", "restart the selected node, as after kill -9", () => isNode() && selection.restart(), () => takes("restart")],
  ["t", "colours: as the system's, light, dark", () => theme()],
  ["?", "this list", () => byId("help").showModal()],
]);

byId("pause").addEventListener("click", pause);
byId("step-event").addEventListener("click", () => stepBy("event", "One event"));
byId("step-ms").addEventListener("click", () => stepBy("millisecond", "One millisecond"));
byId("slower").addEventListener("click", () => speedBy(-1));
byId("faster").addEventListener("click", () => speedBy(1));
byId("speed").addEventListener("change", (event) => speed(event.target.value));
byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("theme").addEventListener("click", () => theme());
byId("help-open").addEventListener("click", () => byId("help").showModal());
byId("histogram-pick").addEventListener("change", () => model.state && measured(model.state));
byId("traffic-link").addEventListener("change", (event) => {
  watched = event.target.value;
  selection.id = `link ${watched}`;
  if (model.state) {
    topology.update(model, selection.id);
    selection.update(model);
    charts(model.state);
  }
});
theme(localStorage.getItem("ferrule-theme") ?? "");
poll();
