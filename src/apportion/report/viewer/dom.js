// Elements, numbers and colours. Text enters the page as text nodes only; there is no way to pass markup in.

const SVG = "http://www.w3.org/2000/svg";
const ATTRIBUTES = new Set(["id", "class", "title", "role", "type", "value", "tabindex", "dir", "lang", "for", "alt",
  "hidden", "scope", "colspan", "viewBox", "preserveAspectRatio", "d", "x1", "x2", "y1", "y2", "x", "y", "width", "height"]);

/** Half a surrogate pair, as cut-off output has it, shown as �; everything else stays as it is. */
const whole = (words) => (words.toWellFormed ? words.toWellFormed() : words);

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "data") for (const [key, item] of Object.entries(value)) { if (item !== null && item !== undefined) element.dataset[key] = item; }
    else if (name === "css") for (const [key, item] of Object.entries(value)) element.style.setProperty(key, item);
    else if (name === "href") element.setAttribute("href", "#" + String(value));
    else if (name.startsWith("aria-") || ATTRIBUTES.has(name)) element.setAttribute(name, value === true ? "" : whole(String(value)));
    else throw new Error("no such property: " + name);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(whole(String(child))));
  }
  return element;
}

const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
const byId = (id) => document.getElementById(id);

/** "+0.42", "−1.3", "0": the sign is always written, because it carries the meaning. */
function signed(x) {
  if (x === null || x === undefined) return "?";
  const size = plain(Math.abs(x));
  if (x === 0) return "0";
  return (x > 0 ? "+" : "−") + size;
}

function plain(x) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  const sign = x < 0 ? "−" : "";
  if (size === 0) return "0";
  if (size >= 1e5 || size < 5e-4) return sign + size.toExponential(1).replace("e-", "e−").replace("e+", "e");
  if (size >= 100) return sign + size.toFixed(0);
  if (size >= 10) return sign + size.toFixed(1);
  return sign + size.toFixed(size < 0.0995 ? 3 : 2);
}

/** As short as it can be said: 1, 0.5, 0.67. */
function brief(x) {
  if (x === null || x === undefined) return "–";
  return Number.isInteger(x) ? (x < 0 ? "−" : "") + Math.abs(x).toLocaleString("en") : plain(x);
}

const plural = (n, word) => `${n.toLocaleString("en")} ${n === 1 ? word : word.endsWith("y") ? word.slice(0, -1) + "ies" : word + "s"}`;
const signOf = (x) => (x === null || x === undefined ? "?" : x > 0 ? "+" : x < 0 ? "-" : "0");

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
  const bar = x ? h("i", { class: x > 0 ? "pos" : "neg", css: { "--size": size } }) : null;
  return h("span", { class: "meter", "aria-hidden": "true" }, bar);
}

/** One line of a text, short enough for a preview. */
function preview(text, most = 300) {
  const head = text.slice(0, most * 2).replace(/\s+/g, " ").trim();
  return head.length > most ? head.slice(0, most) + "…" : head;
}

const LONG = 20000;

/** A block of text; a very long one is cut with a button that shows the rest. */
function textBlock(text) {
  const block = h("pre", { class: "text", dir: "auto" });
  if (text.length <= LONG) { block.textContent = text; return block; }
  block.textContent = text.slice(0, LONG);
  const rest = h("button", { class: "more", type: "button", on: { click: () => { block.textContent = text; rest.remove(); } } },
    `show the other ${(text.length - LONG).toLocaleString("en")} characters`);
  return h("div", null, block, rest);
}

/** A table whose columns sort; columns are {name, value(row), cell(row)?, num?, wide?, title?}. */
function table(columns, rows, { go, here, start } = {}) {
  let order = start || null;
  const body = h("tbody");
  const heads = columns.map((column, c) => h("th", { class: column.num ? "num" : null, scope: "col", title: column.title, "aria-sort": "none" },
    column.value ? h("button", { type: "button", on: { click: () => sortBy(c) } }, column.name) : column.name));
  function sortBy(c) {
    order = order && order.column === c ? { column: c, down: !order.down } : { column: c, down: Boolean(columns[c].num) };
    show();
  }
  function show() {
    const sorted = rows.slice();
    if (order) {
      const { value } = columns[order.column];
      const way = order.down ? -1 : 1;
      sorted.sort((a, b) => compare(value(a), value(b), way));
    }
    heads.forEach((head, c) => {
      const on = order && order.column === c;
      head.setAttribute("aria-sort", on ? (order.down ? "descending" : "ascending") : "none");
      const button = head.querySelector("button");
      if (button) button.textContent = columns[c].name + (on ? (order.down ? " ↓" : " ↑") : "");
    });
    body.replaceChildren(...sorted.map((row) => h("tr", { class: [go && "go", here && here(row) && "here"].filter(Boolean).join(" ") || null,
      on: go ? { click: () => go(row) } : null },
      ...columns.map((column) => h("td", { class: [column.num && "num", column.wide && "wide"].filter(Boolean).join(" ") || null },
        column.cell ? column.cell(row) : column.value(row))))));
  }
  show();
  return h("table", null, h("thead", null, h("tr", null, ...heads)), body);
}

/** Numbers by size, texts by letters, missing values last in both directions. */
function compare(a, b, way) {
  const none = (x) => x === null || x === undefined;
  if (none(a) || none(b)) return none(a) - none(b);
  return way * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
}
