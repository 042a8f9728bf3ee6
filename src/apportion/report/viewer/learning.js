// What was learned, and how methods compare with the truth: what the report of a training run begins with.

/** Success of each arm with its interval, and the learning curves. */
function learningCard(learning) {
  const arms = Object.entries(learning.arms);
  const greedy = arms.some(([, arm]) => typeof arm.greedy_mean === "number") || typeof learning.before_greedy === "number";
  const figures = (mean, ends, low, high) => [h("td", null, interval(mean, ends, low, high)), h("td", { class: "num" }, plain(mean)),
    h("td", { class: "num muted" }, Array.isArray(ends) && typeof ends[0] === "number" ? `${plain(ends[0])} to ${plain(ends[1])}` : "")];
  const names = ["method", greedy ? "success, sampled" : "success", "", "95% interval", ...(greedy ? ["success, greedy", "", "95% interval"] : []), greedy ? "each seed, sampled" : "each seed"];
  const row = (name, arm) => h("tr", null, h("td", { class: "name" }, name), figures(arm.mean, arm.ci95, 0, 1), greedy ? figures(arm.greedy_mean, arm.greedy_ci95, 0, 1) : null,
    h("td", { class: "num" }, (arm.success || []).map(plain).join(" · ")));
  return h("section", { class: "card full" }, h("h2", null, "What was learned", learning.env ? h("span", { class: "muted" }, " on ", learning.env) : null),
    h("p", { class: "lead" }, "Success on held-out tasks, from 0 to 1; the bar is the 95% interval over seeds."),
    h("table", null, h("thead", null, h("tr", null, ...names.map((name) => h("th", { class: name.startsWith("95") || name.startsWith("each seed") ? "num" : null }, name)))),
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
    Object.values(truth).some((methods) => "exact advantage" in methods) ? h("p", { class: "lead" }, "Exact advantage, immediate reward and random are no methods but controls: the first is the most that the noise of one batch allows, the last is nothing. Methods that read values, gae and its kin, were given the exact ones, which nobody has.") : null,
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
