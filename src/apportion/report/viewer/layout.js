// The states of one group as a graph: nodes in columns by when they were first reached, edges by who went where.

const NODE = { wide: 166, high: 52, apart: 66, gap: 14 };
const MOST_NODES = 36;
const START = "start";
const LONG_HEAD = 24; // letters of a common beginning that may stand before what differs
const ENDS = 6, RANGES = 4; // so many outcomes are ends of their own; more are put into so many ranges

/** The end of a rollout with an outcome, among those of its group. */
function endNames(members) {
  const kinds = [...new Set(known(members.map((t) => D.trajectories[t].outcome)))];
  const low = kinds.reduce((a, b) => Math.min(a, b), Infinity), wide = (kinds.reduce((a, b) => Math.max(a, b), -Infinity) - low) / RANGES;
  return (outcome) => {
    if (outcome === null) return "not scored";
    if (kinds.length <= ENDS) return "outcome " + brief(outcome);
    const k = Math.min(RANGES - 1, Math.floor((outcome - low) / wide));
    return `${plain(low + k * wide)} to ${plain(low + (k + 1) * wide)}`;
  };
}

/** Nodes {key, kind, state?, rollouts, …} and edges {from, to, rollouts, actions, credits, unseen} of one group. */
function groupGraph(g, most = MOST_NODES) {
  const page = pageAt(D.groups[g].page);
  const own = page.states.map((state, i) => i).filter((i) => page.states[i].group === g);
  const kept = new Set(own.slice().sort((a, b) => page.states[b].visits.length - page.states[a].visits.length).slice(0, most));
  if (own.includes(now.state)) kept.add(now.state);
  const nodes = new Map();
  const edges = new Map();
  const node = (key, make) => { if (!nodes.has(key)) nodes.set(key, { key, rollouts: new Set(), ranks: [], ...make }); return nodes.get(key); };
  const members = D.groups[g].members.filter((t) => has(t));
  const endName = endNames(members);
  for (const t of members) {
    const { steps } = page.trajectories[t];
    let from = node(START, { kind: "start" }), place = -1, unseen = 0, rank = 0;
    from.rollouts.add(t);
    const arrive = (to) => {
      const key = from.key + ">" + to.key;
      if (!edges.has(key)) edges.set(key, { from: from.key, to: to.key, rollouts: new Set(), actions: new Map(), credits: [], unseen: 0 });
      const edge = edges.get(key);
      edge.rollouts.add(t);
      edge.unseen += unseen;
      if (place >= 0) {
        const did = page.texts[steps[place].action].trim();
        edge.actions.set(did, (edge.actions.get(did) || 0) + 1);
        edge.credits.push(values(t, now.credit, Math.max(now.part, -1))[place]);
      }
    };
    steps.forEach((step, s) => {
      if (step.state === undefined || !kept.has(step.state)) { unseen += 1; return; }
      const to = node("s" + step.state, { kind: "state", at: step.state, state: page.states[step.state] });
      if (!to.rollouts.has(t)) to.ranks.push(rank++);
      to.rollouts.add(t);
      arrive(to); // also where it stayed: the table tells of it, the picture does not draw it
      from = to; place = s; unseen = 0;
    });
    const name = endName(D.trajectories[t].outcome);
    const to = node("end " + name, { kind: "end", name });
    to.rollouts.add(t);
    arrive(to);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()], left: own.length - kept.size, all: own.length };
}

