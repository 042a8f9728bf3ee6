// The list of trajectories. Only the rows in sight are elements, so a thousand rollouts cost what twenty do.

const ROW = 50, GROUP = 30, SPARE = 6;
const SORTS = {
  group: ["by group", null],
  high: ["most credit", (t) => -(extremes()[t].high ?? -Infinity)],
  low: ["most blame", (t) => extremes()[t].low ?? Infinity],
  trust: ["best supported", (t) => -trustOf(t)],
  outcome: ["best outcome", (t) => -(D.trajectories[t].outcome ?? -Infinity)],
  worst: ["worst outcome", (t) => D.trajectories[t].outcome ?? Infinity],
  long: ["longest", (t) => -stepsOf(t)],
};

let shown = []; // trajectories in order
let items = []; // rows and group headings with their place
let found = null; // trajectories whose texts hold the filter; null where there is none

function matching() {
  const query = now.filter.trim().toLowerCase();
  if (!query) return mine();
  return mine().filter((t) => D.trajectories[t].id.toLowerCase().includes(query) || groupOf(t).name.toLowerCase().includes(query) || (found && found.has(t)));
}

function arrange() {
  shown = matching();
  const key = SORTS[now.sort][1];
  if (key) {
    const keys = new Map(shown.map((t) => [t, key(t)]));
    shown.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
  } else shown.sort((a, b) => D.trajectories[a].group - D.trajectories[b].group || a - b);
  items = [];
  let total = 0, group = -1;
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
  const all = mine().length;
  byId("count").textContent = shown.length === all ? plural(all, "trajectory") : `${shown.length.toLocaleString("en")} of ${plural(all, "trajectory")}`;
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
  const { id, outcome } = D.trajectories[t];
  const { high, low } = extremes()[t];
  return h("button", {
    class: "row", type: "button", tabindex: "-1", css: { top: top + "px" }, "aria-current": t === now.t ? "true" : null,
    "aria-label": `${id}, outcome ${brief(outcome)}, ${plural(stepsOf(t), "step")}, credit from ${signed(low)} to ${signed(high)}, ${TRUST[trustOf(t)][1]}`,
    on: { click: () => go({ t, s: strongest(t) }) },
  },
  h("span", { class: "name one-line", dir: "auto" }, id),
  h("span", { class: outcome === null ? "chip warn" : "chip" }, outcome === null ? "not scored" : brief(outcome)),
  spark(values(t, now.credit, -1), scale(), D.trajectories[t].verdict[now.credit]));
}

/** Small bars up and down, one per step; a mark under the one that the verdict names. */
function spark(list, most, [step, trust]) {
  const width = 280, height = 18, mid = 8;
  const wide = width / Math.max(list.length, 8);
  const gap = wide > 4 ? 1.5 : 0;
  let up = "", down = "", none = "";
  list.forEach((x, i) => {
    const left = (i * wide).toFixed(1), span = Math.min(wide - gap, 18).toFixed(1);
    if (x === null) { none += `M${left} ${mid - 2}h${span}v4h-${span}z`; return; }
    const size = (Math.min(1, Math.abs(x) / most) * (mid - 0.5)).toFixed(1);
    if (x > 0) up += `M${left} ${mid}h${span}v-${size}h-${span}z`;
    else if (x < 0) down += `M${left} ${mid}h${span}v${size}h-${span}z`;
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "bar-axis", d: `M0 ${mid}h${Math.min(width, list.length * wide).toFixed(1)}` }),
    up ? svg("path", { class: "bar-pos", d: up }) : null,
    down ? svg("path", { class: "bar-neg", d: down }) : null,
    none ? svg("path", { class: "bar-unknown", d: none }) : null,
    step === null ? null : svg("path", { class: trust === 2 ? "bar-peak good" : "bar-peak", d: `M${(step * wide).toFixed(1)} 17.2h${Math.max(4, Math.min(wide - gap, 18)).toFixed(1)}` }));
}

function keepInSight() {
  const item = items.find((candidate) => candidate.t === now.t);
  const list = byId("list");
  if (!item) return;
  if (item.top < list.scrollTop + GROUP) list.scrollTop = Math.max(0, item.top - GROUP);
  else if (item.top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = item.top + ROW - list.clientHeight;
}

/** Look for the filter in the transcripts too: in every page of this file, or at the server. */
async function look(query) {
  const wanted = query.trim().toLowerCase();
  found = null;
  if (wanted.length < 2) return;
  const hits = new Set();
  if (store.search) for (const t of await store.search(wanted)) hits.add(t);
  else {
    for (let k = 0; k < D.pages; k++) {
      const page = await bring(k);
      if (now.filter !== query) return;
      const texts = new Set();
      page.texts.forEach((item, i) => { if (item.toLowerCase().includes(wanted)) texts.add(i); });
      for (const [t, { steps }] of Object.entries(page.trajectories)) if (steps.some((step) => texts.has(step.action) || texts.has(step.context))) hits.add(Number(t));
    }
  }
  if (now.filter === query) found = hits;
}

async function filterBy(query) {
  now.filter = query;
  found = null;
  arrange(); // ids and groups at once, transcripts as soon as they have been read
  byId("list").scrollTop = 0;
  await look(query).catch(fail);
  if (now.filter === query && found) arrange();
}

function setUpList() {
  byId("sort").append(...Object.entries(SORTS).map(([name, [label]]) => h("option", { value: name }, label)));
  byId("sort").value = now.sort;
  byId("sort").addEventListener("change", (event) => { now.sort = event.target.value; arrange(); keepInSight(); drawList(); event.target.blur(); });
  let timer = 0;
  byId("filter").addEventListener("input", (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => filterBy(event.target.value), 120);
  });
  let frame = 0;
  byId("list").addEventListener("scroll", () => {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; drawList(); });
  }, { passive: true });
  new ResizeObserver(() => drawList()).observe(byId("list"));
}
