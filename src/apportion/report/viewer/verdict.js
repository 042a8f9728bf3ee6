// The answer before the details: which step was decisive, by how much, and whether that can be trusted.

const TRUST = [
  ["none", "no evidence", "No step stands out, or nothing is known."],
  ["weak", "weak evidence", "The number is known, but these rollouts say little for or against it."],
  ["good", "supported", "Those who chose otherwise in the same state fared so differently that chance would do it in at most 5% of cases. This is about one state, and says nothing about having looked at many."],
];

const trustOf = (t, c = now.credit) => (D.trajectories[t].verdict[c] || [null, 0])[1];

function verdictBox(t) {
  if (!pageOf(t)) return null;
  const { step, head, why } = detailOf(t).credit[now.credit].verdict;
  const [name, words, means] = TRUST[trustOf(t)];
  const told = head.charAt(0).toUpperCase() + head.slice(1);
  return h("div", { class: "verdict", data: { trust: name }, role: "note", "aria-label": "Verdict" },
    h("p", null,
      h("span", { class: "trust", data: { trust: name }, title: means }, words),
      step === null ? h("b", null, told) : h("button", { class: "told", type: "button", title: "go there (x)", on: { click: () => go({ s: step }) } }, told)),
    h("ul", null, ...why.map((sentence) => h("li", null, sentence + "."))));
}
