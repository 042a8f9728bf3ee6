// The table of groups: which of them teach anything, and where to look.

let groupsKey = "";
let groupFilter = "";

function groupRows() {
  const range = extremes();
  return D.groups.map((group, g) => {
    const members = group.members.filter((t) => has(t));
    if (!members.length) return null;
    const size = largest(members.flatMap((t) => [range[t].high, range[t].low]));
    const supported = members.filter((t) => trustOf(t) === 2).length;
    return { ...group, g, shown: members, size, supported, note: groupNote(group) };
  }).filter(Boolean);
}

/** Why a group teaches nothing, if it does not. */
function groupNote({ members, valid, low, high }) {
  if (members.length === 1) return "alone";
  if (!valid) return "not scored";
  if (valid === 1) return "one scored";
  if (low === high) return "all equal";
  return valid < members.length ? `${members.length - valid} not counted` : "";
}

function drawGroups() {
  const key = String(now.credit);
  if (groupsKey === key && byId("groups").childElementCount) return;
  groupsKey = key;
  const rows = groupRows();
  const most = Math.max(scale(), ...rows.map((row) => row.size));
  const silent = rows.filter((row) => ["alone", "all equal", "not scored", "one scored"].includes(row.note)).length;
  const box = h("div");
  const count = h("span", { class: "muted small", "aria-live": "polite" });
  const show = () => {
    const query = groupFilter.trim().toLowerCase();
    const some = rows.filter((row) => !query || row.name.toLowerCase().includes(query) || row.note.includes(query));
    count.textContent = some.length === rows.length ? plural(rows.length, "group") : `${some.length} of ${plural(rows.length, "group")}`;
    box.replaceChildren(groupTable(some, most));
  };
  const filter = h("input", { type: "search", id: "group-filter", placeholder: "Filter by name or note", "aria-label": "Filter groups by name or note", on: { input: (event) => { groupFilter = event.target.value; show(); } } });
  filter.value = groupFilter;
  show();
  byId("groups").replaceChildren(h("section", { class: "card full" },
    h("div", { class: "state-head" }, h("h2", null, "Groups"), filter, count),
    h("p", { class: "lead" }, `Same task, same start state. Outcomes are compared inside a group. ${silent ? `${plural(silent, "group")} of ${rows.length} cannot teach by outcomes: alone, not scored, or all equal.` : "Every group has outcomes that differ."}`),
    box));
}

function groupTable(rows, most) {
  return table([
    { name: "group", wide: true, value: (row) => row.name, cell: (row) => h("div", { class: "one-line", dir: "auto" }, row.name) },
    { name: "note", value: (row) => row.note || null, cell: (row) => (row.note ? h("span", { class: "chip warn" }, row.note) : "") },
    { name: "members", num: true, value: (row) => row.members.length },
    { name: "mean outcome", num: true, value: (row) => row.mean, cell: (row) => brief(row.mean) },
    { name: "lowest", num: true, value: (row) => row.low, cell: (row) => brief(row.low) },
    { name: "highest", num: true, value: (row) => row.high, cell: (row) => brief(row.high) },
    { name: "shared states", num: true, title: "states in which more than one step was taken: where choices can be compared", value: (row) => row.states, cell: (row) => brief(row.states) },
    { name: "supported", num: true, title: TRUST[2][2], value: (row) => row.supported, cell: (row) => `${row.supported} of ${row.shown.length}` },
    { name: "largest credit", num: true, value: (row) => row.size, cell: (row) => [meter(row.size, most), " ", h("span", { class: "figure" }, plain(row.size))] },
  ], rows, { most: 200, label: "Groups", go: (row) => openGroup(row), here: (row) => row.members.includes(now.t) });
}

const openGroup = ({ shown: members }) => go({ t: members[0], s: strongest(members[0]), tab: "states", state: -1 });
