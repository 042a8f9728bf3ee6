// Tables whose columns sort, and that hold only so many rows at once.

/**
 * Columns are {name, value(row), cell(row)?, num?, wide?, title?}.
 * go(row): what a click on a row does; here(row): whether it is the one shown; most: rows at once.
 */
function table(columns, rows, { go, here, start, most = Infinity, label } = {}) {
  let order = start || null;
  let room = most;
  const body = h("tbody");
  const more = h("button", { class: "more", type: "button", on: { click: () => { room += most; show(); } } });
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
    body.replaceChildren(...sorted.slice(0, room).map(line));
    more.hidden = sorted.length <= room;
    more.textContent = `show ${Math.min(most, sorted.length - room)} more of ${sorted.length.toLocaleString("en")}`;
  }
  function line(row) {
    const act = go ? { click: () => go(row), keydown: (event) => { if (event.key === "Enter" && event.target === event.currentTarget) go(row); } } : null;
    return h("tr", { class: [go && "go", here && here(row) && "here"].filter(Boolean).join(" ") || null, tabindex: go ? "0" : null, on: act },
      ...columns.map((column) => h("td", { class: [column.num && "num", column.wide && "wide"].filter(Boolean).join(" ") || null },
        column.cell ? column.cell(row) : column.value(row))));
  }
  show();
  const whole = h("table", { "aria-label": label }, h("thead", null, h("tr", null, ...heads)), body);
  return most === Infinity ? whole : h("div", null, whole, more);
}

/** Numbers by size, texts by letters, missing values last in both directions. */
function compare(a, b, way) {
  const none = (x) => x === null || x === undefined;
  if (none(a) || none(b)) return none(a) - none(b);
  return way * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
}

/** A table of names and figures, for the text alternative of a picture. */
const plainTable = (names, rows) => h("table", { class: "plain-table" }, h("thead", null, h("tr", null, ...names.map((name) => h("th", { scope: "col" }, name)))),
  h("tbody", null, ...rows.map((row) => h("tr", null, ...row.map((cell, i) => h("td", { class: i ? "num" : null }, cell))))));
