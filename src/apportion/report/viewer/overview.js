// The whole batch in one page: what was learned, how methods compare with the truth, how credit is spread.

const NOTES = {
  groups: "groups", groups_of_one: "groups of one (nobody to compare with)", constant_groups: "groups whose outcomes are all equal",
  unknown_trajectories: "trajectories left out (not scored, broken, without tokens)", states: "distinct states",
  units_without_company: "units in a state that nobody else visited", share_with_company: "share of units with company in their state",
  own_repeats: "visits that repeat a trajectory's own state",
};

function drawOverview() {
  if (byId("overview").childElementCount && overviewKey === String(now.credit)) return;
  overviewKey = String(now.credit);
  byId("overview").replaceChildren(h("div", { class: "cards" },
    D.learning ? learningCard(D.learning) : null,
    D.truth ? truthCard(D.truth) : null,
    h("div", { class: "stack" }, factsCard(), notesCard()), histogramCard(), groupsCard()));
}
let overviewKey = "";

function factsCard() {
  const entry = credit();
  const mine = D.trajectories.filter((_, t) => has(t));
  const scored = mine.filter((trajectory) => trajectory.outcome !== null);
  const mean = scored.length ? scored.reduce((sum, trajectory) => sum + trajectory.outcome, 0) / scored.length : null;
  const groups = new Set(mine.map((trajectory) => trajectory.group));
  const fact = (name, value, of) => h("div", null, h("dt", null, name), h("dd", null, value, of ? h("span", { class: "of" }, " " + of) : null));
  return h("section", { class: "card" }, h("h2", null, "Credit by ", entry.label), h("p", { class: "lead" }, `One number per ${entry.level}.`),
    h("dl", { class: "facts" },
      fact("trajectories", brief(mine.length), `in ${plural(groups.size, "group")}`),
      fact("mean outcome", brief(mean), scored.length < mine.length ? `${mine.length - scored.length} not scored` : ""),
      fact(entry.level + "s", brief(entry.units)),
      fact("known", percent(entry.known, entry.units)),
      fact("trained on", percent(entry.trained, entry.units)),
      entry.cost.requests ? fact("requests", brief(entry.cost.requests), `${brief(entry.cost.generated_tokens)} tokens generated`) : null));
}

const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(part === whole || !part ? 0 : 1) + "%" : "–");

function histogramCard() {
  const { histogram: { counts, edges, zeros }, level } = credit();
  const most = Math.max(1, ...counts);
  const middle = (counts.length - 1) / 2;
  return h("section", { class: "card" }, h("h2", null, "How credit is spread"),
    h("p", { class: "lead" }, `${plural(counts.slice(0, middle).reduce((a, b) => a + b, 0), level)} left of the middle, ${counts.slice(middle + 1).reduce((a, b) => a + b, 0).toLocaleString("en")} right of it${zeros ? `, and ${zeros.toLocaleString("en")} exactly zero (not drawn)` : ""}.`),
    h("div", { class: "histogram", role: "img", "aria-label": "Histogram; the numbers are in the table below" },
      ...counts.map((count, i) => h("span", {
        class: i < middle ? "neg" : i > middle ? "pos" : "mid", css: { "--size": (count / most).toFixed(4) }, title: `${signed(edges[i])} to ${signed(edges[i + 1])}: ${count}`,
      }))),
    h("div", { class: "scale" }, h("span", null, signed(edges[0])), h("span", null, "0"), h("span", null, signed(edges[edges.length - 1]))),
    h("details", { class: "context" }, h("summary", null, "as numbers"),
      h("table", null, h("thead", null, h("tr", null, h("th", null, "from"), h("th", null, "to"), h("th", { class: "num" }, level + "s"))),
        h("tbody", null, ...counts.map((count, i) => (count ? h("tr", null, h("td", null, signed(edges[i])), h("td", null, signed(edges[i + 1])), h("td", { class: "num" }, count)) : null))))));
}

function notesCard() {
  const notes = Object.entries(credit().notes);
  if (!notes.length) return null;
  return h("section", { class: "card" }, h("h2", null, "What the method noticed"), h("p", { class: "lead" }, "Counts that decide how far the numbers can be trusted."),
    h("table", null, h("tbody", null, ...notes.map(([name, value]) => h("tr", null, h("td", null, NOTES[name] || name.replaceAll("_", " ")),
      h("td", { class: "num" }, typeof value === "number" ? (name.startsWith("share") ? percent(value, 1) : brief(value)) : value))))));
}

