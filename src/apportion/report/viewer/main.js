// Tabs, links, theme: everything that changes what is shown goes through go().

const TABS = { trajectories: ["Trajectories", drawTrajectory], compare: ["Compare", drawCompare], groups: ["Groups", drawGroups],
  states: ["States", drawStates], overview: ["Overview", drawOverview], about: ["About", drawAbout] };

/** The views there are: comparing needs two methods. */
const tabs = () => Object.keys(TABS).filter((tab) => tab !== "compare" || D.credits.length > 1);

function go(change) {
  const before = { ...now };
  Object.assign(now, change);
  now.t = Math.min(Math.max(0, now.t | 0), D.trajectories.length - 1);
  if (!has(now.t)) now.credit = Number(Object.keys(D.trajectories[now.t].values)[0]);
  if (before.credit !== now.credit && change.part === undefined) now.part = -1;
  if (now.part >= credit().parts.length || (now.part === STACKED && !credit().parts.length)) now.part = -1;
  now.s = Math.min(Math.max(0, now.s | 0), stepsOf(now.t) - 1);
  if (!tabs().includes(now.tab)) now.tab = "trajectories";
  draw(before);
  const hash = address();
  if (location.hash !== hash) { try { history.replaceState(null, "", hash); } catch { location.hash = hash; } }
}

function draw(before, again = false) {
  for (const tab of tabs()) {
    byId(tab).hidden = tab !== now.tab;
    byId("tab-" + tab).setAttribute("aria-selected", String(tab === now.tab));
  }
  document.documentElement.dataset.theme = now.theme === "auto" ? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") : now.theme;
  if (!again && (before.credit !== now.credit || before.part !== now.part || before.tab === "")) { drawControls(); arrange(); }
  if (now.tab === "trajectories") {
    if (before.tab !== "trajectories" || before.t !== now.t) keepInSight();
    drawList();
  }
  TABS[now.tab][1]();
  if (now.tab === "trajectories" && before.tab !== "" && before.t === now.t && (before.s !== now.s || before.tab !== now.tab)) reveal();
}

function drawControls() {
  const pickers = [];
  if (D.credits.length > 1) {
    pickers.push(picker("method", D.credits.map((entry, c) => [c, entry.label]), now.credit, (value) => {
      const c = Number(value);
      go({ credit: c, ...(has(now.t, c) ? {} : { t: D.trajectories.findIndex((_, t) => has(t, c)), s: 0 }) });
    }));
  }
  if (credit().parts.length) {
    pickers.push(picker("show", [[-1, "whole credit"], [STACKED, "parts stacked"], ...credit().parts.map((name, p) => [p, "part: " + name])], now.part, (part) => go({ part: Number(part) })));
  }
  byId("controls").replaceChildren(...pickers,
    h("button", { class: "icon", type: "button", title: "light or dark (t)", "aria-label": "light or dark", on: { click: flip } }, "◐"),
    h("button", { class: "icon", type: "button", title: "keys (?)", "aria-label": "keys", on: { click: help } }, "?"));
  byId("subtitle").textContent = visible(`${credit().label}: ${plural(credit().units, credit().level)} of ${plural(mine().length, "trajectory")}`);
}

function flip() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("apportion-theme", theme); } catch { /* a file may have no storage; the choice then lasts for the page */ }
  go({ theme });
}

function move(by) {
  const place = shown.indexOf(now.t);
  const t = shown[place < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, place + by))];
  if (t !== undefined && t !== now.t) go({ t, s: strongest(t), tab: now.tab === "compare" ? "compare" : "trajectories" });
}

/** The address of what is shown. Steps count from 0, as everywhere; the place of a rollout or a credit counts from 1. */
function address() {
  const said = [["t", now.t + 1], ["s", now.s], ["view", now.tab === "trajectories" ? null : now.tab], ["credit", D.credits.length > 1 ? now.credit + 1 : null],
    ["part", now.part === STACKED ? "stacked" : now.part >= 0 ? now.part + 1 : null], ["by", now.by === "step" ? null : now.by], ["theme", now.theme === "auto" ? null : now.theme]];
  return "#" + said.filter(([, value]) => value !== null).map(([name, value]) => `${name}=${value}`).join("&");
}

function fromAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (name, first = 1) => { const x = Number.parseInt(asked.get(name), 10); return Number.isInteger(x) && x >= first ? x - first : undefined; };
  const wanted = { t: number("t"), s: number("s", 0), credit: number("credit"), part: asked.get("part") === "stacked" ? STACKED : number("part"), tab: asked.get("view") ?? undefined };
  const named = asked.has("id") ? D.trajectories.findIndex(({ id }) => id === asked.get("id")) : -1;
  if (named >= 0) wanted.t = named;
  if (wanted.credit !== undefined && wanted.credit >= D.credits.length) wanted.credit = undefined;
  if (wanted.tab !== undefined && !tabs().includes(wanted.tab)) wanted.tab = undefined;
  if (["turn", "agent"].includes(asked.get("by"))) wanted.by = asked.get("by");
  if (["light", "dark"].includes(asked.get("theme"))) wanted.theme = asked.get("theme");
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined));
}

/** Where to begin: the best supported verdict, and among those the trajectory whose credit tells its steps apart most. */
function mostTelling() {
  let best = D.trajectories.findIndex((_, t) => has(t)), size = -1;
  extremes().forEach((range, t) => {
    if (!range || range.high === null) return;
    const tells = 1e6 * trustOf(t) + Math.min(1e5, (range.high - range.low) / scale());
    if (tells > size) { best = t; size = tells; }
  });
  return best;
}

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser cannot unpack gzip; open it in one from 2023 or later");
  await readIndex();
  byId("title").textContent = visible(D.title);
  byId("tabs").append(...tabs().map((tab) => h("button", { id: "tab-" + tab, type: "button", role: "tab", "aria-controls": tab, on: { click: () => go({ tab }) } }, TABS[tab][0])));
  try { const kept = localStorage.getItem("apportion-theme"); if (kept === "light" || kept === "dark") now.theme = kept; } catch { /* no storage: follow the system */ }
  setUpList();
  setUpTranscript();
  const asked = fromAddress();
  if (asked.credit !== undefined) now.credit = asked.credit;
  now.t = Math.min(asked.t ?? mostTelling(), D.trajectories.length - 1);
  await bring(D.trajectories[now.t].page);
  go({ tab: D.learning || D.truth ? "overview" : "trajectories", s: has(now.t) ? strongest(now.t) : 0, ...asked, t: now.t });
  addEventListener("hashchange", () => go(fromAddress()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => go({}));
  addEventListener("keydown", key);
  addEventListener("resize", fitHead);
  byId("help").addEventListener("click", (event) => { if (event.target === byId("help")) byId("help").close(); });
  document.documentElement.dataset.ready = performance.now().toFixed(0); // milliseconds since the page was asked for
}

start().catch(fail);
