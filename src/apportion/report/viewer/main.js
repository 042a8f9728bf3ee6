// Tabs, links, keys, theme: everything that changes what is shown goes through go().

const TABS = { trajectories: "Trajectories", states: "States", overview: "Overview", about: "About" };
const KEYS = [
  ["j k", "next, previous trajectory"], ["→ ←", "next, previous step"], ["Home End", "first, last step"],
  ["x", "jump to the step with the most credit or blame"], ["c", "open or close the context of the step"], ["C", "open or close all contexts"],
  ["m", "next method"], ["p", "next part of the credit"], ["/", "filter"], ["1 2 3 4", "views"], ["t", "light, dark"], ["?", "this help"],
];

function go(change) {
  const before = { ...now };
  Object.assign(now, change);
  const n = D.trajectories.length;
  now.t = Math.min(Math.max(0, now.t | 0), n - 1);
  if (!has(now.t)) now.credit = Number(Object.keys(D.trajectories[now.t].credit)[0]);
  if (before.credit !== now.credit && change.part === undefined) now.part = -1;
  if (now.part >= credit().parts.length) now.part = -1;
  now.s = Math.min(Math.max(0, now.s | 0), D.trajectories[now.t].steps.length - 1);
  if (!(now.tab in TABS)) now.tab = "trajectories";
  draw(before);
  const hash = `#t=${now.t + 1}&s=${now.s + 1}` + (now.tab === "trajectories" ? "" : `&view=${now.tab}`)
    + (D.credits.length > 1 ? `&credit=${now.credit + 1}` : "") + (now.part >= 0 ? `&part=${now.part + 1}` : "") + (now.theme === "auto" ? "" : `&theme=${now.theme}`);
  if (location.hash !== hash) { try { history.replaceState(null, "", hash); } catch { location.hash = hash; } }
}

function draw(before) {
  for (const tab of Object.keys(TABS)) {
    byId(tab).hidden = tab !== now.tab;
    const button = byId("tab-" + tab);
    button.setAttribute("aria-selected", String(tab === now.tab));
    button.tabIndex = tab === now.tab ? 0 : -1;
  }
  document.documentElement.dataset.theme = now.theme === "auto" ? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") : now.theme;
  if (before.credit !== now.credit || before.part !== now.part || before.tab === "") { drawControls(); arrange(); }
  if (now.tab === "trajectories") {
    if (before.tab !== "trajectories" || before.t !== now.t) keepInSight();
    drawList();
    drawTrajectory();
    if (before.s !== now.s || before.t !== now.t || before.tab !== now.tab) reveal();
  } else if (now.tab === "states") drawStates();
  else if (now.tab === "overview") drawOverview();
  else drawAbout();
}

function drawControls() {
  const pickers = [];
  if (D.credits.length > 1) {
    pickers.push(picker("method", D.credits.map((entry, c) => [c, entry.label]), now.credit, (c) => go({ credit: c, ...(has(now.t, c) ? {} : { t: D.trajectories.findIndex((_, t) => has(t, c)), s: 0 }) })));
  }
  if (credit().parts.length) pickers.push(picker("show", [[-1, "whole credit"], ...credit().parts.map((name, p) => [p, "part: " + name])], now.part, (part) => go({ part })));
  byId("controls").replaceChildren(...pickers,
    h("button", { class: "icon", type: "button", title: "light or dark (t)", "aria-label": "light or dark", on: { click: flip } }, "◐"),
    h("button", { class: "icon", type: "button", title: "keys (?)", "aria-label": "keys", on: { click: help } }, "?"));
  const mine = D.trajectories.filter((_, t) => has(t)).length;
  byId("subtitle").textContent = whole(`${credit().label} · one number per ${credit().level} · ${mine.toLocaleString("en")} trajectories · ${plural(credit().units, credit().level)}`);
}

function picker(label, options, value, change) {
  const select = h("select", { "aria-label": label, on: { change: (event) => { change(Number(event.target.value)); event.target.blur(); } } },
    ...options.map(([key, name]) => h("option", { value: key }, preview(name, 60))));
  select.value = String(value);
  return h("label", null, label, select);
}

function flip() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("apportion-theme", theme); } catch { /* a file may have no storage; the choice then lasts for the page */ }
  go({ theme });
}

