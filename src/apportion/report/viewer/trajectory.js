// One trajectory: which step got the credit (the bars), and why it might have (the transcript below).

const FIRST = 120; // steps that are elements at once; the rest follows as one scrolls
let drawn = { t: -1, key: "", steps: 0 };

function drawTrajectory() {
  const pane = byId("transcript");
  const key = `${now.credit}/${now.part}`;
  if (drawn.t === now.t && drawn.key === key) { select(); return; }
  drawn = { t: now.t, key, steps: 0 };
  const trajectory = D.trajectories[now.t];
  const steps = h("div", { id: "steps" });
  pane.replaceChildren(head(trajectory), steps);
  addSteps(Math.max(FIRST, now.s + 20));
  pane.scrollTop = 0;
  fitHead();
  select();
}

/** The sticky head covers what lies under it; scrolling to a step must know how much. */
const fitHead = () => {
  const pane = byId("transcript");
  const first = pane.firstElementChild;
  if (first) pane.style.setProperty("--sticky", (getComputedStyle(first).position === "sticky" ? first.offsetHeight + 8 : 8) + "px");
};

function head(trajectory) {
  const place = shown.indexOf(now.t);
  const comparable = D.credits.map((_, c) => c).filter((c) => c !== now.credit && has(now.t, c));
  return h("div", { class: "focus-head" },
    h("div", { class: "focus-title" },
      h("h2", { class: "one-line", dir: "auto", title: trajectory.id }, trajectory.id),
      trajectory.outcome === null ? h("span", { class: "chip warn" }, "not scored") : h("span", { class: "chip strong" }, "outcome " + brief(trajectory.outcome)),
      h("button", { class: "chip", type: "button", title: "Show the states of this group", on: { click: () => go({ tab: "states" }) } }, "group ", h("bdi", null, groupName(now.t))),
      h("span", { class: "chip" }, plural(trajectory.steps.length, "step")),
      ...["truncated", "failed"].filter((flag) => trajectory[flag]).map((flag) => h("span", { class: "chip warn" }, flag)),
      trajectory.valid ? null : h("span", { class: "chip warn", title: "Not scored, without tokens, or broken: it takes no part in statistics" }, "left out of the statistics"),
      h("span", { class: "gap" }),
      h("button", { class: "icon", type: "button", title: "previous trajectory (k)", "aria-label": "previous trajectory", on: { click: () => move(-1) } }, "↑"),
      h("span", { class: "muted small num" }, place < 0 ? "" : `${place + 1} / ${shown.length}`),
      h("button", { class: "icon", type: "button", title: "next trajectory (j)", "aria-label": "next trajectory", on: { click: () => move(1) } }, "↓")),
    chart(now.credit, now.part, false),
    ...comparable.map((c) => chart(c, -1, true)),
    ticks(trajectory));
}

/** Heights in pixels: zero stands where both signs have room, and the largest credit of the scale fills the chart. */
function room(list, most, height, label) {
  const up = Math.max(0.16, ...list.map((x) => (x ?? 0) / most)), down = Math.max(0.16, ...list.map((x) => -(x ?? 0) / most));
  const unit = (height - 2 * label) / Math.max(1, up + down);
  const slack = height - 2 * label - unit * (up + down);
  return { zero: label + unit * up + slack * (up / (up + down)), size: (x) => (Math.abs(x ?? 0) / most) * unit };
}

function chart(c, part, less) {
  const list = values(now.t, c, part);
  const sizes = list.map((x) => Math.abs(x ?? 0));
  const most = Math.max(scale(c), ...sizes);
  const peak = Math.max(...sizes) > 0 ? sizes.indexOf(Math.max(...sizes)) : -1;
  const few = list.length <= 26 && !less;
  const { label, parts } = D.credits[c];
  const { zero, size } = room(list, most, less ? 40 : 108, less ? 2 : 16);
  return h("div", { class: "chart", data: { credit: c } },
    h("div", { class: "label" }, h("b", null, label), part >= 0 ? " · " + parts[part] : null),
    h("div", { class: less ? "columns less" : "columns", role: "group", "aria-label": `Credit of each step by ${label}`, css: { "--zero-at": zero.toFixed(1) + "px" } },
      ...list.map((x, s) => {
        const css = { "--size": size(x).toFixed(1) + "px" };
        const side = x === null ? "none" : x < 0 ? "neg" : "pos";
        const says = few || (s === peak && !less);
        return h("button", {
          class: "column", type: "button", tabindex: "-1", data: { s }, title: `step ${s + 1}: ${signed(x)}`,
          "aria-label": `step ${s + 1}, credit ${signed(x)}`, on: { click: () => go({ s }) },
        },
        h("span", { class: "zero" }),
        x === 0 ? null : h("span", { class: "bar " + side, css }),
        says ? h("span", { class: `value ${side === "none" ? "pos" : side}${s === peak ? " peak" : ""}`, css }, signed(x)) : null);
      })));
}

