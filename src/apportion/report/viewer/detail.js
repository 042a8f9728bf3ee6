// Under the step that is selected: what its credit is made of, and what others did in the same state.

function detail(t, s) {
  const state = stateOf(t, s);
  return h("div", { class: "detail" }, partsTable(t, s), state ? visitsBox(state, t, s) : alone());
}

/** The summands of the credit, one bar each, for every method that credited this trajectory. */
function partsTable(t, s) {
  const rows = [];
  D.credits.forEach((entry, c) => {
    if (!has(t, c)) return;
    const parts = detailOf(t).credit[c].parts ? entry.parts : [];
    parts.forEach((name, p) => rows.push(partRow(name, values(t, c, p)[s], scale(c), false)));
    rows.push(partRow(parts.length ? "= " + entry.label : entry.label, values(t, c, -1)[s], scale(c), parts.length > 0));
  });
  return h("div", null, h("h3", null, "What it is made of"), h("table", null, h("tbody", null, ...rows)));
}

const partRow = (name, value, most, sum) => h("tr", { class: sum ? "sum" : null },
  h("td", { class: "name", title: name }, preview(name, 48)), h("td", { class: "wide" }, meter(value, most)), h("td", { class: "num" }, signed(value)));

const alone = () => h("div", null, h("h3", null, "Same state elsewhere"),
  h("p", { class: "small muted" }, "No other step of this group was taken in the same state, so nothing can be compared here directly."));

/** Who passed through this state, what they did there, and what came of it. */
function visitsBox(state, t, s) {
  const who = new Set(state.visits.map(([other]) => other)).size;
  return h("div", null,
    h("h3", null, `Same state: ${plural(state.visits.length, "visit")} by ${who} of ${groupOf(t).members.length} trajectories `,
      h("button", { class: "link", type: "button", on: { click: () => go({ tab: "states", state: pageOf(t).states.indexOf(state) }) } }, "see it in the graph")),
    actionTable(state, (row) => row.visits.some((place) => state.visits[place][0] === t && state.visits[place][1] === s), 8));
}

/** Mean credit of the visits of one action. */
const creditOf = (state, action) => average(known(action.visits.map((place) => { const [t, s] = state.visits[place]; return has(t) ? values(t, now.credit, Math.max(now.part, -1))[s] : null; })));

function actionTable(state, here, most = Infinity) {
  const page = pageAt(D.groups[state.group].page);
  const did = state.actions.map((action) => page.texts[action.action]);
  const words = parted(did);
  const rows = state.actions.map((action, i) => ({ ...action, did: did[i], words: words[i], credit: creditOf(state, action) }));
  rows.sort((a, b) => compare(a.credit, b.credit, -1));
  return table([
    { name: "did", wide: true, value: (row) => row.did, cell: (row) => h("div", { class: "one-line action-text", dir: "auto", title: preview(row.did) }, preview(row.words) || "nothing") },
    { name: "visits", num: true, value: (row) => row.visits.length },
    { name: "credit", num: true, title: "mean credit of these steps", value: (row) => row.credit, cell: (row) => [meter(row.credit, scale()), " ", h("span", { class: "figure" }, signed(row.credit))] },
    { name: "outcome", num: true, title: "mean outcome of the rollouts that did this", value: (row) => row.mean, cell: (row) => brief(row.mean) },
    { name: "others", num: true, title: "mean outcome of the rollouts that came here and never did this", value: (row) => row.others_mean, cell: (row) => brief(row.others_mean) },
    { name: "chance", num: true, title: "How often outcomes handed out at random would differ as much (permutation test, two-sided). Small: the choice mattered here.", value: (row) => row.chance, cell: chanceCell },
  ], rows, { here, most, go: (row) => nextVisit(state, row), label: "What was done in this state" });
}

function chanceCell({ chance }) {
  if (chance === undefined) return h("span", { class: "muted", title: "nobody scored did otherwise" }, "–");
  const words = chance < 0.01 ? "<1%" : (100 * chance).toFixed(0) + "%";
  return chance <= 0.05 ? h("b", null, words) : words;
}

/** A click on an action goes to the next of its visits. */
function nextVisit(state, row) {
  const visits = row.visits.map((place) => state.visits[place]);
  const at = visits.findIndex(([t, s]) => t === now.t && s === now.s);
  const [t, s] = visits[(at + 1) % visits.length];
  go({ t, s, tab: "trajectories" });
}

/** The next visit of the state of now by anybody: who else was here? */
function otherVisit() {
  const state = pageOf(now.t) && stateOf(now.t, now.s);
  if (!state) return;
  const at = state.visits.findIndex(([t, s]) => t === now.t && s === now.s);
  const [t, s] = state.visits[(at + 1) % state.visits.length];
  if (has(t)) go({ t, s, tab: "trajectories" });
}
