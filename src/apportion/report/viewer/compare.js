// Methods side by side: step by step on one trajectory, and how far they agree over all of them.

let compareKey = "";

function drawCompare() {
  const key = [now.t, now.s, now.credit, Boolean(pageOf(now.t))].join("/");
  if (compareKey === key && byId("compare").childElementCount) return;
  compareKey = key;
  if (!ready(D.trajectories[now.t].page)) compareKey = "";
  const able = D.credits.map((_, c) => c).filter((c) => has(now.t, c));
  byId("compare").replaceChildren(h("div", { class: "cards" }, sideBySide(now.t, able), agreementCard(), disagreementCard()));
}

/** One row a step: what was done, and what each method makes of it, on its own scale. */
function sideBySide(t, able) {
  const lists = able.map((c) => values(t, c, -1));
  const tops = able.map((c, i) => (isFlat(lists[i]) ? -1 : strongest(t, c)));
  const rows = lists[0].map((_, s) => s);
  const did = (s) => (pageOf(t) ? text(t, detailOf(t).steps[s].action) : "");
  const cells = (i) => (s) => [meter(lists[i][s], scale(able[i])), " ", pill(lists[i][s], scale(able[i]), { data: { top: tops[i] === s ? "" : null } })];
  const place = shown.indexOf(t);
  return h("section", { class: "card full" },
    h("div", { class: "state-head" }, h("h2", null, h("bdi", null, D.trajectories[t].id)), h("span", { class: "chip" }, "outcome ", brief(D.trajectories[t].outcome)),
      h("span", { class: "gap" }),
      h("button", { class: "icon", type: "button", "aria-label": "previous trajectory", on: { click: () => move(-1) } }, "↑"),
      h("span", { class: "muted small num" }, place < 0 ? "" : `${place + 1} / ${shown.length}`),
      h("button", { class: "icon", type: "button", "aria-label": "next trajectory", on: { click: () => move(1) } }, "↓")),
    h("p", { class: "lead" }, "Each method is on its own scale, so compare signs, order and the framed step, which is the largest of its method. Steps on which methods disagree in sign are marked."),
    table([
      { name: "step", num: true, value: (s) => s },
      { name: "did", wide: true, value: did, cell: (s) => h("div", { class: "one-line action-text", dir: "auto", title: preview(did(s)) }, preview(did(s)) || "nothing") },
      ...able.map((c, i) => ({ name: D.credits[c].label + (tops[i] < 0 ? " (flat)" : ""), num: true, value: (s) => lists[i][s], cell: cells(i) })),
      { name: "signs", value: (s) => (apart(lists, s) ? 1 : 0), cell: (s) => (apart(lists, s) ? h("span", { class: "chip warn" }, "apart") : "") },
    ], rows, { most: 200, here: (s) => s === now.s, go: (s) => go({ s, tab: "trajectories" }), label: "Credit of each step by each method" }));
}

const isFlat = (list) => new Set(known(list)).size < 2;
const apart = (lists, s) => lists.some((list) => list[s] > 0) && lists.some((list) => list[s] < 0);

/** Over all steps that two methods know: correlation, agreement of signs, and the same decisive step. */
function agreement(a, b) {
  const both = D.trajectories.map((_, t) => t).filter((t) => has(t, a) && has(t, b));
  let n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0, same = 0, signsKnown = 0, told = 0, top = 0;
  for (const t of both) {
    const one = values(t, a, -1), two = values(t, b, -1);
    one.forEach((p, s) => {
      const q = two[s];
      if (p === null || q === null) return;
      n += 1; x += p; y += q; xx += p * p; yy += q * q; xy += p * q;
      if (p && q) { signsKnown += 1; if (p > 0 === q > 0) same += 1; }
    });
    const first = D.trajectories[t].verdict[a][0], second = D.trajectories[t].verdict[b][0];
    if (first !== null && second !== null) { told += 1; if (first === second) top += 1; }
  }
  const spread = Math.sqrt(Math.max(0, n * xx - x * x) * Math.max(0, n * yy - y * y));
  return { n, correlation: spread > 1e-12 * n * n ? (n * xy - x * y) / spread : null, same: signsKnown ? same / signsKnown : null, signsKnown, top: told ? top / told : null, told };
}

function agreementCard() {
  const pairs = D.credits.flatMap((_, a) => D.credits.map((__, b) => [a, b])).filter(([a, b]) => a < b);
  const rows = pairs.map(([a, b]) => ({ name: `${D.credits[a].label} and ${D.credits[b].label}`, ...agreement(a, b) })).filter((row) => row.n);
  return h("section", { class: "card full" }, h("h2", null, "How far methods agree"),
    h("p", { class: "lead" }, "Over all steps that both know. Agreement is not truth: two methods can share a mistake."),
    table([
      { name: "methods", wide: true, value: (row) => row.name, cell: (row) => h("div", { class: "one-line", dir: "auto" }, row.name) },
      { name: "steps", num: true, value: (row) => row.n, cell: (row) => brief(row.n) },
      { name: "correlation", num: true, title: "Pearson's, over steps", value: (row) => row.correlation, cell: (row) => (row.correlation === null ? "–" : signed(Math.round(row.correlation * 100) / 100)) },
      { name: "same sign", num: true, title: "of the steps to which both give a credit that is not zero", value: (row) => row.same, cell: (row) => (row.same === null ? "–" : percent(row.same, 1)) },
      { name: "same decisive step", num: true, title: "of the trajectories in which both name one", value: (row) => row.top, cell: (row) => (row.top === null ? "–" : `${percent(row.top, 1)} of ${brief(row.told)}`) },
    ], rows, { label: "Agreement of methods" }));
}

/** Trajectories on which the method shown and the others part most, by the share of steps with opposite signs. */
function disagreementCard() {
  const rows = mine().map((t) => {
    const lists = D.credits.map((_, c) => c).filter((c) => has(t, c)).map((c) => values(t, c, -1));
    const steps = lists[0].length;
    const opposite = lists[0].reduce((sum, _, s) => sum + (apart(lists, s) ? 1 : 0), 0);
    const tops = new Set(D.credits.map((_, c) => (has(t, c) ? D.trajectories[t].verdict[c][0] : null)).filter((s) => s !== null));
    return { t, id: D.trajectories[t].id, group: groupOf(t).name, outcome: D.trajectories[t].outcome, share: opposite / steps, opposite, tops: [...tops].sort((a, b) => a - b) };
  });
  return h("section", { class: "card full" }, h("h2", null, "Where methods part"),
    h("p", { class: "lead" }, "Trajectories by the share of their steps on which two methods disagree in sign."),
    table([
      { name: "trajectory", wide: true, value: (row) => row.id, cell: (row) => h("div", { class: "one-line", dir: "auto" }, row.id) },
      { name: "group", value: (row) => row.group, cell: (row) => h("div", { class: "one-line narrow", dir: "auto" }, row.group) },
      { name: "outcome", num: true, value: (row) => row.outcome, cell: (row) => brief(row.outcome) },
      { name: "signs apart", num: true, value: (row) => row.share, cell: (row) => `${percent(row.share, 1)} (${plural(row.opposite, "step")})` },
      { name: "decisive steps", num: true, title: "steps that some method calls decisive", value: (row) => row.tops.length, cell: (row) => row.tops.join(", ") || "–" },
    ], rows, { most: 25, start: { column: 3, down: true }, here: (row) => row.t === now.t, go: ({ t }) => go({ t, s: strongest(t) }), label: "Where methods part" }));
}
