// The levels at which one trajectory can be read: its steps, its turns, its agents, and the tokens inside a step.

/** The units that wrote something in a step. */
const unitsOf = (entry, s) => [...new Set(entry.runs[s].map(([u]) => u))];

/** A run that the loss leaves out, because its unit or its tokens are dropped. */
const isIdle = (entry, [u, , , trained]) => trained === 0 || Boolean(entry.dropped && entry.dropped.includes(u));

const tokensOf = (runs) => runs.reduce((sum, [, , tokens]) => sum + tokens, 0);

/** Tokens of a step that the method trains on, and all of them. */
const trainedOf = (entry, s) => [tokensOf(entry.runs[s].filter((run) => !isIdle(entry, run))), tokensOf(entry.runs[s])];

/** Steps that share the unit of this step (a turn, an episode, an agent); empty when it has its own. */
function companions(t, s, c = now.credit) {
  const entry = detailOf(t).credit[c];
  const [u, ...others] = unitsOf(entry, s);
  if (u === undefined || others.length) return [];
  const out = [];
  entry.runs.forEach((runs, k) => { if (k !== s && runs.some(([v]) => v === u)) out.push(k); });
  return out;
}

/** The levels that say something of their own here. */
function levels(t) {
  if (!pageOf(t)) return ["step"];
  const { steps } = detailOf(t);
  const turns = new Set(steps.map((step) => step.turn)).size, agents = new Set(steps.map((step) => step.agent || "")).size;
  return ["step", ...(turns > 1 && turns < steps.length ? ["turn"] : []), ...(agents > 1 ? ["agent"] : [])];
}

/** The trajectory cut by the level of now: [{name, short, steps, value}], value the mean over tokens, null where unknown. */
function spans(t, c = now.credit, part = now.part, by = now.by) {
  const list = values(t, c, part);
  const level = levels(t).includes(by) ? by : "step";
  if (level === "step") return list.map((value, s) => ({ name: `step ${s}`, short: String(s), steps: [s], value }));
  const { steps, credit: credits } = detailOf(t);
  const kept = new Map();
  steps.forEach((step, s) => {
    const key = level === "turn" ? step.turn : step.agent || "";
    if (!kept.has(key)) kept.set(key, { name: level === "turn" ? `turn ${kept.size}` : step.agent || "nobody named", steps: [] });
    kept.get(key).steps.push(s);
  });
  return [...kept.values()].map((span, i) => {
    let sum = 0, size = 0;
    for (const s of span.steps) {
      if (list[s] === null) continue;
      const weight = Math.max(1, tokensOf(credits[c].runs[s]));
      sum += list[s] * weight;
      size += weight;
    }
    return { ...span, short: level === "turn" ? String(i) : span.name, value: size ? sum / size : null };
  });
}

/** The span that a step is in. */
const spanOf = (t, s) => spans(t).find((span) => span.steps.includes(s));