/** Step numbers; a dot where a reward arrived. */
function ticks(trajectory) {
  const n = trajectory.steps.length;
  const every = n <= 26 ? 1 : n <= 80 ? 5 : n <= 200 ? 10 : 50;
  return h("div", { class: "chart", "aria-hidden": "true" }, h("div", { class: "label" }, "step"),
    h("div", { class: "ticks" }, ...trajectory.steps.map((step, s) => h("span", { class: step.reward ? "paid" : null },
      step.reward ? "● " + (n <= 26 ? s + 1 : "") : (s + 1) % every === 0 || s === 0 ? s + 1 : ""))));
}

function addSteps(upTo) {
  const trajectory = D.trajectories[now.t];
  const steps = byId("steps");
  const list = values(now.t);
  const end = Math.min(trajectory.steps.length, upTo);
  for (let s = drawn.steps; s < end; s++) steps.append(stepCard(trajectory, s, list[s]));
  drawn.steps = Math.max(drawn.steps, end);
  if (end === trajectory.steps.length && !byId("end")) steps.append(endCard(trajectory));
}

function stepCard(trajectory, s, value) {
  const step = trajectory.steps[s];
  const entry = trajectory.credit[now.credit];
  const idle = entry.runs[s].length > 0 && entry.runs[s].every((run) => isIdle(entry, run));
  const [trained, tokens] = trainedOf(entry, s);
  const same = companions(now.t, s);
  const units = unitsOf(entry, s);
  return h("article", { class: "step", id: "step-" + s, "aria-label": `step ${s + 1}, credit ${signed(value)}`, on: { click: (event) => pick(event, s) } },
    h("div", { class: "margin" },
      pill(value, scale(), { data: { dropped: idle ? "" : null }, title: value === null ? "unknown: nothing can be said about this step" : null }),
      h("small", null, `step ${s + 1}`),
      units.length > 1 ? h("small", null, `mean of ${plural(units.length, credit().level)}`) : null,
      same.length ? h("small", null, `one ${credit().level}, ${same.length + 1} steps`) : null,
      step.reward ? h("small", { class: "paid" }, "● reward " + brief(step.reward)) : null,
      idle ? h("small", null, "not trained on") : trained < tokens ? h("small", null, `${trained} of ${plural(tokens, "token")} trained on`) : null),
    h("div", { class: "body" },
      step.agent || step.flags ? h("div", { class: "meta" }, step.agent ? h("span", { class: "chip" }, h("bdi", null, step.agent)) : null,
        ...(step.flags || []).filter((flag) => flag !== "terminated").map((flag) => h("span", { class: "chip warn" }, flag === "fresh" ? "context rewritten" : flag))) : null,
      step.context === undefined ? null : contextBlock(text(step.context)),
      actionBlock(step, entry, s, value)));
}

function contextBlock(content) {
  const lines = h("details", { class: "context" },
    h("summary", null, h("span", { class: "one-line", dir: "auto" }, preview(content)), h("span", { class: "size" }, content.length.toLocaleString("en") + " chars")));
  lines.append(textBlock(content));
  return lines;
}

const MOST_RUNS = 4000;

function actionBlock(step, entry, s, value) {
  const content = text(step.action);
  const block = paint(h("div", { class: "action" }), value, scale());
  const runs = entry.runs[s];
  if (!content.trim()) block.append(h("span", { class: "empty" }, content ? "only white space" : "the policy sampled nothing here"));
  else if (runs.length > 1 && runs.every(([, chars]) => chars !== null)) block.append(heat(content, entry, runs));
  else block.append(textBlock(content));
  if (runs.length > 1 && runs.some(([, chars]) => chars === null)) {
    block.append(h("div", { class: "meta" }, ...runs.slice(0, 200).map(([u, , size]) => pill(unitValue(entry, u), scale(), { title: plural(size, "token") }))));
  }
  return block;
}

const unitValue = (entry, u) => (entry.unknown && entry.unknown.includes(u) ? null : now.part >= 0 && entry.parts ? entry.parts[now.part][u] : entry.units[u]);

/** The text with each unit's piece tinted by its credit. */
function heat(content, entry, runs) {
  const block = h("pre", { class: "text", dir: "auto" });
  let at = 0;
  for (const run of runs.slice(0, MOST_RUNS)) {
    const [u, chars, size] = run;
    const value = unitValue(entry, u);
    const dropped = isIdle(entry, run);
    const piece = h("span", { class: "run", data: { dropped: dropped ? "" : null }, title: `${credit().level} ${u + 1}: ${signed(value)} (${plural(size, "token")}${dropped ? ", not trained on" : ""})` }, content.slice(at, at + chars));
    block.append(paint(piece, value, scale()));
    at += chars;
  }
  if (at < content.length) block.append(document.createTextNode(content.slice(at)));
  return block;
}

