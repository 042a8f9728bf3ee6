// One trajectory: which step got the credit (the bars), and why it might have (the transcript below).

const FIRST = 120; // steps that are elements at once; the rest follows as one scrolls
let drawn = { t: -1, key: "", steps: 0 };

function drawTrajectory() {
  const pane = byId("transcript");
  const key = [now.credit, now.part, now.by, Boolean(pageOf(now.t))].join("/");
  if (drawn.t === now.t && drawn.key === key) { select(); return; }
  drawn = { t: now.t, key, steps: 0 };
  if (!ready(D.trajectories[now.t].page)) {
    pane.replaceChildren(head(now.t), h("p", { class: "muted waiting" }, "reading the transcript …"));
    return;
  }
  pane.replaceChildren(head(now.t), h("div", { id: "steps" }));
  addSteps(Math.max(FIRST, now.s + 20));
  pane.scrollTop = 0;
  fitHead();
  select();
  if (isSticky()) reveal(); // in a narrow window the verdict would be scrolled away
}

/** The head stays in sight, and covers what lies under it; scrolling to a step must know how much. */
const isSticky = () => getComputedStyle(byId("transcript").firstElementChild).position === "sticky";
const fitHead = () => {
  const first = byId("transcript").firstElementChild;
  if (first) byId("transcript").style.setProperty("--sticky", (isSticky() ? first.offsetHeight + 8 : 8) + "px");
};

function head(t) {
  const { id, outcome, valid, ...flags } = D.trajectories[t];
  const place = shown.indexOf(t);
  const lens = levels(t);
  return h("div", { class: "focus-head" },
    h("div", { class: "focus-title" },
      h("h2", { class: "one-line", dir: "auto", title: id }, id),
      outcome === null ? h("span", { class: "chip warn" }, "not scored") : h("span", { class: "chip strong" }, "outcome " + brief(outcome)),
      h("button", { class: "chip", type: "button", title: "Show the states of this group", on: { click: () => go({ tab: "states" }) } }, "group ", h("bdi", null, groupOf(t).name)),
      h("span", { class: "chip" }, plural(stepsOf(t), "step")),
      ...["truncated", "failed"].filter((flag) => flags[flag]).map((flag) => h("span", { class: "chip warn" }, flag)),
      valid === false ? h("span", { class: "chip warn", title: "Not scored, without tokens, or broken: it takes no part in statistics" }, "left out of the statistics") : null,
      h("span", { class: "gap" }),
      lens.length > 1 ? picker("by", lens.map((level) => [level, level]), lens.includes(now.by) ? now.by : "step", (by) => go({ by })) : null,
      h("button", { class: "icon", type: "button", title: "previous trajectory (k)", "aria-label": "previous trajectory", on: { click: () => move(-1) } }, "↑"),
      h("span", { class: "muted small num" }, place < 0 ? "" : `${place + 1} / ${shown.length}`),
      h("button", { class: "icon", type: "button", title: "next trajectory (j)", "aria-label": "next trajectory", on: { click: () => move(1) } }, "↓")),
    verdictBox(t),
    ...drawCharts(t));
}

function addSteps(upTo) {
  const { steps } = detailOf(now.t);
  const list = values(now.t, now.credit, Math.max(now.part, -1));
  const box = byId("steps");
  const level = levels(now.t).includes(now.by) ? now.by : "step";
  const heads = level === "step" ? new Map() : new Map(spans(now.t).map((span) => [span.steps[0], span]));
  const end = Math.min(steps.length, upTo);
  for (let s = drawn.steps; s < end; s++) {
    if (heads.has(s)) box.append(spanHead(heads.get(s)));
    box.append(stepCard(now.t, s, list[s]));
  }
  drawn.steps = Math.max(drawn.steps, end);
  if (end === steps.length && !byId("end")) box.append(endCard(now.t));
}

const spanHead = (span) => h("h3", { class: "span-head" }, pill(span.value, scale()), " ", h("bdi", null, span.name),
  h("span", { class: "muted" }, ` ${plural(span.steps.length, "step")}; the number is the mean over the tokens`));

function stepCard(t, s, value) {
  const step = detailOf(t).steps[s];
  const entry = detailOf(t).credit[now.credit];
  const idle = entry.runs[s].length > 0 && entry.runs[s].every((run) => isIdle(entry, run));
  const [trained, tokens] = trainedOf(entry, s);
  const same = companions(t, s);
  const units = unitsOf(entry, s);
  const flags = (step.flags || []).filter((flag) => flag !== "terminated" && flag !== "fresh");
  return h("article", { class: "step", id: "step-" + s, "aria-label": `step ${s}, credit ${signed(value)}`, on: { click: (event) => pick(event, s) } },
    h("div", { class: "margin" },
      pill(value, scale(), { data: { dropped: idle ? "" : null }, title: value === null ? "unknown: nothing can be said about this step" : null }),
      h("small", null, `step ${s}`),
      value === null ? h("small", null, "unknown") : null,
      units.length > 1 ? h("small", null, `mean of ${plural(units.length, credit().level)}`) : null,
      same.length ? h("small", null, `one ${credit().level}, ${same.length + 1} steps`) : null,
      step.reward ? h("small", { class: "paid" }, "● reward " + brief(step.reward)) : null,
      idle ? h("small", null, "not trained on") : trained < tokens ? h("small", null, `${trained} of ${plural(tokens, "token")} trained on`) : null),
    h("div", { class: "body" },
      step.agent || flags.length ? h("div", { class: "meta" }, step.agent ? h("span", { class: "chip" }, h("bdi", null, step.agent)) : null,
        ...flags.map((flag) => h("span", { class: "chip warn" }, flag))) : null,
      step.context === undefined ? null : contextBlock(text(t, step.context), (step.flags || []).includes("fresh")),
      actionBlock(text(t, step.action), entry, s, value)));
}

