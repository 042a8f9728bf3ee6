// The report's data: the index, which is there from the start, and pages of transcripts, which come when needed.

let D = null; // the index
const pages = new Map(); // page → its data, or the promise of them

/** What is shown now. part is -1 for the whole credit, STACKED for all parts at once, else the position of a part. */
const STACKED = -2;
const now = { tab: "", t: 0, s: 0, credit: 0, part: -1, by: "step", state: -1, sort: "group", filter: "", theme: "auto" };

async function readIndex() {
  D = await store.index();
  if (D.schema !== "apportion.report/2") throw new Error(`this page shows apportion.report/2, the data are ${D.schema}`);
}

const credit = () => D.credits[now.credit];
const has = (t, c = now.credit) => D.trajectories[t].values[c] !== undefined;
const mine = () => D.trajectories.map((_, t) => t).filter((t) => has(t));
const stepsOf = (t) => Object.values(D.trajectories[t].values)[0].length;
const groupOf = (t) => D.groups[D.trajectories[t].group];

/** The page that holds a trajectory or a group; null while it is still on its way. */
const pageAt = (k) => (pages.has(k) && !(pages.get(k) instanceof Promise) ? pages.get(k) : null);
const pageOf = (t) => pageAt(D.trajectories[t].page);
const detailOf = (t) => pageOf(t).trajectories[t];
const text = (t, i) => (i === null || i === undefined ? "" : pageOf(t).texts[i]);
const stateOf = (t, s) => { const at = detailOf(t).steps[s].state; return at === undefined ? null : pageOf(t).states[at]; };

/** Bring a page; then (and only then) call what waits for it. */
async function bring(k) {
  if (!pages.has(k)) pages.set(k, store.page(k).then((data) => { pages.set(k, data); return data; }));
  return pages.get(k);
}

/** True where a page is there; else it is sent for, and what is shown now is drawn again when it has come. */
function ready(k) {
  if (pageAt(k)) return true;
  bring(k).then(() => draw({ ...now, tab: "" }, true), fail);
  return false;
}

function fail(error) {
  byId("problem").textContent = visible("This report cannot be read: " + error.message);
  byId("problem").hidden = false;
}

const worked = new Map();

/** Credit of every step of a trajectory: the mean over its tokens, null where unknown. Parts need its page. */
function values(t, c = now.credit, part = now.part) {
  if (part < 0 || !D.credits[c].parts.length) return D.trajectories[t].values[c];
  if (!pageOf(t)) return D.trajectories[t].values[c].map(() => null);
  const key = `${t}/${c}/${part}`;
  if (!worked.has(key)) worked.set(key, workOut(detailOf(t).credit[c], part));
  return worked.get(key);
}

function workOut(entry, part) {
  const unit = entry.parts[part];
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

/** Largest and smallest step of each trajectory under the credit of now; worked out once. */
const extremes = (() => {
  const kept = new Map();
  return (c = now.credit) => {
    if (!kept.has(c)) {
      kept.set(c, D.trajectories.map((_, t) => {
        if (!has(t, c)) return null;
        const list = known(values(t, c, -1));
        return list.length ? { high: list.reduce((a, b) => Math.max(a, b)), low: list.reduce((a, b) => Math.min(a, b)) } : { high: null, low: null };
      }));
    }
    return kept.get(c);
  };
})();

/** Colour of a unit is relative to this: 98% of the units stay below. */
const unitScale = (c = now.credit) => D.credits[c].scale;

/** The same for steps, turns and agents, which are means of units; a part is shown on the scale of the whole. */
const scale = (() => {
  const kept = new Map();
  return (c = now.credit) => {
    if (!kept.has(c)) {
      const sizes = D.trajectories.flatMap(({ values: list }) => (list[c] ? list[c].filter((x) => x).map(Math.abs) : [])).sort((a, b) => a - b);
      kept.set(c, sizes.length ? sizes[Math.min(sizes.length - 1, Math.floor(0.98 * sizes.length))] : 1);
    }
    return kept.get(c);
  };
})();

/** The step that the verdict names, or the one with the largest credit: where to look first. */
function strongest(t, c = now.credit) {
  const told = D.trajectories[t].verdict[c];
  if (told && told[0] !== null) return told[0];
  let best = 0, size = -1;
  (D.trajectories[t].values[c] || []).forEach((x, s) => { if (x !== null && Math.abs(x) > size) { best = s; size = Math.abs(x); } });
  return best;
}
