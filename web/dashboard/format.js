// Numbers as people read them. Everything here takes a number and gives text.

const THIN = "\u202f";

function grouped(text) {
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

/** 1234567 -> "1 234 567"; above 2^53 the exact digits are not known. */
export function count(n) {
  if (n === null || n === undefined) return "–";
  if (n >= 2 ** 53) return n >= 2 ** 63 ? "2⁶⁴ − 1" : n.toExponential(3);
  return grouped(String(Math.round(n)));
}

const PREFIXES = ["", "k", "M", "G", "T", "P"];

/** Three significant digits with a prefix: 12345 -> "12.3 k". */
export function short(n, unit = "") {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  if (n === 0) return "0" + (unit ? THIN + unit : "");
  let value = Math.abs(n);
  let step = 0;
  while (value >= 999.5 && step < PREFIXES.length - 1) {
    value /= 1000;
    step += 1;
  }
  const digits = value >= 99.95 || (step === 0 && Number.isInteger(value)) ? 0 : value >= 9.995 ? 1 : 2;
  const tail = PREFIXES[step] + unit;
  return (n < 0 ? "−" : "") + value.toFixed(digits) + (tail ? THIN + tail : "");
}

export const bits = (perSecond) => short(perSecond, "bit/s");

/** Bits per second, short enough for a link in a drawing. */
export function tight(perSecond) {
  return perSecond === 0 ? "0" : short(perSecond, "b/s");
}

/** Nanoseconds as a length of time. */
export function span(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 1e3) return `${Math.round(ns)}${THIN}ns`;
  for (const [unit, size] of [["µs", 1e3], ["ms", 1e6], ["s", 1e9]]) {
    if (ns < size * 999.5 || unit === "s") return short(ns / size) + THIN + unit;
  }
  return "";
}

/** A point in time, in seconds; all digits when somebody steps through it. */
export function clock(ns, exact) {
  const seconds = Math.floor(ns / 1e9);
  const rest = String(ns % 1e9).padStart(9, "0");
  const digits = exact ? rest.replace(/(\d{3})(?=\d)/g, `$1${THIN}`) : rest.slice(0, 3);
  return `${grouped(String(seconds))}.${digits}${THIN}s`;
}

/** How long a live node has run. */
export function uptime(ns) {
  let seconds = Math.floor(ns / 1e9);
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= size || parts.length) parts.push(`${Math.floor(seconds / size)}${THIN}${unit}`);
    seconds %= size;
  }
  parts.push(`${seconds}${THIN}s`);
  return parts.join(" ");
}

export function share(part, whole) {
  if (!whole) return "–";
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 0.01) return `< 0.01${THIN}%`;
  return `${percent < 10 ? percent.toFixed(2) : percent.toFixed(1)}${THIN}%`;
}