function move(by) {
  const place = shown.indexOf(now.t);
  const t = shown[place < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, place + by))];
  if (t !== undefined && t !== now.t) go({ t, s: strongest(t), tab: "trajectories" });
}

function help() {
  const box = byId("help");
  box.replaceChildren(h("h2", { id: "help-title" }, "Keys"),
    h("table", null, h("tbody", null, ...KEYS.map(([keys, what]) => h("tr", null, h("td", null, ...keys.split(" ").flatMap((key) => [h("kbd", null, key), " "])), h("td", null, what))))),
    h("p", { class: "small muted" }, "The address names the step shown (#t=…&s=…): copy it to point someone at it."));
  if (!box.open) box.showModal();
}

const contexts = () => [...document.querySelectorAll("#steps details.context")];

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLElement && event.target.closest("input, select, textarea");
  if (event.key === "Escape" && typing) { event.target.blur(); return; }
  if (typing || byId("help").open) return;
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const tab = Object.keys(TABS)[Number(event.key) - 1];
  if (step) go({ s: now.s + step, tab: "trajectories" });
  else if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
  else if (event.key === "Home" || event.key === "End") go({ s: event.key === "Home" ? 0 : D.trajectories[now.t].steps.length - 1 });
  else if (event.key === "x") go({ s: strongest(now.t) });
  else if (event.key === "c") { const box = document.querySelector(`#step-${now.s} details.context`); if (box) box.open = !box.open; }
  else if (event.key === "C") { const open = !contexts().some((box) => box.open); contexts().forEach((box) => { box.open = open; }); }
  else if (event.key === "m" && D.credits.length > 1) {
    const able = D.credits.map((_, c) => c).filter((c) => has(now.t, c));
    go({ credit: able[(able.indexOf(now.credit) + 1) % able.length] });
  }
  else if (event.key === "p" && credit().parts.length) go({ part: now.part + 1 >= credit().parts.length ? -1 : now.part + 1 });
  else if (event.key === "t") flip();
  else if (event.key === "?") help();
  else if (event.key === "/") { go({ tab: "trajectories" }); byId("filter").focus(); }
  else if (tab) go({ tab });
  else return;
  event.preventDefault();
}

/** What the address asks for; numbers in it count from 1, as the page does. */
function fromAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (name) => { const x = Number.parseInt(asked.get(name), 10); return Number.isInteger(x) && x > 0 ? x - 1 : undefined; };
  const wanted = { t: number("t"), s: number("s"), credit: number("credit"), part: number("part"), tab: asked.get("view") ?? undefined };
  if (wanted.credit !== undefined && wanted.credit >= D.credits.length) wanted.credit = undefined;
  if (wanted.tab !== undefined && !Object.hasOwn(TABS, wanted.tab)) wanted.tab = undefined;
  if (["light", "dark"].includes(asked.get("theme"))) wanted.theme = asked.get("theme");
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined));
}

/** Where to begin: the trajectory with the largest credit, at the step that got it. */
function mostTelling() {
  let best = D.trajectories.findIndex((_, t) => has(t)), size = -1;
  extremes().forEach((range, t) => {
    if (range && range.high !== null && range.high - range.low > size) { best = t; size = range.high - range.low; }
  });
  return best;
}

function start() {
  byId("title").textContent = whole(D.title);
  byId("tabs").append(...Object.entries(TABS).map(([tab, name]) => h("button", { id: "tab-" + tab, type: "button", role: "tab", "aria-controls": tab, on: { click: () => go({ tab }) } }, name)));
  try { const kept = localStorage.getItem("apportion-theme"); if (kept === "light" || kept === "dark") now.theme = kept; } catch { /* no storage: follow the system */ }
  setUpList();
  setUpTrajectory();
  const asked = fromAddress();
  if (asked.credit !== undefined) now.credit = asked.credit;
  const t = asked.t ?? mostTelling();
  now.t = Math.min(t, D.trajectories.length - 1);
  go({ tab: D.learning || D.truth ? "overview" : "trajectories", s: has(now.t) ? strongest(now.t) : 0, ...asked, t: now.t });
  addEventListener("hashchange", () => go(fromAddress()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => go({}));
  addEventListener("keydown", key);
  addEventListener("resize", fitHead);
  byId("help").addEventListener("click", (event) => { if (event.target === byId("help")) byId("help").close(); });
  document.documentElement.dataset.ready = performance.now().toFixed(0); // milliseconds since the page was asked for
}

start();
