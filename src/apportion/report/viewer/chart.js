// The bars above a transcript: which step, turn or agent got the credit, one row for each method.

const STEPWISE = 26; // columns wide enough for a number on each
const LONG_CHART = 150; // columns beyond which a narrow window scrolls

function drawCharts(t) {
  const others = D.credits.map((_, c) => c).filter((c) => c !== now.credit && has(t, c));
  const parts = now.part === STACKED && credit().parts.length > 0;
  return [
    chart(t, now.credit, false),
    ...others.map((c) => chart(t, c, true)),
    ticks(t),
    parts ? legend() : null,
  ];
}

/** Heights in pixels: zero stands where both signs have room, and the largest credit of the scale fills the chart. */
function room(most, up, down, height, label) {
  const above = Math.max(0.16, up / most), below = Math.max(0.16, down / most);
  const unit = (height - 2 * label) / Math.max(1, above + below);
  const slack = height - 2 * label - unit * (above + below);
  return { zero: label + unit * above + slack * (above / (above + below)), size: (x) => (Math.abs(x ?? 0) / most) * unit };
}

function chart(t, c, less) {
  const stacked = !less && now.part === STACKED && D.credits[c].parts.length > 0 && pageOf(t);
  const part = less || stacked ? -1 : now.part;
  const list = spans(t, c, part);
  const layers = stacked ? D.credits[c].parts.map((_, p) => spans(t, c, p).map((span) => span.value)) : null;
  const stack = (i, way) => layers.reduce((sum, layer) => sum + Math.max(0, way * (layer[i] ?? 0)), 0);
  const ups = list.map(({ value }, i) => (stacked ? stack(i, 1) : Math.max(0, value ?? 0)));
  const downs = list.map(({ value }, i) => (stacked ? stack(i, -1) : Math.max(0, -(value ?? 0))));
  const most = Math.max(scale(c), largest(ups), largest(downs));
  const space = room(most, largest(ups), largest(downs), less ? 40 : 104, less ? 2 : 16);
  const sizes = list.map(({ value }) => Math.abs(value ?? 0));
  const peak = largest(sizes) > 0 ? sizes.indexOf(largest(sizes)) : -1;
  const flat = new Set(list.map(({ value }) => value)).size === 1 && list.length > 1;
  const { label, parts } = D.credits[c];
  const column = (span, i) => {
    const says = !less && (list.length <= STEPWISE || i === peak);
    return h("button", {
      class: "column", type: "button", tabindex: "-1", data: { steps: span.steps.join(" ") }, title: `${span.name}: ${signed(span.value)}`,
      "aria-label": `${span.name}, credit ${signed(span.value)}`, on: { click: () => go({ s: span.steps[0] }) },
    },
    h("span", { class: "zero" }),
    ...(stacked ? pile(layers.map((layer) => layer[i]), span.value, space) : [bar(span.value, space)]),
    says ? figure(span.value, i === peak && !flat, { size: stacked ? space.size(span.value < 0 ? downs[i] : ups[i]) : space.size(span.value) }) : null);
  };
  return h("div", { class: "chart", data: { credit: c } },
    h("div", { class: "label", title: label },
      less ? h("button", { class: "link", type: "button", title: "show this method", on: { click: () => go({ credit: c }) } }, label) : h("b", null, label),
      part >= 0 ? " · " + parts[part] : null),
    h("div", { class: "columns" + (less ? " less" : "") + (list.length > LONG_CHART ? " long" : ""), role: "group", "aria-label": `Credit of each ${now.by} by ${label}`, css: { "--zero-at": space.zero.toFixed(1) + "px" } },
      ...list.map(column)));
}

function bar(value, space) {
  if (value === 0) return null;
  return h("span", { class: "bar " + (value === null ? "none" : value < 0 ? "neg" : "pos"), css: { "--size": space.size(value).toFixed(1) + "px" } });
}

/** Parts on top of each other, credit upwards and blame downwards; a line where their sum is. */
function pile(layers, sum, space) {
  if (sum === null) return [bar(null, space)];
  let up = 0, down = 0;
  const blocks = layers.map((x, p) => {
    if (!x) return null;
    const size = space.size(x);
    const from = x > 0 ? (up += size) : down;
    if (x < 0) down += size;
    return h("span", { class: x > 0 ? "block up" : "block down", data: { part: p % 6 }, css: { "--from": from.toFixed(1) + "px", "--size": size.toFixed(1) + "px" } });
  });
  const at = (sum < 0 ? 1 : -1) * space.size(sum);
  return [...blocks, h("span", { class: "net", css: { "--at": at.toFixed(1) + "px" } })];
}

function figure(value, peak, { size }) {
  const side = value !== null && value < 0 ? "neg" : "pos";
  return h("span", { class: `value ${side}${peak ? " peak" : ""}`, css: { "--size": size.toFixed(1) + "px" } }, signed(value));
}

/** Numbers of the steps; a dot where a reward arrived. */
function ticks(t) {
  const list = spans(t);
  const n = list.length;
  const every = n <= STEPWISE ? 1 : n <= 80 ? 5 : n <= 200 ? 10 : 50;
  const steps = pageOf(t) ? detailOf(t).steps : [];
  const paid = (span) => span.steps.some((s) => steps[s] && steps[s].reward);
  return h("div", { class: "chart", "aria-hidden": "true" }, h("div", { class: "label" }, n === stepsOf(t) ? "step" : now.by),
    h("div", { class: "ticks" }, ...list.map((span, i) => h("span", { class: paid(span) ? "paid" : null, title: paid(span) ? "a reward arrived here" : span.name },
      (paid(span) ? "●" : "") + (n <= STEPWISE || (!paid(span) && i % every === 0) ? " " + span.short : "")))));
}

const legend = () => h("div", { class: "chart" }, h("div", { class: "label" }, "parts"),
  h("div", { class: "legend" }, ...credit().parts.map((name, p) => h("span", null, h("i", { class: "key", data: { part: p % 6 } }), name)),
    h("span", null, h("i", { class: "key net" }), "their sum")));