function endCard(trajectory) {
  const last = trajectory.steps[trajectory.steps.length - 1];
  const how = trajectory.truncated ? "A limit ended it here" : (last.flags || []).includes("terminated") ? "The task ended here" : "The log ends here";
  return h("div", { class: "end", id: "end" },
    trajectory.end === undefined ? null : contextBlock(text(trajectory.end)),
    h("p", { class: "small" }, trajectory.outcome === null ? how + ", and nobody scored it." : `${how}, with outcome ${brief(trajectory.outcome)}.`));
}

/** Clicking selects the step, but not while one selects text, opens a context or follows a link. */
function pick(event, s) {
  if (event.target.closest("summary, button, a, .detail, .context") || String(getSelection())) return;
  go({ s });
}

/** Move the marks to the step of now and open its details. */
function select() {
  const pane = byId("transcript");
  if (now.s >= drawn.steps) addSteps(now.s + 20);
  for (const old of pane.querySelectorAll('[aria-current="true"]')) old.removeAttribute("aria-current");
  for (const old of pane.querySelectorAll(".detail")) old.remove();
  for (const column of pane.querySelectorAll(`.column[data-s="${now.s}"]`)) {
    column.setAttribute("aria-current", "true");
    const box = column.parentElement;
    if (box.scrollWidth > box.clientWidth) box.scrollLeft = column.offsetLeft - box.clientWidth / 2;
  }
  const card = byId("step-" + now.s);
  if (!card) return;
  card.setAttribute("aria-current", "true");
  card.querySelector(".body").append(detail(now.t, now.s));
  byId("live").textContent = `step ${now.s + 1} of ${D.trajectories[now.t].steps.length}, credit ${signed(values(now.t)[now.s])}`;
}

function reveal() {
  const card = byId("step-" + now.s);
  if (!card) return;
  fitHead();
  card.scrollIntoView({ block: now.s === 0 ? "end" : "nearest" });
  const pane = byId("transcript");
  const covered = pane.firstElementChild.getBoundingClientRect().bottom;
  if (card.getBoundingClientRect().top < covered) pane.scrollTop -= covered - card.getBoundingClientRect().top + 8;
}

function detail(t, s) {
  const step = D.trajectories[t].steps[s];
  return h("div", { class: "detail" }, partsTable(t, s), step.state === undefined ? alone() : visits(step.state, t, s));
}

/** The summands of the credit, one bar each, for every method that credited this trajectory. */
function partsTable(t, s) {
  const rows = [];
  D.credits.forEach((entry, c) => {
    if (!has(t, c)) return;
    const parts = D.trajectories[t].credit[c].parts ? entry.parts : [];
    parts.forEach((name, p) => rows.push(partRow(name, values(t, c, p)[s], scale(c), false)));
    rows.push(partRow(parts.length ? "= " + entry.label : entry.label, values(t, c, -1)[s], scale(c), parts.length > 0));
  });
  return h("div", null, h("h3", null, "What it is made of"), h("table", null, h("tbody", null, ...rows)));
}

const partRow = (name, value, most, sum) => h("tr", { class: sum ? "sum" : null },
  h("td", { class: "name" }, name), h("td", { class: "wide" }, meter(value, most)), h("td", { class: "num" }, signed(value)));

const alone = () => h("div", null, h("h3", null, "Same state elsewhere"),
  h("p", { class: "small muted" }, "No other step of this group was taken in the same state, so nothing can be compared here directly."));

/** Who passed through this state, what they did there, and what came of it. */
function visits(at, t, s) {
  const state = D.states[at];
  const who = new Set(state.visits.map(([other]) => other)).size;
  return h("div", null,
    h("h3", null, `Same state: ${plural(state.visits.length, "visit")} by ${who} of ${D.groups[state.group].members.length} trajectories`),
    actionTable(byAction(state), (row) => row.visits.some((v) => v.t === t && v.s === s)));
}

function actionTable(rows, here) {
  const most = scale();
  return table([
    { name: "did", wide: true, value: (row) => row.action, cell: (row) => h("div", { class: "one-line action-text", dir: "auto", title: preview(row.action) }, preview(row.action) || "nothing") },
    { name: "visits", num: true, value: (row) => row.visits.length },
    { name: "credit", num: true, title: "mean credit of these steps", value: (row) => row.mean, cell: (row) => [meter(row.mean, most), " ", signed(row.mean)] },
    { name: "outcome", num: true, title: "mean outcome of these trajectories", value: (row) => row.outcome, cell: (row) => brief(row.outcome) },
  ], rows, { here, go: (row) => visitMenu(row) });
}

/** A click on an action goes to the next of its visits. */
function visitMenu(row) {
  const at = row.visits.findIndex((v) => v.t === now.t && v.s === now.s);
  const { t, s } = row.visits[(at + 1) % row.visits.length];
  go({ t, s, tab: "trajectories" });
}

function setUpTrajectory() {
  const pane = byId("transcript");
  pane.addEventListener("scroll", () => {
    if (drawn.t >= 0 && drawn.steps < D.trajectories[drawn.t].steps.length && pane.scrollTop + 2 * pane.clientHeight > pane.scrollHeight) addSteps(drawn.steps + FIRST);
  }, { passive: true });
}
