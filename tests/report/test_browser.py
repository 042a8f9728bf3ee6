"""The page in a real browser: hostile transcripts stay text, keys and links work, large inputs stay light.

Skipped where no Chromium is installed.
"""

import json
import re

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.report import html, page, report_model
from apportion.units import by_step, by_token
from tests.make import random_units
from tests.report.browser import load
from tests.report.test_page import HOSTILE, SUMMARY, hostile_model

pytestmark = pytest.mark.slow  # a browser takes seconds to start


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tmp_path_factory.mktemp("profile")


@pytest.fixture
def show(tmp_path, profile):
    """Write a page, open it, and return its document; ``probe`` is a script that runs after the viewer's own."""

    def show(model, fragment="", probe=""):
        with pytest.MonkeyPatch.context() as patch:
            asset = html._asset
            patch.setattr(html, "_asset", lambda name: asset(name) + (PROBE + probe if name == SCRIPT else ""))
            text = page(model)
        path = tmp_path / "page.html"
        path.write_bytes(text.encode("utf-8"))
        document = load(path, profile, fragment)
        assert document.data("ready"), "the viewer's script stopped on the way"
        assert document.data("problems") == "[]"
        return document

    return show


SCRIPT = "main.js"
PROBE = """
const problems = [];
const noteProblems = () => { document.documentElement.dataset.problems = JSON.stringify(problems); };
addEventListener("error", (event) => { problems.push(String(event.message)); noteProblems(); });
addEventListener("securitypolicyviolation", (event) => { problems.push(event.violatedDirective); noteProblems(); });
noteProblems();
const press = (key) => {
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
};
const note = (name, value) => { document.documentElement.dataset[name] = JSON.stringify(value); };
const place = () => [now.t, now.s, now.tab];
"""


def noted(document, name):
    return json.loads(document.data(name))


