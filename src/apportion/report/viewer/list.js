// The list of trajectories. Only the rows in sight are elements, so a thousand rollouts cost what twenty do.

const ROW = 50, GROUP = 30, SPARE = 6;
const SORTS = {
  group: ["by group", null],
  high: ["most credit", (t) => -(extremes()[t].high ?? -Infinity)],
  low: ["most blame", (t) => extremes()[t].low ?? Infinity],
  outcome: ["best outcome", (t) => -(D.trajectories[t].outcome ?? -Infinity)],
  worst: ["worst outcome", (t) => D.trajectories[t].outcome ?? Infinity],
  long: ["longest", (t) => -D.trajectories[t].steps.length],
};

let shown = []; // trajectories in order
let items = []; // rows and group headings with their place
let total = 0;

function matching() {
  const query = now.filter.trim().toLowerCase();
  const here = D.trajectories.map((_, t) => t).filter((t) => has(t));
  if (!query) return here;
  const hits = new Set();
  D.texts.forEach((item, i) => { if (item.toLowerCase().includes(query)) hits.add(i); });
  return here.filter((t) => {
    const trajectory = D.trajectories[t];
    return trajectory.id.toLowerCase().includes(query) || groupName(t).toLowerCase().includes(query)
      || trajectory.steps.some((step) => hits.has(step.action) || hits.has(step.context));
  });
}

function arrange() {
  shown = matching();
  const key = SORTS[now.sort][1];
  if (key) {
    const keys = new Map(shown.map((t) => [t, key(t)]));
    shown.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
  } else shown.sort((a, b) => D.trajectories[a].group - D.trajectories[b].group || a - b);
  items = [];
  total = 0;
  let group = -1;
  for (const t of shown) {
    if (!key && D.trajectories[t].group !== group) {
      group = D.trajectories[t].group;
      items.push({ top: total, group });
      total += GROUP;
    }
    items.push({ top: total, t });
    total += ROW;
  }
  byId("rows").style.height = total + "px";
  const all = D.trajectories.filter((_, t) => has(t)).length;
  byId("count").textContent = shown.length === all ? plural(all, "trajectory") : `${shown.length.toLocaleString("en")} of ${all.toLocaleString("en")} trajectories`;
  drawList();
}

function drawList() {
  const list = byId("list");
  const top = list.scrollTop - SPARE * ROW, bottom = list.scrollTop + list.clientHeight + SPARE * ROW;
  let low = 0, high = items.length;
  while (low < high) { const mid = (low + high) >> 1; if (items[mid].top < top) low = mid + 1; else high = mid; }
  const visible = [];
  for (let i = low; i < items.length && items[i].top < bottom; i++) visible.push(items[i]);
  byId("rows").replaceChildren(...visible.map((item) => (item.group !== undefined ? groupRow(item) : row(item))));
}

function groupRow({ top, group }) {
  const { name, members, mean } = D.groups[group];
  return h("div", { class: "group-row", css: { top: top + "px" } },
    h("b", { class: "one-line", dir: "auto", title: name }, name),
    h("span", { class: "num" }, `${members.length} · mean ${brief(mean)}`));
}

function row({ top, t }) {
  const { id, outcome, steps } = D.trajectories[t];
  const { high, low } = extremes()[t];
  return h("button", {
    class: "row", type: "button", tabindex: "-1", css: { top: top + "px" }, "aria-current": t === now.t ? "true" : null,
    "aria-label": `${id}, outcome ${brief(outcome)}, ${steps.length} steps, credit from ${signed(low)} to ${signed(high)}`,
    on: { click: () => go({ t, s: strongest(t) }) },
  },
  h("span", { class: "name one-line", dir: "auto" }, id),
  h("span", { class: outcome === null ? "chip warn" : "chip" }, outcome === null ? "not scored" : brief(outcome)),
  spark(values(t), scale()));
}

/** Small bars up and down, one per step, in two paths. */
function spark(list, most) {
  const width = 280, height = 18, mid = height / 2;
  const step = width / Math.max(list.length, 8);
  const gap = step > 4 ? 1.5 : 0;
  let up = "", down = "", none = "";
  list.forEach((x, i) => {
    const left = (i * step).toFixed(1), wide = Math.min(step - gap, 18).toFixed(1);
    if (x === null) { none += `M${left} ${mid - 2}h${wide}v4h-${wide}z`; return; }
    const size = (Math.min(1, Math.abs(x) / most) * (mid - 0.5)).toFixed(1);
    if (x > 0) up += `M${left} ${mid}h${wide}v-${size}h-${wide}z`;
    else if (x < 0) down += `M${left} ${mid}h${wide}v${size}h-${wide}z`;
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "bar-axis", d: `M0 ${mid}h${Math.min(width, list.length * step).toFixed(1)}` }),
    up ? svg("path", { class: "bar-pos", d: up }) : null,
    down ? svg("path", { class: "bar-neg", d: down }) : null,
    none ? svg("path", { class: "bar-unknown", d: none }) : null);
}

/** The step with the most credit or blame: where to look first. */
function strongest(t) {
  let best = 0, size = -1;
  values(t).forEach((x, s) => { if (x !== null && Math.abs(x) > size) { best = s; size = Math.abs(x); } });
  return best;
}

function keepInSight() {
  const item = items.find((candidate) => candidate.t === now.t);
  const list = byId("list");
  if (!item) return;
  if (item.top < list.scrollTop + GROUP) list.scrollTop = Math.max(0, item.top - GROUP);
  else if (item.top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = item.top + ROW - list.clientHeight;
}

function setUpList() {
  byId("sort").append(...Object.entries(SORTS).map(([name, [label]]) => h("option", { value: name }, label)));
  byId("sort").value = now.sort;
  byId("sort").addEventListener("change", (event) => { now.sort = event.target.value; arrange(); keepInSight(); drawList(); });
  let timer = 0;
  byId("filter").addEventListener("input", (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => { now.filter = event.target.value; arrange(); byId("list").scrollTop = 0; drawList(); }, 120);
  });
  let frame = 0;
  byId("list").addEventListener("scroll", () => {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; drawList(); });
  }, { passive: true });
  new ResizeObserver(() => drawList()).observe(byId("list"));
}
