// Keys, and the overlay that tells them.

const KEYS = [
  ["j k", "next, previous trajectory"], ["→ ←", "next, previous step"], ["Home End", "first, last step"],
  ["x", "jump to the decisive step"], ["v", "next visit of the same state, by whoever made it"],
  ["c", "open or close the context of the step"], ["C", "open or close all contexts"],
  ["m", "next method"], ["p", "whole credit, parts stacked, each part"], ["b", "by step, turn, agent"],
  ["/", "filter"], ["1 … 6", "views, from left to right"], ["t", "light, dark"], ["?", "this help"], ["Esc", "close, or leave a field"],
];

function help() {
  const box = byId("help");
  box.replaceChildren(h("h2", { id: "help-title" }, "Keys"),
    h("table", null, h("tbody", null, ...KEYS.map(([keys, what]) => h("tr", null, h("td", { class: "name" }, ...keys.split(" ").flatMap((key) => [key === "…" ? "–" : h("kbd", null, key), " "])), h("td", null, what))))),
    h("p", { class: "small muted" }, "The address names the step shown (#t=…&s=…): copy it to point someone at it."),
    h("form", { class: "close" }, h("button", { class: "more", type: "button", on: { click: () => box.close() } }, "close")));
  if (!box.open) box.showModal();
}

const contexts = () => [...document.querySelectorAll("#steps details.context")];
const next = (list, value) => list[(list.indexOf(value) + 1) % list.length];

/** What each key does; a key that is not here is the browser's. */
const ACTS = {
  ArrowRight: () => go({ s: now.s + 1, tab: stepTab() }),
  ArrowLeft: () => go({ s: now.s - 1, tab: stepTab() }),
  j: () => move(1),
  k: () => move(-1),
  Home: () => go({ s: 0 }),
  End: () => go({ s: stepsOf(now.t) - 1 }),
  x: () => go({ s: strongest(now.t), tab: stepTab() }),
  v: otherVisit,
  c: () => { const box = document.querySelector(`#step-${now.s} details.context`); if (box) box.open = !box.open; },
  C: () => { const open = !contexts().some((box) => box.open); contexts().forEach((box) => { box.open = open; }); },
  m: () => { if (D.credits.length > 1) go({ credit: next(D.credits.map((_, c) => c).filter((c) => has(now.t, c)), now.credit) }); },
  p: () => { if (credit().parts.length) go({ part: next([-1, STACKED, ...credit().parts.map((_, p) => p)], now.part) }); },
  b: () => go({ by: next(levels(now.t), now.by) }),
  t: flip,
  "?": help,
  "/": () => { if (now.tab !== "groups") go({ tab: "trajectories" }); byId(now.tab === "groups" ? "group-filter" : "filter").focus(); },
};

/** The step that arrows move is shown in two views; from all others they lead to the transcript. */
const stepTab = () => (now.tab === "compare" ? "compare" : "trajectories");

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLElement && event.target.closest("input, select, textarea");
  if (event.key === "Escape" && typing) { event.target.blur(); return; }
  if (typing || byId("help").open) return;
  const tab = tabs()[Number(event.key) - 1];
  if (tab) go({ tab });
  else if (Object.hasOwn(ACTS, event.key)) ACTS[event.key]();
  else return;
  event.preventDefault();
}