def shown(text):
    """A text as the document has it: lone surrogates as the sign for them; a dump has no NUL and no CR."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text).replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n")


def is_pwned(document):
    (title,) = document.all("title")
    return "".join(title.text) == "pwned" or bool(document.all("img")) or len(document.all("script")) != 2


def test_hostile_transcripts_are_text(show):
    document = show(hostile_model(), "#t=1&s=1")
    assert not is_pwned(document)
    assert document.all("b", class_="x") == []
    actions = ["".join(element.text) for element in document.all("pre", class_="text")]
    for text in HOSTILE:
        assert any(shown(text) == shown(action) for action in actions), text
    assert shown(HOSTILE[0] + "0") in document.text
    (title,) = document.all(id="title")
    assert "".join(title.text) == HOSTILE[0]


@pytest.mark.parametrize("view", ["states", "overview", "about"])
def test_hostile_transcripts_are_text_in_every_view(show, view):
    document = show(hostile_model(), f"#view={view}")
    assert not is_pwned(document)
    (open_view,) = [element for element in document.all("section", class_="view") if "hidden" not in element.attributes]
    assert open_view.attributes["id"] == view
    assert HOSTILE[2] in "".join(open_view.text)


def test_the_check_for_a_break_in_can_fail(tmp_path, profile):
    def careless(model):
        text = page(model)
        data = json.dumps({**model, "texts": [model["texts"][0]]})
        text = re.sub(r'http-equiv="Content-Security-Policy"', 'name="nothing"', text)
        return re.sub(r'(id="data">).*?(</script>)', lambda m: m[1] + data + m[2], text, count=1, flags=re.DOTALL)

    path = tmp_path / "careless.html"
    path.write_bytes(careless(hostile_model()).encode("utf-8", "replace"))
    assert is_pwned(load(path, profile))


def test_the_policy_refuses_what_gets_past_the_other_walls(tmp_path, profile):
    model = report_model(assign("grpo", random_units(1)))
    injected = "<img src='http://127.0.0.1:9/x.png'><script>document.title='pwned'</script><p onclick='x()'>"
    path = tmp_path / "page.html"
    path.write_text(page(model).replace("<main", injected + "<main"), encoding="utf-8")
    document = load(path, profile)
    (title,) = document.all("title")
    assert "".join(title.text) == model["title"]


def test_markup_cannot_be_assigned_at_all(show):
    document = show(
        report_model(assign("grpo", random_units(1))),
        probe="""
        let refused = "";
        const before = problems.length;
        try { document.body.innerHTML = "<b>x</b>"; } catch (error) { refused = error.name; }
        note("refused", refused);
        setTimeout(() => { problems.length = before; noteProblems(); }, 0);
        """,
    )
    assert noted(document, "refused") == "TypeError"


def test_a_huge_text_is_cut_and_can_be_opened(show):
    huge = "word " * 400_000
    batch = Batch.from_trajectories([Trajectory([Step(observation=huge, action=huge, reward=1.0)])])
    document = show(report_model(Credit(np.ones(1), by_step(batch))))
    assert len(document.text) < 200_000
    assert "show the other 1,980,000 characters" in document.text


def three_rollouts():
    def rollout(name, *rewards):
        steps = [Step(observation=f"room {k}", action=f"act {name}{k}", reward=r) for k, r in enumerate(rewards)]
        return Trajectory(steps, id=name, group="g")

    batch = Batch.from_trajectories([rollout("a", 0, 0, 1), rollout("b", 0, 0, 0), rollout("c", 0, 1, 0)])
    units = by_step(batch)
    values = np.array([0.1, 0.2, 0.9, -0.1, -0.6, 0.0, 0.3, 0.2, 0.1])
    one = Credit(values, units, parts={"x": values / 2, "y": values / 2}, method="one")
    return report_model([one, Credit(-values, units, method="two")])


def test_a_link_leads_to_its_step_and_the_numbers_stand_there(show):
    document = show(three_rollouts(), "#t=2&s=2")
    (card,) = document.all("article", aria_current="true")
    assert card.attributes["id"] == "step-1"
    assert card.attributes["aria-label"] == "step 2, credit −0.60"
    text = "".join(card.text)
    for piece in ("act b1", "room 1", "What it is made of", "= one", "+0.60", "Same state: 3 visits by 3 of 3"):
        assert piece in text, piece
    (row,) = document.all("button", class_="row", aria_current="true")
    assert "".join(row.text).startswith("b")


def test_without_a_link_the_strongest_step_is_open(show):
    document = show(three_rollouts())
    (card,) = document.all("article", aria_current="true")
    assert card.attributes["aria-label"] == "step 3, credit +0.90"


@pytest.mark.parametrize("fragment", ["#t=99&s=99", "#t=-1&s=x&view=nowhere&credit=7&part=9", "#%00", "#t=2<script>"])
def test_a_broken_link_leads_somewhere(show, fragment):
    assert len(show(three_rollouts(), fragment).all("article", aria_current="true")) == 1


def test_keys(show):
    document = show(
        three_rollouts(),
        "#t=1&s=1",
        probe="""
        const way = [place()];
        for (const key of ["ArrowRight", "End", "ArrowRight", "j", "j", "j", "k", "Home", "x", "3", "ArrowLeft"]) {
          press(key);
          way.push(place());
        }
        note("way", way);
        press("m"); note("method", credit().label);
        press("p"); note("nopart", now.part);
        press("m"); press("p"); note("part", now.part);
        press("c"); note("open", contexts().filter((box) => box.open).length);
        press("C"); press("C"); note("all", contexts().filter((box) => box.open).length);
        press("t"); note("looks", document.documentElement.dataset.theme);
        press("/"); note("focus", document.activeElement.id);
        document.activeElement.blur(); press("?"); note("help", byId("help").open);
        note("address", location.hash);
        """,
    )
    assert noted(document, "way") == [
        [0, 0, "trajectories"],
        [0, 1, "trajectories"],
        [0, 2, "trajectories"],
        [0, 2, "trajectories"],
        [1, 1, "trajectories"],  # j goes to the strongest step of the next one
        [2, 0, "trajectories"],
        [2, 0, "trajectories"],
        [1, 1, "trajectories"],
        [1, 0, "trajectories"],
        [1, 1, "trajectories"],
        [1, 1, "overview"],
        [1, 0, "trajectories"],
    ]
    assert noted(document, "method") == "two"
    assert noted(document, "nopart") == -1
    assert noted(document, "part") == 0
    assert noted(document, "open") == 1
    assert noted(document, "all") == 3
    assert noted(document, "looks") == "dark"
    assert noted(document, "focus") == "filter"
    assert noted(document, "help") is True
    assert noted(document, "address") == "#t=2&s=1&credit=1&part=1&theme=dark"


def test_filter_and_order(show):
    document = show(
        three_rollouts(),
        probe="""
        const listed = () => shown.map((t) => D.trajectories[t].id).join("");
        note("whole", listed());
        now.filter = "ACT B1"; arrange(); note("some", listed());
        now.filter = "nowhere"; arrange(); note("none", listed());
        now.filter = ""; now.sort = "low"; arrange(); note("blame", listed());
        now.sort = "outcome"; arrange(); note("best", listed());
        """,
    )
    assert noted(document, "whole") == "abc"
    assert noted(document, "some") == "b"
    assert noted(document, "none") == ""
    assert noted(document, "blame") == "bac"
    assert noted(document, "best") == "acb"


def test_unknown_is_not_zero(show):
    batch = Batch.from_trajectories([Trajectory([Step(action="a", reward=0.0), Step(action="b", reward=0.0)])])
    credit = Credit(np.zeros(2), by_step(batch), known_S=np.array([True, False]), train_S=np.array([False, True]))
    document = show(report_model(credit))
    pills = document.all("span", class_="pill")
    assert ["".join(p.text) for p in pills[:2]] == ["0", "?"]
    assert [p.attributes["data-sign"] for p in pills[:2]] == ["0", "?"]
    assert "data-dropped" in pills[0].attributes
    assert "not trained on" in document.text


def test_tokens_are_tinted_piece_by_piece(show):
    batch = Batch.from_trajectories([Trajectory([Step(action="go 🦊 north", reward=1.0)])])
    document = show(report_model(Credit(np.array([0.5, -0.5, 0.0]), by_token(batch))))
    runs = document.all("span", class_="run")
    assert ["".join(run.text) for run in runs] == ["go", " 🦊", " north"]
    assert [run.attributes["data-sign"] for run in runs] == ["+", "-", "0"]


def test_tokens_that_are_not_trained_on_are_faded_and_counted(show):
    batch = Batch.from_trajectories([Trajectory([Step(action="go far north", reward=1.0)])])
    train_T = np.array([True, False, True])
    document = show(report_model(Credit(np.array([0.5]), by_step(batch), train_T=train_T)))
    assert ["data-dropped" in run.attributes for run in document.all("span", class_="run")] == [False, True, False]
    assert "2 of 3 tokens trained on" in document.text
    assert "mean of" not in "".join(document.all("article")[0].text)


def test_the_demo_opens_on_what_was_learned(tmp_path, profile):
    pytest.importorskip("matplotlib")
    html.demo_report(SUMMARY, assign("gigpo", random_units(1, rich=False)), tmp_path / "d.html")
    document = load(tmp_path / "d.html", profile)
    assert document.data("ready")
    for piece in (
        "What was learned",
        "Against the truth",
        "0.45",
        "0.30 to 0.60",
        "before training",
        "gradient cosine",
    ):
        assert piece in document.text, piece
    assert [image.attributes["class"] for image in document.all("img")] == ["picture light", "picture dark"]


def test_a_thousand_trajectories_are_a_handful_of_elements(show, record_property):
    rng = np.random.default_rng(0)
    rollouts = [
        Trajectory(
            [Step(observation=f"room {rng.integers(40)}", action=f"go {k}", reward=0.0) for k in range(50)],
            group=f"g{n // 8}",
            outcome=float(n % 2),
        )
        for n in range(1000)
    ]
    units = by_step(Batch.from_trajectories(rollouts))
    document = show(report_model(Credit(rng.normal(size=len(units)), units)), "#t=900&s=7")
    assert len(document.all("button", class_="row")) < 60
    assert len(document.all("article")) == 50
    (row,) = document.all("button", class_="row", aria_current="true")
    assert "".join(row.text).startswith("899")
    record_property("reported", f"report of 1,000 x 50 steps: on screen after {document.data('ready')} ms")


def test_a_long_trajectory_is_drawn_as_far_as_one_looks(show):
    batch = Batch.from_trajectories([Trajectory([Step(action=f"act {k}", reward=0.0) for k in range(3000)])])
    units = by_step(batch)
    document = show(report_model(Credit(np.ones(len(units)), units)), "#t=1&s=500")
    assert len(document.all("article")) == 519
    (card,) = document.all("article", aria_current="true")
    assert card.attributes["id"] == "step-499"
