// How to read the page, and what is needed to make its numbers again.

function drawAbout() {
  if (byId("about").childElementCount) return;
  byId("about").replaceChildren(h("div", { class: "cards" },
    h("section", { class: "card full" }, h("h2", null, "How to read this page"),
      h("p", { class: "lead" }, "Blue and up is credit: the step did better than what it is compared with. Orange and down is blame. A hatched “?” is unknown, which is not zero: nobody scored it, or it broke. A dashed frame marks steps that the method does not train on."),
      h("p", { class: "lead" }, "The number of a step is the mean over the tokens sampled in it. Colour is full at the size that 98% of the units stay below. Characters that cannot be seen, or that would turn text around, are written out, like ␛ or ⟨U+202E⟩."),
      h("p", { class: "lead" }, "A verdict names the step with the largest credit, and says what that rests on. ", ...TRUST.map(([, words, means]) => [h("b", null, words), ": ", means, " "]).flat()),
      h("p", { class: "lead" }, store.search ? "The page asks only the server on this machine that sent it." : "The page holds everything it shows and fetches nothing.")),
    ...D.credits.map((entry) => h("section", { class: "card" }, h("h2", null, entry.label),
      h("p", { class: "lead" }, "What is needed to make these numbers again from the rollouts (apportion.remake)."),
      h("pre", { class: "record", dir: "auto" }, JSON.stringify(entry.record, null, 2)))),
    D.facts ? h("section", { class: "card" }, h("h2", null, "This run"), h("table", null, h("tbody", null,
      ...Object.entries(D.facts).map(([name, value]) => h("tr", null, h("td", null, name.replaceAll("_", " ")), h("td", { class: "num" }, typeof value === "number" ? plain(value) : typeof value === "string" ? value : JSON.stringify(value))))))) : null,
    h("section", { class: "card" }, h("h2", null, "Made by"), h("p", { class: "lead" }, `apportion ${D.version}, ${D.schema}`))));
}
