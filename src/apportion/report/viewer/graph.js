// The graph of a group, drawn: who came by which state, what they did there, and how it ended.

/** How much the mean credit of the actions of a state differs. */
function spreadOf(state) {
  const means = known(state.actions.map((action) => creditOf(state, action)));
  return means.length > 1 ? Math.max(...means) - Math.min(...means) : 0;
}

function drawGraph(graph, chosen, choose) {
  const { width, height } = layOut(graph);
  const byKey = new Map(graph.nodes.map((node) => [node.key, node]));
  const states = graph.nodes.filter((node) => node.kind === "state");
  const page = pageAt(D.groups[D.trajectories[now.t].group].page);
  distinctive(states.map((node) => page.texts[node.state.text])).forEach((words, i) => { states[i].words = words; });
  const most = Math.max(1, ...graph.nodes.map((node) => node.rollouts.size));
  const widest = Math.max(1e-12, ...states.map((node) => (node.spread = spreadOf(node.state))));
  const lines = graph.edges.filter((edge) => edge.from !== edge.to)
    .sort((a, b) => a.rollouts.has(now.t) - b.rollouts.has(now.t)) // the way of the trajectory shown lies on top
    .map((edge) => edgePath(edge, byKey, most));
  const boxes = graph.nodes.map((node) => nodeBox(node, widest, chosen, choose));
  return h("div", { class: "graph-pane", tabindex: "0", role: "group", "aria-label": "State graph; the same is in the tables below" },
    svg("svg", { class: "graph", width: width + 4, height, viewBox: `-2 0 ${width + 4} ${height}` }, svg("g", { class: "edges" }, ...lines), ...boxes));
}

function edgePath(edge, byKey, most) {
  const mean = average(known(edge.credits));
  const path = paint(svg("path", { class: "edge" + (edge.rollouts.has(now.t) ? " own" : "") + (edge.unseen ? " dashed" : ""), d: edgeLine(byKey.get(edge.from), byKey.get(edge.to)) },
    svg("title", null, edgeWords(edge, byKey))), edge.credits.length ? mean : 0, scale());
  path.style.setProperty("--width", (1 + 5 * edge.rollouts.size / most).toFixed(2) + "px");
  return path;
}

const nodeName = (node) => (node.kind === "start" ? "start" : node.kind === "end" ? node.name : node.words);
const didWhat = (edge) => [...edge.actions].sort((a, b) => b[1] - a[1]).map(([did, n]) => `${preview(did, 80) || "nothing"}${n > 1 ? ` (${n}×)` : ""}`);

function edgeWords(edge, byKey) {
  const who = [...edge.rollouts].map((t) => D.trajectories[t].id);
  const did = didWhat(edge);
  return [`${preview(nodeName(byKey.get(edge.from)), 80)} → ${preview(nodeName(byKey.get(edge.to)), 80)}`,
    `${plural(who.length, "rollout")}: ${who.slice(0, 8).join(", ")}${who.length > 8 ? " …" : ""}`,
    did.length ? "did: " + did.slice(0, 5).join("; ") : null,
    edge.credits.length ? "mean credit " + signed(average(known(edge.credits))) : null,
    edge.unseen ? `by way of ${plural(edge.unseen, "step")} in states that nobody shared` : null].filter(Boolean).join("\n");
}

function nodeBox(node, widest, chosen, choose) {
  const own = node.rollouts.has(now.t) ? " own" : "";
  const { x, y, wide } = node;
  if (node.kind !== "state") {
    return svg("g", { class: "node " + node.kind + own, transform: `translate(${x} ${y})` },
      svg("rect", { width: wide, height: NODE.high, rx: 26 }),
      svg("text", { x: wide / 2, y: 22, "text-anchor": "middle", class: "strong" }, nodeName(node)),
      svg("text", { x: wide / 2, y: 38, "text-anchor": "middle", class: "fine" }, plural(node.rollouts.size, "rollout")));
  }
  const { visits } = node.state;
  const act = () => choose(node.at);
  const words = twoLines(visible(node.words), 21);
  const box = svg("g", {
    class: "node state" + own + (node.at === chosen ? " chosen" : ""), transform: `translate(${x} ${y})`, tabindex: "0", role: "button",
    "aria-label": `${preview(node.words, 120)}; ${plural(visits.length, "visit")} by ${plural(node.rollouts.size, "rollout")}; credit of the actions differs by ${plain(node.spread)}`,
    "aria-pressed": String(node.at === chosen),
    on: { click: act, keydown: (event) => { if (event.key === "Enter" || event.key === " ") { act(); event.preventDefault(); event.stopPropagation(); } } },
  },
  svg("title", null, preview(node.words, 400)),
  svg("rect", { width: wide, height: NODE.high, rx: 8 }),
  svg("rect", { class: "spread", x: 0.5, y: NODE.high - 3.5, width: Math.max(0, (wide - 1) * node.spread / widest), height: 3, rx: 1.5 }),
  ...words.map((line, i) => svg("text", { x: 9, y: 16 + 13 * i, class: "label" }, line)),
  svg("text", { x: 9, y: NODE.high - 8, class: "fine" }, `${visits.length}× by ${node.rollouts.size}${node.spread ? ` · Δ ${plain(node.spread)}` : ""}`));
  return box;
}

/** The same as a table: from where to where, by doing what, who, and with what credit. */
function edgeTable(graph) {
  const byKey = new Map(graph.nodes.map((node) => [node.key, node]));
  const rows = graph.edges.slice().sort((a, b) => b.rollouts.size - a.rollouts.size);
  const cell = (words) => h("div", { class: "one-line", dir: "auto", title: preview(words) }, preview(words, 120));
  return table([
    { name: "from", value: (edge) => nodeName(byKey.get(edge.from)), cell: (edge) => cell(nodeName(byKey.get(edge.from))), wide: true },
    { name: "did", value: (edge) => didWhat(edge).join("; "), cell: (edge) => cell(didWhat(edge).join("; ")), wide: true },
    { name: "to", value: (edge) => nodeName(byKey.get(edge.to)), cell: (edge) => cell(nodeName(byKey.get(edge.to))), wide: true },
    { name: "rollouts", num: true, value: (edge) => edge.rollouts.size },
    { name: "mean credit", num: true, value: (edge) => average(known(edge.credits)), cell: (edge) => (edge.credits.length ? signed(average(known(edge.credits))) : "–") },
  ], rows, { most: 100, label: "Ways between states" });
}
