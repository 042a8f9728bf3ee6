// Numbers as people read them, and numbers as colour: blue is credit, orange is blame, hatched is unknown.

/** "+0.42", "−1.3", "0": the sign is always written, because it carries the meaning. */
function signed(x) {
  if (x === null || x === undefined) return "?";
  if (x === 0) return "0";
  return (x > 0 ? "+" : "−") + plain(Math.abs(x));
}

function plain(x) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  const minus = x < 0 ? "−" : "";
  if (size === 0) return "0";
  if (size >= 1e5 || size < 5e-4) return minus + size.toExponential(1).replace("e-", "e−").replace("e+", "e");
  if (size >= 100) return minus + size.toFixed(0);
  if (size >= 10) return minus + size.toFixed(1);
  return minus + size.toFixed(size < 0.0995 ? 3 : 2);
}

/** As short as it can be said: 1, 0.5, 0.67. */
function brief(x) {
  if (x === null || x === undefined) return "–";
  return Number.isInteger(x) ? (x < 0 ? "−" : "") + Math.abs(x).toLocaleString("en") : plain(x);
}

const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(part === whole || !part ? 0 : 1) + "%" : "–");
const plural = (n, word) => `${n.toLocaleString("en")} ${n === 1 ? word : word.endsWith("y") ? word.slice(0, -1) + "ies" : word + "s"}`;
const signOf = (x) => (x === null || x === undefined ? "?" : x > 0 ? "+" : x < 0 ? "-" : "0");
const known = (list) => list.filter((x) => x !== null && x !== undefined);
const average = (list) => (list.length ? list.reduce((a, b) => a + b, 0) / list.length : null);
const largest = (list) => list.reduce((most, x) => Math.max(most, Math.abs(x ?? 0)), 0);

/** Mark an element with the sign and strength of a credit; the style sheet turns that into colour. */
function paint(element, x, scale) {
  const k = x === null || x === undefined ? 0 : Math.min(1, Math.abs(x) / scale);
  element.dataset.sign = signOf(x);
  element.style.setProperty("--k", k.toFixed(3));
  if (k > 0.55) element.dataset.deep = k > 0.85 ? "full" : "half"; // where the colour wants the other colour of text
  return element;
}

const pill = (x, scale, properties) => paint(h("span", { class: "pill", ...properties }, signed(x)), x, scale);

/** A bar to the right for credit, to the left for blame. */
function meter(x, scale) {
  const size = Math.min(1, Math.abs(x || 0) / scale).toFixed(3);
  return h("span", { class: "meter", "aria-hidden": "true" }, x ? h("i", { class: x > 0 ? "pos" : "neg", css: { "--size": size } }) : null);
}
