// The whole batch in one page: what was learned, what is doubtful, how credit is spread.

const NOTES = {
  groups: "groups", groups_of_one: "groups of one (nobody to compare with)", constant_groups: "groups whose outcomes are all equal",
  unknown_trajectories: "trajectories left out (not scored, broken, without tokens)", states: "distinct states",
  units_without_company: "units in a state that nobody else visited", share_with_company: "share of units with company in their state",
  own_repeats: "visits that repeat a trajectory's own state",
};

let overviewKey = "";

function drawOverview() {
  if (byId("overview").childElementCount && overviewKey === String(now.credit)) return;
  overviewKey = String(now.credit);
  byId("overview").replaceChildren(h("div", { class: "cards" },
    D.learning ? learningCard(D.learning) : null,
    D.truth ? truthCard(D.truth) : null,
    h("div", { class: "stack" }, factsCard(), notesCard()), h("div", { class: "stack" }, trustCard(), outcomeCard()),
    findingsCard(), histogramCard(), positionCard()));
}

function factsCard() {
  const entry = credit();
  const list = mine();
  const scored = known(list.map((t) => D.trajectories[t].outcome));
  const groups = new Set(list.map((t) => D.trajectories[t].group));
  const fact = (name, value, of) => h("div", null, h("dt", null, name), h("dd", null, value, of ? h("span", { class: "of" }, " " + of) : null));
  return h("section", { class: "card" }, h("h2", null, "Credit by ", entry.label), h("p", { class: "lead" }, `One number per ${entry.level}.`),
    h("dl", { class: "facts" },
      fact("trajectories", brief(list.length), `in ${plural(groups.size, "group")}`),
      fact("mean outcome", brief(average(scored)), scored.length < list.length ? `${list.length - scored.length} not scored` : ""),
      fact(entry.level + "s", brief(entry.units)),
      fact("known", percent(entry.known, entry.units)),
      fact("trained on", percent(entry.trained, entry.units)),
      entry.cost.requests ? fact("requests", brief(entry.cost.requests), `${brief(entry.cost.generated_tokens)} tokens generated`) : null));
}

function notesCard() {
  const notes = Object.entries(credit().notes);
  if (!notes.length) return null;
  return h("section", { class: "card" }, h("h2", null, "What the method noticed"), h("p", { class: "lead" }, "Counts that decide how far the numbers can be trusted."),
    h("table", null, h("tbody", null, ...notes.map(([name, value]) => h("tr", null, h("td", null, NOTES[name] || name.replaceAll("_", " ")),
      h("td", { class: "num" }, typeof value === "number" ? (name.startsWith("share") ? percent(value, 1) : brief(value)) : value))))));
}

/** How many decisive steps the rollouts themselves speak for. */
function trustCard() {
  const list = mine();
  const rows = [2, 1, 0].map((trust) => ({ trust, n: list.filter((t) => trustOf(t) === trust).length }));
  return h("section", { class: "card" }, h("h2", null, "Can it be trusted"),
    h("p", { class: "lead" }, "For each trajectory: what speaks for its decisive step."),
    h("table", null, h("tbody", null, ...rows.map(({ trust, n }) => h("tr", null,
      h("td", { class: "name" }, h("span", { class: "trust", data: { trust: TRUST[trust][0] } }, TRUST[trust][1])),
      h("td", { class: "wide" }, h("span", { class: "length", css: { "--size": list.length ? n / list.length : 0 } })),
      h("td", { class: "num" }, brief(n)))))),
    h("p", { class: "small muted" }, TRUST[2][1], ": ", TRUST[2][2]),
    h("button", { class: "more", type: "button", on: { click: () => { now.sort = "trust"; byId("sort").value = "trust"; arrange(); go({ tab: "trajectories", t: shown[0], s: strongest(shown[0]) }); } } }, "list the best supported first"));
}

function findingsCard() {
  return h("section", { class: "card full" }, h("h2", null, "What the checks found"),
    h("p", { class: "lead" }, "The same as apportion check, for these rollouts and each credit; worst first."),
    D.findings.length ? h("ul", { class: "findings" }, ...D.findings.map(({ severity, code, message, remedy, about }) => h("li", { data: { severity } },
      h("span", { class: "trust", data: { severity } }, severity), h("b", null, code.replaceAll("-", " ")), h("span", { class: "muted" }, " in ", h("bdi", null, about)),
      h("p", null, message), h("p", { class: "muted" }, "→ ", remedy)))) : h("p", null, "Nothing."));
}