/** Give each node its place; returns the size of the picture. */
function layOut({ nodes, edges }) {
  const columns = new Map();
  const steps = nodes.filter((node) => node.kind === "state");
  for (const node of steps) node.rank = Math.round(average(node.ranks) ?? 0);
  const ranks = [...new Set(steps.map((node) => node.rank))].sort((a, b) => a - b);
  for (const node of nodes) {
    node.column = node.kind === "start" ? 0 : node.kind === "end" ? ranks.length + 1 : 1 + ranks.indexOf(node.rank);
    if (!columns.has(node.column)) columns.set(node.column, []);
    columns.get(node.column).push(node);
  }
  const near = new Map(nodes.map((node) => [node.key, []]));
  for (const { from, to, rollouts } of edges) {
    if (from === to) continue;
    near.get(from).push([to, rollouts.size]);
    near.get(to).push([from, rollouts.size]);
  }
  const place = new Map();
  const spread = (list) => list.forEach((node, i) => place.set(node.key, i - (list.length - 1) / 2));
  for (const list of columns.values()) spread(list);
  for (let sweep = 0; sweep < 6; sweep++) {
    for (const list of columns.values()) { // each node goes to the middle of those it is tied to
      const pull = new Map(list.map((node) => {
        const ties = near.get(node.key);
        const weight = ties.reduce((sum, [, size]) => sum + size, 0);
        return [node.key, weight ? ties.reduce((sum, [key, size]) => sum + size * place.get(key), 0) / weight : 0];
      }));
      list.sort((a, b) => pull.get(a.key) - pull.get(b.key) || (a.key < b.key ? -1 : 1));
      spread(list);
    }
  }
  const tallest = Math.max(...[...columns.values()].map((list) => list.length));
  const columnOf = new Map(nodes.map((node) => [node.key, node.column]));
  const back = edges.some(({ from, to }) => from !== to && columnOf.get(to) <= columnOf.get(from));
  const height = tallest * (NODE.high + NODE.gap) + (back ? 64 : 24);
  for (const node of nodes) {
    node.wide = node.kind === "state" ? NODE.wide : 104;
    node.x = node.column === 0 ? 0 : 104 + NODE.apart + (node.column - 1) * (NODE.wide + NODE.apart);
    node.y = height / 2 - (back ? 20 : 0) + place.get(node.key) * (NODE.high + NODE.gap) - NODE.high / 2;
  }
  return { width: Math.max(...nodes.map((node) => node.x + node.wide)) + 2, height };
}

/** The line of an edge: to the right it runs from side to side, back it runs below. */
function edgeLine(from, to) {
  const y1 = from.y + NODE.high / 2, y2 = to.y + NODE.high / 2;
  if (to.column > from.column) {
    const x1 = from.x + from.wide, x2 = to.x, bend = Math.max(28, (x2 - x1) / 2);
    const around = to.column - from.column > 1 ? (y2 > y1 ? 1 : -1) * 1.4 * NODE.high : 0; // past the boxes between
    return `M${x1} ${y1}C${x1 + bend / 2} ${y1 + around} ${x2 - bend} ${y2 + around / 2} ${x2} ${y2}`;
  }
  const x1 = from.x + from.wide / 2 + 14, x2 = to.x + to.wide / 2 - 14, low = 26 + Math.abs(from.column - to.column) * 7;
  const b1 = from.y + NODE.high, b2 = to.y + NODE.high;
  return `M${x1} ${b1}C${x1} ${b1 + low} ${x2} ${b2 + low} ${x2} ${b2}`;
}

/** What tells texts apart: without the words that all of them begin or end with. */
function distinctive(texts) {
  const words = texts.map((text) => preview(text, 2000).split(" "));
  if (words.length < 2) return words.map((list) => list.join(" "));
  const shortest = Math.min(...words.map((list) => list.length));
  let head = 0, tail = 0;
  while (head < shortest && words.every((list) => list[head] === words[0][head])) head++;
  while (tail < shortest - head && words.every((list) => list[list.length - 1 - tail] === words[0][words[0].length - 1 - tail])) tail++;
  return words.map((list) => {
    const rest = list.slice(head, list.length - tail).join(" ");
    return rest ? (head ? "…" : "") + rest : list.join(" ");
  });
}

/** Texts in one line each, so that two that begin alike are seen to differ: a long common beginning is left out. */
function parted(texts) {
  const words = texts.map((text) => preview(text, 2000).split(" "));
  const lines = words.map((list) => list.join(" "));
  const order = texts.map((_, i) => i).sort((a, b) => (lines[a] < lines[b] ? -1 : 1)); // by code: like beginnings side by side
  const shared = (a, b) => { let k = 0; while (k < words[a].length && words[a][k] === words[b][k]) k++; return k; };
  const heads = texts.map(() => 0);
  for (let at = 1; at < order.length; at++) {
    const [a, b] = [order[at - 1], order[at]];
    const k = shared(a, b);
    heads[a] = Math.max(heads[a], k);
    heads[b] = Math.max(heads[b], k);
  }
  return words.map((list, i) => (heads[i] < list.length && list.slice(0, heads[i]).join(" ").length > LONG_HEAD
    ? `${list[0]} … ${list.slice(heads[i]).join(" ")}` : lines[i]));
}

/** At most two lines of about so many letters. */
function twoLines(text, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines[lines.length - 1] ? lines[lines.length - 1] + " " + word : word;
    if (longer.length <= most || !lines[lines.length - 1]) lines[lines.length - 1] = longer;
    else if (lines.length < 2) lines.push(word);
    else { lines[1] += " …"; break; }
  }
  return lines.map((line) => (line.length > most + 2 ? line.slice(0, most) + "…" : line));
}
