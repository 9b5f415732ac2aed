// Single keys, and the list of them. They can be switched off, since a person
// who speaks to the machine sends letters by accident.

import { byId, make } from "./dom.js";

export class Keys {
  /** `all`: [key, words, action, when]. */
  constructor(all) {
    this.all = all;
    const switched = byId("keys-on");
    switched.checked = localStorage.getItem("ferrule-keys") !== "off";
    switched.addEventListener("change", () => localStorage.setItem("ferrule-keys", switched.checked ? "on" : "off"));
    this.on = () => switched.checked;
    document.addEventListener("keydown", (event) => this.press(event));
    this.list();
  }

  list() {
    const rows = this.all.filter(([, , , when]) => !when || when());
    const name = (key) => (key === " " ? "Space" : key.toUpperCase());
    byId("keys").replaceChildren(...rows.flatMap(([key, words]) => [make("dt", {}, make("kbd", {}, name(key))), make("dd", {}, words)]));
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !this.on()) return;
    const target = event.target;
    if (document.querySelector("dialog[open]") || target.closest?.("input, select, textarea")) return;
    // On a button the space bar is the button's.
    if (event.key === " " && target.closest?.("button, a, summary, [role=button]")) return;
    const found = this.all.find(([key]) => key === event.key.toLowerCase());
    if (!found || (found[3] && !found[3]())) return;
    event.preventDefault();
    found[2]();
  }
}