function groupsCard() {
  const range = extremes();
  const rows = D.groups.map((group, g) => {
    const known = group.members.filter((t) => has(t)).map((t) => range[t]);
    if (!known.length) return null;
    const size = Math.max(0, ...known.map(({ high, low }) => Math.max(Math.abs(high ?? 0), Math.abs(low ?? 0))));
    const states = D.states.filter((state) => state.group === g).length;
    return { ...group, g, size, states };
  }).filter(Boolean);
  const most = Math.max(scale(), ...rows.map((row) => row.size));
  return h("section", { class: "card full" }, h("h2", null, "Groups"), h("p", { class: "lead" }, "Same task, same start state. Outcomes are compared inside a group; a group whose outcomes are all equal teaches nothing."),
    table([
      { name: "group", wide: true, value: (row) => row.name, cell: (row) => h("div", { class: "one-line", dir: "auto" }, row.name) },
      { name: "members", num: true, value: (row) => row.members.length, cell: (row) => (row.valid < row.members.length ? `${row.valid} of ${row.members.length}` : row.members.length) },
      { name: "mean outcome", num: true, value: (row) => row.mean, cell: (row) => brief(row.mean) },
      { name: "lowest", num: true, value: (row) => row.low, cell: (row) => brief(row.low) },
      { name: "highest", num: true, value: (row) => row.high, cell: (row) => brief(row.high) },
      { name: "shared states", num: true, value: (row) => row.states },
      { name: "largest credit", num: true, value: (row) => row.size, cell: (row) => [meter(row.size, most), " ", plain(row.size)] },
    ], rows, { go: (row) => go({ t: row.members[0], s: strongest(row.members[0]), tab: "trajectories" }) }));
}

/** Success of each arm with its interval, and the learning curves. */
function learningCard(learning) {
  const arms = Object.entries(learning.arms);
  const greedy = arms.some(([, arm]) => typeof arm.greedy_mean === "number") || typeof learning.before_greedy === "number";
  const figures = (mean, ends, low, high) => [h("td", null, interval(mean, ends, low, high)), h("td", { class: "num" }, plain(mean)),
    h("td", { class: "num muted" }, Array.isArray(ends) && typeof ends[0] === "number" ? `${plain(ends[0])} to ${plain(ends[1])}` : "")];
  const names = ["method", greedy ? "success, sampled" : "success", "", "95% interval", ...(greedy ? ["success, greedy", "", "95% interval"] : []), "each seed"];
  const row = (name, arm) => h("tr", null, h("td", { class: "name" }, name), figures(arm.mean, arm.ci95, 0, 1), greedy ? figures(arm.greedy_mean, arm.greedy_ci95, 0, 1) : null,
    h("td", { class: "num" }, (arm.success || []).map(plain).join(" · ")));
  return h("section", { class: "card full" }, h("h2", null, "What was learned", learning.env ? h("span", { class: "muted" }, " on ", learning.env) : null),
    h("p", { class: "lead" }, "Success on held-out tasks, from 0 to 1; the bar is the 95% interval over seeds."),
    h("table", null, h("thead", null, h("tr", null, ...names.map((name) => h("th", { class: name.startsWith("95") || name === "each seed" ? "num" : null }, name)))),
      h("tbody", null, ...arms.map(([name, arm]) => row(name, arm)),
        typeof learning.before === "number" ? row("before training", { mean: learning.before, greedy_mean: learning.before_greedy }) : null)),
    learning.difference ? verdict(learning.difference) : null,
    D.pictures && D.pictures.learning ? ["light", "dark"].map((theme) => picture(D.pictures.learning[theme], theme, "Learning curves; the bands are 95% intervals")) : null,
    learning.curves ? curveTable(learning) : null);
}

/** The paired difference in words: whether this run tells the methods apart. */
function verdict({ of, mean, ci95: [low, high] = [] }) {
  const known = typeof low === "number" && typeof high === "number";
  const tells = !known ? "" : low > 0 || high < 0 ? " The interval leaves zero out: the methods differ here." : " The interval holds zero: this run does not tell the methods apart.";
  return h("p", null, `Paired difference, ${of || "second minus first"}: `, h("b", { class: "num" }, signed(mean)), known ? ` (95% interval ${signed(low)} to ${signed(high)}).` : ".", tells);
}

function curveTable({ curves, x_label: x }) {
  return h("details", { class: "context" }, h("summary", null, "the curves as numbers"),
    h("table", null, h("thead", null, h("tr", null, ...["method", x || "x", "mean", "low", "high"].map((name) => h("th", null, name)))),
      h("tbody", null, ...Object.entries(curves).flatMap(([name, curve]) => curve.x.map((at, i) => h("tr", null, h("td", null, name), h("td", { class: "num" }, brief(at)),
        ...["mean", "lo", "hi"].map((key) => h("td", { class: "num" }, curve[key] ? plain(curve[key][i]) : "–"))))))));
}

