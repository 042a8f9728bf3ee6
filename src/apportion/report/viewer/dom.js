// Elements. Text enters the page as text nodes only; there is no way to pass markup in.

const SVG = "http://www.w3.org/2000/svg";
const ATTRIBUTES = new Set(("id class title role type value tabindex dir lang for alt hidden scope colspan placeholder viewBox "
  + "preserveAspectRatio d x1 x2 y1 y2 x y rx cx cy r width height transform text-anchor marker-end").split(" "));

// What a browser would obey or hide instead of showing: controls, marks that turn the direction of text around,
// separators of lines that are none, and halves of surrogate pairs. Line breaks and tabs stay.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

const sign = (mark) => {
  const code = mark.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
};

/** A text with everything written out that cannot be seen: ESC as ␛, a direction mark as ⟨U+202E⟩. */
function visible(words) {
  const whole = words.toWellFormed ? words.toWellFormed() : words;
  return whole.replace(/\r\n/g, "\n").replace(UNSEEN, sign);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "data") { for (const [key, item] of Object.entries(value)) if (item !== null && item !== undefined) element.dataset[key] = item; }
    else if (name === "css") for (const [key, item] of Object.entries(value)) element.style.setProperty(key, item);
    else if (name.startsWith("aria-") || ATTRIBUTES.has(name)) element.setAttribute(name, value === true ? "" : visible(String(value)));
    else throw new Error("no such property: " + name);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
  return element;
}

const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
const byId = (id) => document.getElementById(id);

/** A choice; the keys of options are numbers or words. */
function picker(label, options, value, change) {
  const select = h("select", { "aria-label": label, on: { change: (event) => { change(event.target.value); event.target.blur(); } } },
    ...options.map(([key, name]) => h("option", { value: key }, preview(name, 60))));
  select.value = String(value);
  return h("label", null, label, select);
}

/** One line of a text, short enough for a preview. */
function preview(text, most = 300) {
  const head = text.slice(0, most * 2).replace(/\s+/g, " ").trim();
  return head.length > most ? head.slice(0, most) + "…" : head;
}

const LONG = 20000;

/** A block of text; a very long one is cut with a button that shows the rest. */
function textBlock(text) {
  const block = h("pre", { class: "text", dir: "auto" }, text.slice(0, LONG));
  if (text.length <= LONG) return block;
  const rest = h("button", { class: "more", type: "button", on: { click: () => { block.replaceChildren(visible(text)); rest.remove(); } } },
    `show the other ${(text.length - LONG).toLocaleString("en")} characters`);
  return h("div", null, block, rest);
}
