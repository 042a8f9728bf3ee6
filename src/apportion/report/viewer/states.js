// The states of one group that several steps shared: the comparisons that step credit rests on.

const PAGE = 40;
let statesOf = { group: -1, order: "spread", key: "" };

function drawStates() {
  const group = D.trajectories[now.t].group;
  const key = [group, statesOf.order, now.credit, now.part].join("/");
  if (statesOf.key === key) return;
  statesOf = { ...statesOf, group, key };
  const all = D.states.filter((state) => state.group === group).map((state) => {
    const rows = byAction(state);
    const means = rows.map((row) => row.mean).filter((x) => x !== null);
    return { state, rows, spread: means.length > 1 ? Math.max(...means) - Math.min(...means) : 0 };
  });
  all.sort((a, b) => (statesOf.order === "spread" ? b.spread - a.spread : 0) || b.state.visits.length - a.state.visits.length);
  const { name, members, mean } = D.groups[group];
  const cards = h("div", { class: "cards" });
  const more = h("button", { class: "more", type: "button", on: { click: () => add() } });
  const add = () => {
    const from = cards.childElementCount;
    cards.append(...all.slice(from, from + PAGE).map(stateCard));
    more.textContent = `show ${Math.min(PAGE, all.length - cards.childElementCount)} more of ${all.length}`;
    more.hidden = cards.childElementCount >= all.length;
  };
  const groups = h("select", { "aria-label": "Group", on: { change: (event) => go({ t: D.groups[Number(event.target.value)].members[0], s: 0, tab: "states" }) } },
    ...D.groups.map((entry, g) => (has(entry.members[0]) ? h("option", { value: g }, `${preview(entry.name, 60)} (${entry.members.length})`) : null)));
  groups.value = String(group);
  const order = h("select", { "aria-label": "Order of states", on: { change: (event) => { statesOf.order = event.target.value; drawStates(); } } },
    h("option", { value: "spread" }, "where actions differ most"), h("option", { value: "visits" }, "most visited"));
  order.value = statesOf.order;
  byId("states").replaceChildren(
    h("div", { class: "state-head" }, h("h2", null, "States of group ", h("bdi", null, preview(name, 80))), groups, order,
      h("span", { class: "muted small" }, `${plural(members.length, "member")}, mean outcome ${brief(mean)}, ${plural(all.length, "shared state")}`)),
    all.length ? cards : h("p", { class: "muted" }, "No two steps of this group were taken in the same state. Compare by a coarser key (the state argument of by_step), or give more rollouts per task."),
    more);
  add();
}

function stateCard({ state, rows, spread }) {
  const who = new Set(state.visits.map(([t]) => t)).size;
  const content = text(state.text);
  return h("div", { class: "card" },
    h("h3", null, `${plural(state.visits.length, "visit")} by ${plural(who, "trajectory")}`, spread ? ` · actions differ by ${plain(spread)}` : ""),
    h("pre", { class: "text state-text", dir: "auto" }, content.length > 1500 ? content.slice(0, 1500) + "…" : content),
    actionTable(rows, (row) => row.visits.some((v) => v.t === now.t)));
}