/** The picture was drawn when the report was written; as an image it can run nothing. */
function picture(source, theme, words) {
  const image = h("img", { class: "picture " + theme, alt: words });
  if (source.startsWith("data:image/svg+xml;base64,")) image.src = source;
  return image;
}

function truthCard(truth) {
  const names = { grad_cos: "gradient cosine", grad_cos_mean: "mean gradient cosine", corr: "correlation", sign: "sign agreement" };
  const titles = {
    grad_cos: "cosine of one batch's policy gradient with the exact one", grad_cos_mean: "cosine of the gradient averaged over many batches: what is left is bias",
    corr: "correlation with the exact advantage; easily gamed by marking only the rewarded step", sign: "share of steps with the sign of the exact advantage",
  };
  return h("section", { class: "card full" }, h("h2", null, "Against the truth"),
    h("p", { class: "lead" }, "On tasks small enough to be solved exactly. The gradient cosines are the headline: do updates with this credit point where the exact gradient points? Correlation is easily gamed by marking only the rewarded step."),
    ...Object.entries(truth).map(([task, methods]) => {
      const rows = Object.entries(methods).map(([method, scores]) => ({ method, ...scores }));
      const keys = Object.keys(names).filter((key) => rows.some((row) => row[key] !== undefined && row[key] !== null));
      const extra = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((key) => key !== "method" && !(key in names) && rows.some((row) => point(row[key]) !== null));
      return h("div", null, h("h3", null, task), table([
        { name: "method", value: (row) => row.method },
        ...[...keys, ...extra].map((key) => ({
          name: names[key] || key.replaceAll("_", " "), title: titles[key], num: true, value: (row) => point(row[key]),
          cell: (row) => (Array.isArray(row[key]) ? withInterval(row[key]) : plain(point(row[key]))),
        })),
      ], rows, { start: keys.length ? { column: 1, down: true } : null }));
    }));
}

const withInterval = ([mean, low, high]) => [interval(mean, [low, high], -1, 1), h("span", { class: "figure" }, plain(mean)),
  h("span", { class: "figure muted small" }, typeof low === "number" ? `${plain(low)} to ${plain(high)}` : "")];

const point = (x) => (Array.isArray(x) ? point(x[0]) : typeof x === "number" ? x : null);

/** A dot with its interval on a line from low to high. */
function interval(mean, ends, low, high) {
  const place = (x) => (high > low ? (Math.min(high, Math.max(low, x)) - low) / (high - low) : 0.5);
  const whole = Array.isArray(ends) && ends.length === 2 && ends.every((x) => typeof x === "number");
  return h("span", { class: "interval", "aria-hidden": "true", css: { "--zero-at": place(0) } },
    h("span", { class: "zero" }),
    whole ? h("span", { class: "range", css: { "--lo": place(ends[0]), "--hi": place(ends[1]) } }) : null,
    typeof mean === "number" ? h("span", { class: "dot", css: { "--at": place(mean) } }) : null);
}

function drawAbout() {
  if (byId("about").childElementCount) return;
  byId("about").replaceChildren(h("div", { class: "cards" },
    h("section", { class: "card full" }, h("h2", null, "How to read this page"),
      h("p", { class: "lead" }, "Blue and up is credit: the step did better than what it is compared with. Orange and down is blame. A hatched “?” is unknown, which is not zero: nobody scored it, or it broke. A dashed frame marks steps that the method does not train on."),
      h("p", { class: "lead" }, "The number of a step is the mean over the tokens sampled in it. Colour is full at the size that 98% of the units stay below. The page holds everything it shows and fetches nothing.")),
    ...D.credits.map((entry) => h("section", { class: "card" }, h("h2", null, entry.label),
      h("p", { class: "lead" }, "What is needed to make these numbers again from the rollouts (apportion.remake)."),
      h("pre", { class: "record", dir: "auto" }, JSON.stringify(entry.record, null, 2)))),
    D.facts ? h("section", { class: "card" }, h("h2", null, "This run"), h("table", null, h("tbody", null,
      ...Object.entries(D.facts).map(([name, value]) => h("tr", null, h("td", null, name.replaceAll("_", " ")), h("td", { class: "num" }, typeof value === "number" ? plain(value) : typeof value === "string" ? value : JSON.stringify(value))))))) : null,
    h("section", { class: "card" }, h("h2", null, "Made by"), h("p", { class: "lead" }, `apportion ${D.version}, ${D.schema}`))));
}
