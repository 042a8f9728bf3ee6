// The report's dict, and the few numbers that every view needs from it.

const D = JSON.parse(byId("data").textContent);
if (D.schema !== "apportion.report/1") throw new Error(`this page shows apportion.report/1, the data are ${D.schema}`);

D.texts = D.texts.map(whole);

const text = (i) => (i === null || i === undefined ? "" : D.texts[i]);

/** What is shown now. part is -1 for the whole credit, else the position of a part. */
const now = { tab: "", t: 0, s: 0, credit: 0, part: -1, sort: "group", filter: "", theme: "auto" };

const credit = () => D.credits[now.credit];
const has = (t, c = now.credit) => D.trajectories[t].credit[c] !== undefined;

const worked = new Map();

/** Credit of every step of a trajectory: the mean over its tokens, null where unknown. */
function values(t, c = now.credit, part = now.part) {
  const key = `${t}/${c}/${part}`;
  if (!worked.has(key)) worked.set(key, workOut(D.trajectories[t].credit[c], part));
  return worked.get(key);
}

function workOut(entry, part) {
  const unit = part >= 0 && entry.parts ? entry.parts[part] : entry.units;
  const unknown = entry.unknown ? new Set(entry.unknown) : null;
  return entry.runs.map((runs) => {
    let sum = 0, size = 0;
    for (const [u, , tokens] of runs) {
      if (unknown && unknown.has(u)) continue;
      sum += unit[u] * Math.max(tokens, 1);
      size += Math.max(tokens, 1);
    }
    return size ? sum / size : null;
  });
}

/** Largest and smallest step of each trajectory under the credit and part of now; worked out once. */
const extremes = (() => {
  const kept = new Map();
  return () => {
    const key = now.credit + "/" + now.part;
    if (!kept.has(key)) {
      kept.set(key, D.trajectories.map((_, t) => {
        if (!has(t)) return null;
        const known = values(t).filter((x) => x !== null);
        return known.length ? { high: Math.max(...known), low: Math.min(...known) } : { high: null, low: null };
      }));
    }
    return kept.get(key);
  };
})();

/** Colour and bars are relative to this; a part is shown on the scale of the whole, so that it can be compared. */
const scale = (c = now.credit) => D.credits[c].scale;

/** The units that wrote something in a step. */
const unitsOf = (entry, s) => [...new Set(entry.runs[s].map(([u]) => u))];

/** A run that the loss leaves out, because its unit or its tokens are dropped. */
const isIdle = (entry, [u, , , trained]) => trained === 0 || Boolean(entry.dropped && entry.dropped.includes(u));

/** Tokens of a step, and how many of them the method trains on. */
function trainedOf(entry, s) {
  const size = (runs) => runs.reduce((sum, [, , tokens]) => sum + tokens, 0);
  return [size(entry.runs[s].filter((run) => !isIdle(entry, run))), size(entry.runs[s])];
}

/** Steps that share the unit of this step (a turn, an episode, an agent); empty when it has its own. */
function companions(t, s, c = now.credit) {
  const entry = D.trajectories[t].credit[c];
  const [u, ...others] = unitsOf(entry, s);
  if (u === undefined || others.length) return [];
  const out = [];
  entry.runs.forEach((runs, k) => { if (k !== s && runs.some(([v]) => v === u)) out.push(k); });
  return out;
}

const groupName = (t) => D.groups[D.trajectories[t].group].name;

/** Visits of a state by what was done there: [{action, visits, mean, outcome}]. */
function byAction(state) {
  const rows = new Map();
  for (const [t, s] of state.visits) {
    if (!has(t)) continue;
    const action = text(D.trajectories[t].steps[s].action).trim();
    if (!rows.has(action)) rows.set(action, { action, visits: [] });
    rows.get(action).visits.push({ t, s, value: values(t)[s], outcome: D.trajectories[t].outcome });
  }
  const mean = (list) => (list.length ? list.reduce((a, b) => a + b, 0) / list.length : null);
  return [...rows.values()].map((row) => ({
    ...row,
    mean: mean(row.visits.map((v) => v.value).filter((x) => x !== null)),
    outcome: mean(row.visits.map((v) => v.outcome).filter((x) => x !== null)),
  })).sort((a, b) => compare(a.mean, b.mean, -1));
}
