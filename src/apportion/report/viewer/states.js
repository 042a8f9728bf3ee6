// The states of one group that several steps shared: the comparisons that step credit rests on.

let statesKey = "";

function drawStates() {
  const g = D.trajectories[now.t].group;
  if (!ready(D.groups[g].page)) {
    statesKey = "";
    byId("states").replaceChildren(h("p", { class: "muted waiting" }, "reading the group …"));
    return;
  }
  const page = pageAt(D.groups[g].page);
  const own = page.states.map((_, i) => i).filter((i) => page.states[i].group === g);
  if (!own.includes(now.state)) now.state = stateOfNow(own, page);
  const key = [g, now.t, now.state, now.credit, now.part].join("/");
  if (statesKey === key) return;
  const kept = byId("states").querySelector(".graph-pane");
  const scroll = kept && statesKey.startsWith(g + "/") ? [kept.scrollLeft, kept.scrollTop] : null;
  const focus = document.activeElement && document.activeElement.closest(".graph") !== null;
  statesKey = key;
  byId("states").replaceChildren(statesHead(g, own.length), ...(own.length ? statesBody(g, own, page) : [h("p", { class: "muted" },
    "No two steps of this group were taken in the same state. Compare by a coarser key (the state argument of by_step), or give more rollouts per task.")]));
  const pane = byId("states").querySelector(".graph-pane");
  const chosen = pane && pane.querySelector(".chosen");
  if (pane && scroll) [pane.scrollLeft, pane.scrollTop] = scroll;
  else if (chosen) chosen.scrollIntoView({ block: "nearest", inline: "center" });
  if (!scroll) byId("states").scrollTop = 0;
  if (focus && chosen) chosen.focus({ preventScroll: true });
}

/** The state of the step shown, else the one where actions differ most. */
function stateOfNow(own, page) {
  const here = detailOf(now.t).steps[now.s].state;
  if (own.includes(here)) return here;
  return own.reduce((best, i) => (best < 0 || spreadOf(page.states[i]) > spreadOf(page.states[best]) ? i : best), -1);
}

function statesHead(g, shared) {
  const { name, members, mean } = D.groups[g];
  const list = D.groups.map((_, i) => i).filter((i) => D.groups[i].members.some((t) => has(t)));
  const open = (i) => { const t = D.groups[i].members.find((member) => has(member)); go({ t, s: strongest(t), tab: "states", state: -1 }); };
  const beside = (by) => { const at = list.indexOf(g) + by; if (list[at] !== undefined) open(list[at]); };
  const ways = members.filter((t) => has(t)).map((t) => [t, `${D.trajectories[t].id} (${brief(D.trajectories[t].outcome)})`]);
  return h("div", { class: "state-head" }, h("h2", null, "Group ", h("bdi", null, preview(name, 80))),
    picker("group", list.map((i) => [i, `${preview(D.groups[i].name, 60)} (${D.groups[i].members.length})`]), g, (i) => open(Number(i))),
    h("button", { class: "icon", type: "button", "aria-label": "previous group", on: { click: () => beside(-1) } }, "↑"),
    h("button", { class: "icon", type: "button", "aria-label": "next group", on: { click: () => beside(1) } }, "↓"),
    picker("way of", ways, now.t, (t) => go({ t: Number(t), s: strongest(Number(t)) })),
    h("span", { class: "muted small" }, `${plural(members.length, "member")}, mean outcome ${brief(mean)}, ${plural(shared, "shared state")}`));
}

function statesBody(g, own, page) {
  const graph = groupGraph(g);
  const choose = (state) => go({ state });
  return [
    h("section", { class: "card full graph-card" },
      h("p", { class: "lead" }, "Boxes are states that several steps shared, in the order in which they were reached: how many visits, by how many rollouts. Lines are rollouts: thicker for more of them, blue or orange by the mean credit of the step, dashed through states that nobody shared, below where they went back. Δ is how much credit differs between the actions taken in a state. Outlined: the way of ",
        h("b", null, h("bdi", null, D.trajectories[now.t].id)), ".", graph.left ? ` The ${MOST_NODES} most visited of ${graph.all} shared states are drawn; the table below has all.` : null),
      drawGraph(graph, now.state, choose),
      h("details", { class: "context" }, h("summary", null, "the graph as a table"), edgeTable(graph))),
    h("div", { class: "cards two" }, stateCard(page.states[now.state], page), stateTable(own, page, choose)),
  ];
}

/** One anchor group: the state, what was done there, and who did it. */
function stateCard(state, page) {
  const who = new Set(state.visits.map(([t]) => t)).size;
  const here = (row) => row.visits.some((place) => state.visits[place][0] === now.t);
  return h("section", { class: "card" },
    h("h2", null, "This state"),
    h("p", { class: "lead" }, `${plural(state.visits.length, "visit")} by ${plural(who, "trajectory")}. Marked: what the trajectory shown did.`),
    h("div", { class: "state-text" }, textBlock(page.texts[state.text])),
    actionTable(state, here, 20),
    h("h3", null, "Who went where"),
    h("div", { class: "who" }, ...whoDidWhat(state, page)));
}

function whoDidWhat(state, page) {
  const words = parted(state.actions.map((action) => page.texts[action.action]));
  return state.actions.slice(0, 40).map((action, i) => whoDid(state, action, words[i]));
}

function whoDid(state, action, words) {
  const visits = action.visits.map((place) => state.visits[place]).filter(([t]) => has(t));
  return h("div", null, h("div", { class: "one-line action-text", dir: "auto" }, preview(words) || "nothing"),
    h("div", { class: "meta" }, ...visits.slice(0, 30).map(([t, s]) => h("button", {
      class: "chip" + (t === now.t ? " strong" : ""), type: "button", title: `step ${s}, credit ${signed(values(t)[s])}, outcome ${brief(D.trajectories[t].outcome)}`,
      on: { click: () => go({ t, s, tab: "trajectories" }) },
    }, h("bdi", null, D.trajectories[t].id), ` step ${s}`))));
}

function stateTable(own, page, choose) {
  const texts = distinctive(own.map((i) => page.texts[page.states[i].text]));
  const rows = own.map((i, at) => {
    const state = page.states[i];
    return { i, words: texts[at], visits: state.visits.length, who: new Set(state.visits.map(([t]) => t)).size, actions: state.actions.length, spread: spreadOf(state),
      chance: known(state.actions.map((action) => action.chance)).reduce((a, b) => Math.min(a, b), Infinity) };
  });
  return h("section", { class: "card" }, h("h2", null, "All shared states"), h("p", { class: "lead" }, "Where actions differ most comes first."),
    table([
      { name: "state", wide: true, value: (row) => row.words, cell: (row) => h("div", { class: "one-line action-text", dir: "auto", title: preview(row.words) }, preview(row.words)) },
      { name: "visits", num: true, value: (row) => row.visits },
      { name: "rollouts", num: true, value: (row) => row.who },
      { name: "actions", num: true, value: (row) => row.actions },
      { name: "Δ credit", num: true, title: "mean credit of the best action less that of the worst", value: (row) => row.spread, cell: (row) => plain(row.spread) },
      { name: "chance", num: true, title: "smallest chance of any action here; of one state, not corrected for having looked at many", value: (row) => (row.chance === Infinity ? null : row.chance), cell: (row) => chanceCell({ chance: row.chance === Infinity ? undefined : row.chance }) },
    ], rows, { most: 60, start: { column: 4, down: true }, go: (row) => choose(row.i), here: (row) => row.i === now.state, label: "Shared states" }));
}