/** What came in: prompt, tool result, observation; one line until it is opened. */
function contextBlock(content, fresh) {
  const size = content.length.toLocaleString("en") + " chars";
  const lines = h("details", { class: "context", on: { toggle: () => { if (lines.open && lines.childElementCount === 1) lines.append(textBlock(content)); } } },
    h("summary", null, h("span", { class: "one-line", dir: "auto" }, preview(content)),
      h("span", { class: "size", title: fresh ? "the prompt does not extend the tokens so far: the context was rewritten" : null }, fresh ? "new context, " + size : size)));
  return lines;
}

const MOST_RUNS = 4000;

function actionBlock(content, entry, s, value) {
  const block = paint(h("div", { class: "action" }), value, scale());
  const runs = entry.runs[s];
  if (!content.trim()) block.append(h("span", { class: "empty" }, content ? "only white space" : "the policy sampled nothing here"));
  else if (runs.length > 1 && runs.every(([, chars]) => chars !== null)) block.append(heat(content, entry, runs));
  else block.append(textBlock(content));
  if (runs.length > 1 && runs.some(([, chars]) => chars === null)) {
    block.append(h("div", { class: "meta" }, ...runs.slice(0, 200).map(([u, , size]) => pill(unitValue(entry, u), unitScale(), { title: plural(size, "token") }))));
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
    const words = `${credit().level} ${u}: ${signed(value)} (${plural(size, "token")}${dropped ? ", not trained on" : ""})`;
    block.append(paint(h("span", { class: "run", data: { dropped: dropped ? "" : null }, title: words }, content.slice(at, at + chars)), value, unitScale()));
    at += chars;
  }
  if (at < content.length) block.append(visible(content.slice(at)));
  return block;
}

function endCard(t) {
  const { steps, truncated, end, outcome } = detailOf(t);
  const last = steps[steps.length - 1];
  const how = truncated ? "A limit ended it here" : (last.flags || []).includes("terminated") ? "The task ended here" : "The log ends here";
  return h("div", { class: "end", id: "end" },
    end === undefined ? null : contextBlock(text(t, end), false),
    h("p", { class: "small" }, outcome === null ? how + ", and nobody scored it." : `${how}, with outcome ${brief(outcome)}.`));
}

/** Clicking selects the step, but not while one selects text, opens a context or follows a link. */
function pick(event, s) {
  if (event.target.closest("summary, button, a, .detail, .context") || String(getSelection())) return;
  go({ s });
}

/** Move the marks to the step of now and open its details. */
function select() {
  if (!pageOf(now.t)) return;
  const pane = byId("transcript");
  if (now.s >= drawn.steps) addSteps(now.s + 20);
  for (const old of pane.querySelectorAll('[aria-current="true"]')) old.removeAttribute("aria-current");
  for (const old of pane.querySelectorAll(".detail")) old.remove();
  for (const column of pane.querySelectorAll(`.column[data-steps~="${now.s}"]`)) {
    column.setAttribute("aria-current", "true");
    const box = column.parentElement;
    if (box.scrollWidth > box.clientWidth) box.scrollLeft = column.offsetLeft - box.clientWidth / 2;
  }
  const card = byId("step-" + now.s);
  if (!card) return;
  card.setAttribute("aria-current", "true");
  card.querySelector(".body").append(detail(now.t, now.s));
  byId("live").textContent = `step ${now.s}, credit ${signed(values(now.t, now.credit, Math.max(now.part, -1))[now.s])}`;
}

function reveal() {
  const card = byId("step-" + now.s);
  if (!card) return;
  fitHead();
  card.scrollIntoView({ block: now.s === 0 ? "end" : "nearest" });
  const pane = byId("transcript");
  const covered = pane.firstElementChild.getBoundingClientRect().bottom;
  if (isSticky() && card.getBoundingClientRect().top < covered) pane.scrollTop -= covered - card.getBoundingClientRect().top + 8;
}

function setUpTranscript() {
  const pane = byId("transcript");
  pane.addEventListener("scroll", () => {
    if (drawn.t >= 0 && pageOf(drawn.t) && drawn.steps < stepsOf(drawn.t) && pane.scrollTop + 2 * pane.clientHeight > pane.scrollHeight) addSteps(drawn.steps + FIRST);
  }, { passive: true });
}
