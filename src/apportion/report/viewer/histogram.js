// How numbers are spread, as bars and as a table.

function histogram({ counts, edges }, unit, label) {
  const most = Math.max(1, ...counts);
  const middle = (counts.length - 1) / 2;
  return h("div", null,
    h("div", { class: "histogram", role: "img", "aria-label": label + "; the numbers are in the table below" },
      ...counts.map((count, i) => h("span", {
        class: i < middle ? "neg" : i > middle ? "pos" : "mid", css: { "--size": (count / most).toFixed(4) }, title: `${signed(edges[i])} to ${signed(edges[i + 1])}: ${count}`,
      }))),
    h("div", { class: "scale" }, h("span", null, signed(edges[0])), h("span", null, "0"), h("span", null, signed(edges[edges.length - 1]))),
    h("details", { class: "context" }, h("summary", null, "as numbers"),
      plainTable(["from", "to", unit + "s"], counts.flatMap((count, i) => (count ? [[signed(edges[i]), signed(edges[i + 1]), count]] : [])))));
}

function histogramCard() {
  const { histogram: whole, part_histograms: parts, level, parts: names } = credit();
  const { counts, zeros } = whole;
  const middle = (counts.length - 1) / 2;
  const sum = (list) => list.reduce((a, b) => a + b, 0).toLocaleString("en");
  return h("section", { class: "card" }, h("h2", null, "How credit is spread"),
    h("p", { class: "lead" }, `${sum(counts.slice(middle + 1))} ${level}s right of the middle, ${sum(counts.slice(0, middle))} left of it${zeros ? `, and ${zeros.toLocaleString("en")} exactly zero (not drawn)` : ""}.`),
    histogram(whole, level, "Histogram of the credit"),
    parts.length ? h("div", { class: "small-charts" }, ...parts.map((part, p) => h("div", null, h("h3", null, "part ", names[p]), histogram(part, level, "Histogram of the part " + names[p])))) : null);
}

/** Credit early and late: methods that only reward position show here. */
function positionCard() {
  const most = 10;
  const bins = Array.from({ length: most }, () => []);
  for (const t of mine()) {
    const list = values(t, now.credit, -1);
    list.forEach((x, s) => { if (x !== null && list.length > 1) bins[Math.min(most - 1, Math.floor(most * s / list.length))].push(x); });
  }
  const rows = bins.map((list, i) => ({ name: `${10 * i}–${10 * (i + 1)}%`, mean: average(list), size: average(list.map(Math.abs)), n: list.length }));
  if (!rows.some((row) => row.n)) return null;
  const top = Math.max(...rows.map((row) => row.size ?? 0)) || 1;
  return h("section", { class: "card" }, h("h2", null, "Where credit falls"),
    h("p", { class: "lead" }, "Steps by their place in the trajectory, from first to last. The bar is the mean credit, the outline the mean size: bars far below their outline mean that credit and blame cancel out."),
    h("div", { class: "places", role: "img", "aria-label": "Credit by place in the trajectory; the numbers are in the table below" },
      ...rows.map((row) => h("span", { title: `${row.name}: mean ${signed(row.mean)}, mean size ${plain(row.size)}`, css: { "--mean": (Math.abs(row.mean ?? 0) / top).toFixed(3), "--all": ((row.size ?? 0) / top).toFixed(3) } },
        h("i", { class: "outline" }), row.mean ? h("i", { class: row.mean > 0 ? "pos" : "neg" }) : null))),
    h("div", { class: "scale" }, h("span", null, "first"), h("span", null, "last")),
    h("details", { class: "context" }, h("summary", null, "as numbers"),
      plainTable(["place", "mean", "mean size", "steps"], rows.map((row) => [row.name, signed(row.mean), plain(row.size), brief(row.n)]))));
}

/** Outcomes of the trajectories: what there is to divide. */
function outcomeCard() {
  const list = known(mine().map((t) => D.trajectories[t].outcome));
  if (!list.length) return null;
  const kinds = [...new Set(list)].sort((a, b) => a - b);
  let rows;
  if (kinds.length <= 12) rows = kinds.map((kind) => [brief(kind), list.filter((x) => x === kind).length]);
  else {
    const low = kinds[0], wide = (kinds[kinds.length - 1] - low) / 12;
    rows = Array.from({ length: 12 }, (_, i) => [`${plain(low + i * wide)} to ${plain(low + (i + 1) * wide)}`, 0]);
    for (const x of list) rows[Math.min(11, Math.floor((x - low) / wide))][1] += 1;
  }
  const most = Math.max(...rows.map(([, count]) => count));
  return h("section", { class: "card" }, h("h2", null, "Outcomes"),
    h("p", { class: "lead" }, "What there is to divide: ", plural(list.length, "scored trajectory"), ", mean ", brief(average(list)), "."),
    h("table", null, h("tbody", null, ...rows.map(([name, count]) => h("tr", null, h("td", { class: "name num" }, name),
      h("td", { class: "wide" }, h("span", { class: "length", css: { "--size": (count / most).toFixed(3) } })), h("td", { class: "num" }, brief(count)))))));
}
