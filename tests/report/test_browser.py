"""The page in a real browser: hostile transcripts stay text, keys and links work, nothing is fetched.

Skipped where no Chromium is installed.
"""

import dataclasses
import re

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.report import demo_report, pages
from apportion.units import CUTS, by_step, by_token
from tests.make import random_batch, random_units
from tests.report.browser import Browser, Page
from tests.report.examples import HOSTILE, crossroads, hostile_credit, html_of, three_rollouts
from tests.report.test_page import SUMMARY

pytestmark = pytest.mark.slow  # a browser takes seconds to start

VIEWS = ["trajectories", "compare", "groups", "states", "overview", "about"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def show(tmp_path, browser):
    """Write a page, open it, and look: `show(credits, "#t=2")`."""
    opened = []

    def show(source, fragment="", html=None, **options):
        path = tmp_path / "page.html"
        path.write_bytes((html or html_of(source, **options.pop("report", {}))).encode("utf-8"))
        page = Page(browser, **options)
        opened.append(page)
        page.open(path.as_uri() + fragment)
        assert page.value("document.documentElement.dataset.ready"), page.text("#problem")
        return page

    yield show
    for page in opened:
        assert page.problems == []
        assert [url.partition("#")[0] for url in page.requests] == [(tmp_path / "page.html").as_uri()]
        page.close()


def visible(text):
    """What a text node holds after everything that cannot be seen has been written out."""
    text = re.sub("[\ud800-\udfff]", "\ufffd", text).replace("\r\n", "\n")
    unseen = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"

    def sign(mark):
        code = ord(mark[0])
        return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else f"⟨U+{code:04X}⟩"

    return re.sub(unseen, sign, text)


def broken_in(page):
    """Signs that something of a transcript ran, was drawn as markup, or sent for something."""
    signs = [
        "img",
        "iframe",
        "svg[onload]",
        "b.x",
        "link[rel=stylesheet]",
        "[onmouseover]",
        "[onerror]",
        "style + style",
    ]
    found = [sign for sign in signs if page.count(sign)]
    return found + (["title"] if page.value("document.title") == "pwned" else [])


def test_hostile_transcripts_are_text(show):
    page = show(hostile_credit(), "#t=1&s=0", report={"title": HOSTILE[0]})
    assert broken_in(page) == []
    actions = page.texts(".action pre.text")
    assert actions == [visible(text[:20_000]) for text in HOSTILE]
    assert page.text("#title") == HOSTILE[0]
    assert page.text("h2") == HOSTILE[0] + "0"
    page.press("C")  # all contexts too
    page.until(f"document.querySelectorAll('.context pre.text').length === {len(HOSTILE)}")
    assert page.texts(".context pre.text") == actions


@pytest.mark.parametrize("view", VIEWS)
def test_hostile_transcripts_are_text_in_every_view(show, view):
    credit = hostile_credit()
    page = show([credit, credit.scaled(-1.0)], f"#view={view}&s=2")
    assert broken_in(page) == []
    assert page.attributes("section.view:not([hidden])", "id") == [view]
    assert "<img src=x" in page.text(f"#{view}")
    assert re.findall("[\x00-\x08\u2028\u202e\u2066]", page.text()) == []


def test_the_check_for_a_break_in_can_fail(tmp_path, browser):
    """Without its policy, and with text put in as markup, the page is broken into."""
    page = Page(browser)
    text = html_of(hostile_credit())
    text = re.sub('http-equiv="Content-Security-Policy"', 'name="nothing"', text)
    node = "child instanceof Node ? child : document.createTextNode(visible(String(child)))"
    markup = "child instanceof Node ? child : document.createRange().createContextualFragment(String(child))"
    assert node in text
    text = text.replace(node, markup)
    (tmp_path / "careless.html").write_bytes(text.encode())
    page.open((tmp_path / "careless.html").as_uri(), wait=False)
    page.until("document.title === 'pwned'")
    assert {"img", "iframe", "b.x", "title"} <= set(broken_in(page))
    page.close()


def test_the_policy_refuses_what_gets_past_the_other_walls(tmp_path, browser):
    page = Page(browser)
    injected = (
        "<img src='http://127.0.0.1:9/x.png'><script>document.title='pwned'</script>"
        "<p id=p onclick='x()' style='color:red'>"
        "<link rel=stylesheet href='http://127.0.0.1:9/x.css'><form action='http://127.0.0.1:9/'><button>x</button></form>"
    )
    text = html_of(assign("grpo", random_units(1))).replace("<main", injected + "<main")
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page.open((tmp_path / "page.html").as_uri())
    assert page.value("document.title") == "grpo"
    assert page.value("getComputedStyle(document.getElementById('p')).color") != "rgb(255, 0, 0)"
    refused = " ".join(page.problems)
    for rule in ("script-src", "style-src", "img-src"):
        assert rule in refused
    assert page.value("fetch('http://127.0.0.1:9/').then(() => 'went', () => 'refused')") == "refused"
    assert (
        page.value("(() => { try { document.body.innerHTML = '<b>x</b>'; } catch (e) { return e.name; } })()")
        == "TypeError"
    )
    assert all("127.0.0.1" not in url or "data:" in url for url in page.requests if url.startswith("file:"))
    page.close()


def test_a_huge_text_is_cut_and_can_be_opened(show):
    huge = "word " * 400_000
    batch = Batch.from_trajectories([Trajectory([Step(observation=huge, action=huge, reward=1.0)])])
    page = show(Credit(np.ones(1), by_step(batch)))
    assert len(page.text()) < 200_000
    assert page.texts(".action .more") == ["show the other 1,980,000 characters"]
    page.click(".action .more")
    assert page.value("document.querySelector('.action pre').textContent.length") == 2_000_000


def test_a_link_leads_to_its_step_and_the_numbers_stand_there(show):
    page = show(three_rollouts(), "#t=2&s=1")
    assert page.attributes("article[aria-current=true]", "id") == ["step-1"]
    assert page.attributes("article[aria-current=true]", "aria-label") == ["step 1, credit −0.60"]
    text = page.text("article[aria-current=true]")
    for piece in ("act b1", "room 1", "What it is made of", "= one", "+0.60", "Same state: 3 visits by 3 of 3"):
        assert piece in text, piece
    assert page.texts(".row[aria-current=true] .name") == ["b"]


def test_a_link_may_name_the_rollout(show):
    page = show(three_rollouts(), "#id=c&s=2")
    assert page.text("h2") == "c"
    assert page.attributes("article[aria-current=true]", "id") == ["step-2"]


def test_without_a_link_the_decisive_step_is_open(show):
    page = show(three_rollouts())
    assert page.attributes("article[aria-current=true]", "aria-label") == ["step 2, credit +0.90"]
    assert "Step 2 was decisive: +0.9, 4.5 times the next" in page.text(".verdict")


@pytest.mark.parametrize(
    "fragment", ["#t=99&s=99", "#t=-1&s=x&view=nowhere&credit=7&part=9", "#%00", "#t=2<script>", "#by=x&id=__proto__"]
)
def test_a_broken_link_leads_somewhere(show, fragment):
    assert show(three_rollouts(), fragment).count("article[aria-current=true]") == 1


def test_keys_move_through_trajectories_and_steps(show):
    page = show(three_rollouts(), "#t=1&s=0")
    way = []
    for key in ["ArrowRight", "End", "ArrowRight", "j", "j", "j", "k", "Home", "x", "4", "ArrowLeft", "v", "v"]:
        page.press(key)
        way.append(page.value("location.hash").replace("&credit=1", ""))
    assert way == [
        *("#t=1&s=1", "#t=1&s=2", "#t=1&s=2"),
        *("#t=2&s=1", "#t=3&s=0", "#t=3&s=0", "#t=2&s=1"),  # j and k go to the decisive step
        *("#t=2&s=0", "#t=2&s=1", "#t=2&s=1&view=states", "#t=2&s=0"),
        *("#t=3&s=0", "#t=1&s=0"),  # v goes to the next who was in the same state
    ]


def test_keys_choose_what_is_shown(show):
    page = show(three_rollouts(), "#t=1&s=0")
    page.press("m")
    assert page.value("location.hash") == "#t=1&s=0&credit=2"
    page.press("p", "m", "p")  # the second method has no parts
    assert page.value("location.hash") == "#t=1&s=0&credit=1&part=stacked"
    assert page.count(".column .block") == 6
    page.press("p")
    assert page.value("location.hash") == "#t=1&s=0&credit=1&part=1"
    page.press("c")
    assert page.count("#steps details[open]") == 1
    page.press("C", "C")
    assert page.count("#steps details[open]") == 3
    page.press("t")
    assert page.attributes("html", "data-theme") == ["dark"]
    page.press("?")
    assert page.count("dialog[open]") == 1
    page.press("j")
    assert page.text("h2") == "a"  # keys are the dialog's
    page.click("dialog button")
    page.press("/")
    assert page.value("document.activeElement.id") == "filter"
    page.press("j")
    assert page.value("document.getElementById('filter').value") == "j"
    page.press("Escape")
    assert page.value("document.activeElement.id") != "filter"


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_is_the_systems_until_somebody_chooses(show, dark):
    page = show(three_rollouts(), dark=dark)
    assert page.attributes("html", "data-theme") == ["dark" if dark else "light"]
    page.click("[aria-label='light or dark']")
    assert page.attributes("html", "data-theme") == ["light" if dark else "dark"]


def listed(page):
    return "".join(page.texts(".row .name"))


def test_filter_and_order(show):
    page = show(three_rollouts())
    assert listed(page) == "abc"
    for words, want in (("ACT B1", "b"), ("nowhere", ""), ("room", "abc"), ("c", "c"), ("", "abc")):
        page.choose("#filter", words)
        page.until(f"[...document.querySelectorAll('.row .name')].map((e) => e.textContent).join('') === {want!r}")
    for order, want in (("low", "bac"), ("outcome", "acb"), ("worst", "bac")):
        page.choose("#sort", order)
        assert listed(page) == want


def test_unknown_is_not_zero_and_dropped_is_marked(show):
    batch = Batch.from_trajectories([Trajectory([Step(action="a", reward=0.0), Step(action="b", reward=0.0)])])
    credit = Credit(np.zeros(2), by_step(batch), known_S=np.array([True, False]), train_S=np.array([False, True]))
    page = show(credit)
    assert page.texts(".margin .pill") == ["0", "?"]
    assert page.attributes(".margin .pill", "data-sign") == ["0", "?"]
    assert [mark is not None for mark in page.attributes(".margin .pill", "data-dropped")] == [True, False]
    assert page.attributes(".column", "aria-label") == ["step 0, credit 0", "step 1, credit ?"]
    assert page.count(".column .bar.none") == 1
    assert "not trained on" in page.text("#step-0")
    assert "unknown" in page.text("#step-1 .margin")


def test_tokens_are_tinted_piece_by_piece(show):
    batch = Batch.from_trajectories([Trajectory([Step(action="go 🦊 north", reward=1.0)])])
    page = show(Credit(np.array([0.5, -0.5, 0.0]), by_token(batch)))
    assert page.texts(".run") == ["go", " 🦊", " north"]
    assert page.attributes(".run", "data-sign") == ["+", "-", "0"]
    assert page.attributes(".run", "title") == [
        "token 0: +0.50 (1 token)",
        "token 1: −0.50 (1 token)",
        "token 2: 0 (1 token)",
    ]


def test_tokens_that_are_not_trained_on_are_faded_and_counted(show):
    batch = Batch.from_trajectories([Trajectory([Step(action="go far north", reward=1.0)])])
    page = show(Credit(np.array([0.5]), by_step(batch), train_T=np.array([True, False, True])))
    assert [mark is not None for mark in page.attributes(".run", "data-dropped")] == [False, True, False]
    assert "2 of 3 tokens trained on" in page.text("#step-0")
    assert "mean of" not in page.text("#step-0")


def test_turns_and_agents_are_means_over_tokens(show):
    steps = [
        Step(action="one two three", reward=0.0, turn=0, agent="ann"),
        Step(action="four", reward=0.0, turn=0, agent="bob"),
        Step(action="five six", reward=1.0, turn=1, agent="ann"),
    ]
    page = show(Credit(np.array([1.0, -1.0, 0.5]), by_step(Batch.from_trajectories([Trajectory(steps)]))))
    page.press("b")
    assert page.attributes(".column", "aria-label") == ["turn 0, credit +0.50", "turn 1, credit +0.50"]  # (3·1 − 1) / 4
    page.press("b")
    assert page.attributes(".column", "aria-label") == ["ann, credit +0.80", "bob, credit −1.00"]  # (3·1 + 2·½) / 5
    assert page.texts(".span-head bdi") == ["ann", "bob"]


def test_parts_leave_out_what_is_unknown(show):
    batch = Batch.from_trajectories([Trajectory([Step(action="one two three", reward=1.0)])])
    values = np.array([0.6, 0.2, 0.1])
    parts = {"a": np.array([0.5, 0.0, 0.3]), "b": np.array([0.1, 0.2, -0.2])}
    page = show(Credit(values, by_token(batch), parts=parts, known_S=np.array([True, False, True])), "#part=1")
    assert page.texts(".margin .pill") == ["+0.40"]  # (0.5 + 0.3) / 2
    assert page.texts(".detail td.num")[:3] == ["+0.40", "−0.050", "+0.35"]
    assert page.attributes(".run", "data-sign") == ["+", "?", "+"]


def test_stacked_parts_have_their_sizes_and_fit(show):
    batch = Batch.from_trajectories([Trajectory([Step(action=a, reward=0.0) for a in ("a", "b")])])
    parts = {"up": np.array([4.0, 0.5]), "down": np.array([-2.0, 0.5]), "more": np.array([2.0, 0.0])}
    page = show(Credit(sum(parts.values()), by_step(batch), parts=parts), "#part=stacked")
    place = (
        "[...document.querySelectorAll('%s')].map((e) => e.getBoundingClientRect()).map((box) => [box.top, box.bottom])"
    )
    up, down, more, *second = page.value(place % ".column .block")
    height = [bottom - top for top, bottom in (up, down, more)]
    assert height == pytest.approx([2 * height[2], height[2], height[2]], abs=0.5)
    assert (up[0], up[1]) == pytest.approx((more[1], down[0]), abs=0.6)  # one on the other, and blame below zero
    assert len(second) == 2
    nets = page.value(place % ".column .net")
    zero = down[0]
    assert zero - nets[0][0] == pytest.approx(4 * height[2] / 2, abs=2)
    ((top, bottom),) = page.value(place % ".columns:not(.less)")
    assert top <= min(more[0], up[0])
    assert max(down[1], up[1]) <= bottom
    assert page.texts(".legend span") == ["up", "down", "more", "their sum"]


def test_methods_stand_side_by_side(show):
    page = show(three_rollouts(), "#t=2&s=1&view=compare")
    assert page.texts("#compare table:first-of-type tbody tr td:nth-child(4) .pill")[:3] == ["+0.10", "+0.60", "0"]
    assert page.texts("#compare .chip.warn") == ["apart", "apart"]
    assert [page.texts("#compare [aria-label='Agreement of methods'] td")[k] for k in (0, 2, 3, 4)] == [
        *("one and two", "−1.00", "0%", "100% of 3"),
    ]


def test_the_state_graph_tells_who_went_where(show):
    page = show(crossroads(), "#t=1&s=0&view=states")
    nodes = page.attributes(".node.state", "aria-label")
    assert nodes[0] == "the crossroads; 12 visits by 12 rollouts; credit of the actions differs by 1.60"
    assert sorted(page.texts(".node.end .strong")) == ["outcome 0", "outcome 1"]
    edges = page.texts(".edge title")
    assert any(
        re.search(r"crossroads → a hall\n6 rollouts: run 1, run 3.*\ndid: left \(6×\)\nmean credit \+0.80", e)
        for e in edges
    )
    assert page.count(".edge") == 1 + 2 + 2
    assert page.count(".edge.own") == 3
    page.click(".graph-card summary")
    assert page.texts(".graph-card tbody tr td:nth-child(-n+4)")[:8] == [
        *("start", "", "the crossroads", "12"),
        *("the crossroads", "right (6×)", "a cellar", "6"),
    ]
    assert "left" in page.text(".who")
    page.value("document.querySelectorAll('.node.state')[1].focus()")
    page.press("Enter")
    assert page.attributes(".node.chosen", "aria-pressed") == ["true"]
    assert "the crossroads" not in page.text(".state-text")
    page.click(".who .chip")
    assert page.attributes("section.view:not([hidden])", "id") == ["trajectories"]


def test_every_way_of_the_graph_can_be_seen(show):
    """Steps in states of their own lie between: the line is dashed, and there."""
    rollouts = [
        Trajectory(
            [
                Step(observation="hall", action="go", reward=0.0),
                Step(observation=f"room {n}", action="stop", reward=n / 10),
            ],
            id=f"{n}",
            group="g",
        )
        for n in range(11)
    ]
    page = show(assign("grpo", by_step(Batch.from_trajectories(rollouts))), "#t=1&s=0&view=states")
    assert page.count(".edge.dashed") == 4
    hidden = "['path.edge', 'g.node'].flatMap((kind) => [...document.querySelectorAll(kind)]).filter((e) => "
    hidden += "getComputedStyle(e).clipPath !== 'none' || getComputedStyle(e).visibility !== 'visible').length"
    assert page.value(hidden) == 0
    assert page.texts(".node.end .strong") == ["0 to 0.25", "0.25 to 0.50", "0.50 to 0.75", "0.75 to 1.00"]
    assert page.texts(".node.end .fine") == ["3 rollouts", "2 rollouts", "3 rollouts", "3 rollouts"]


def test_a_verdict_that_outcomes_support_says_so(show):
    page = show(crossroads(), "#t=2")
    assert page.text(".verdict .trust") == "supported"
    assert "chance alone would differ as much in under 1% of cases" in page.text(".verdict")
    assert page.texts(".detail tbody tr td:last-child")[1:] == ["<1%", "<1%"]


def test_actions_that_begin_alike_are_told_apart_and_end_in_their_card(show):
    said = "Your reservation is a round trip from here to there and back again "
    ends = ["in economy, by the first of three planes " * 5, "in a balloon", "in economy, by the second plane"]
    rollouts = [
        Trajectory([Step(observation="hall", action=said + end), Step(observation=end, action="stop", reward=1.0 - n)])
        for n, end in enumerate(ends)
    ]
    rollouts = [dataclasses.replace(t, group="g", id=str(n)) for n, t in enumerate(rollouts)]
    credit = assign("gigpo", by_step(Batch.from_trajectories(rollouts)))
    page = show(credit, "#t=1&s=0")
    told = sorted(page.texts(".detail td.wide .action-text"))
    assert [text[:17] for text in told] == ["Your … a balloon", "Your … first of t", "Your … second pla"]
    page = show(credit, "#t=1&s=0&view=states")
    assert page.texts("#states .who .action-text")[1] == "Your … a balloon"
    edges = "[...document.querySelectorAll('.who .action-text')].map((e) => e.getBoundingClientRect().right - "
    edges += "e.closest('.card').getBoundingClientRect().right).filter((over) => over > 0).length"
    assert page.value(edges) == 0


def test_numbers_under_bars_do_not_run_into_each_other(show):
    steps = [Step(observation=f"room {k}", action="go", reward=0.0) for k in range(14)]
    units = by_step(Batch.from_trajectories([Trajectory(steps, id="0", group="g")]))
    page = show(Credit(-np.linspace(0.51, 0.83, 14), units, method="m"), width=420)
    seen = "[...document.querySelectorAll('.columns .value')].filter((e) => e.getBoundingClientRect().width).length"
    page.value("document.querySelector('.columns').style.width = '380px'")
    assert page.value(seen) == 1
    page.value("document.querySelector('.columns').style.width = '1200px'")
    assert page.value(seen) == 14


def test_groups_sort_and_filter(show):
    rollouts = [
        Trajectory([Step(observation="x", action="a", reward=float(n == 2))], group=f"task {g}", id=f"{g}/{n}")
        for g, size in enumerate((3, 1, 4))
        for n in range(size)
    ]
    page = show(assign("grpo", by_step(Batch.from_trajectories(rollouts))), "#view=groups")
    names = "#groups tbody td:first-child"
    assert page.texts(names) == ["task 0", "task 1", "task 2"]
    page.click("#groups th:nth-child(3) button")
    assert page.texts(names) == ["task 2", "task 0", "task 1"]
    page.press("/")
    page.press(*"alone")
    assert page.texts(names) == ["task 1"]
    page.click("#groups tbody tr")
    assert page.value("location.hash").startswith("#t=4&s=0&view=states")


def test_the_demo_opens_on_what_was_learned(tmp_path, browser):
    pytest.importorskip("matplotlib")
    demo_report(SUMMARY, assign("gigpo", random_units(1, rich=False)), tmp_path / "d.html")
    page = Page(browser)
    page.open((tmp_path / "d.html").as_uri())
    text = page.text("#overview")
    for piece in (
        "What was learned",
        "Against the truth",
        "0.45",
        "0.30 to 0.60",
        "before training",
        "gradient cosine",
        "each seed, sampled",
    ):
        assert piece in text, piece
    assert "no methods but controls" not in text
    assert page.attributes("img", "class") == ["picture light", "picture dark"]
    with_control = {"crafttree": {**SUMMARY["truth"]["crafttree"], "exact advantage": {"grad_cos": [0.7, 0.6, 0.8]}}}
    summary = {**SUMMARY, "truth": with_control}
    demo_report(summary, assign("gigpo", random_units(1, rich=False)), tmp_path / "controls.html")
    page.open((tmp_path / "controls.html").as_uri())
    assert "no methods but controls" in page.text("#overview")
    assert page.problems == []
    page.close()


def test_a_long_trajectory_is_drawn_as_far_as_one_looks(show):
    batch = Batch.from_trajectories([Trajectory([Step(action=f"act {k}", reward=0.0) for k in range(3000)])])
    units = by_step(batch)
    page = show(Credit(np.ones(len(units)), units), "#t=1&s=499")
    assert page.count("article") == 519
    assert page.attributes("article[aria-current=true]", "id") == ["step-499"]


def test_transcripts_come_page_by_page(show, monkeypatch):
    monkeypatch.setattr(pages, "WEIGHT", 1)
    rollouts = [Trajectory([Step(observation=f"room {n}", action=f"act {n}", reward=1.0)]) for n in range(5)]
    page = show(Credit(np.arange(5.0), by_step(Batch.from_trajectories(rollouts))), "#t=2")
    for n in (1, 2, 3, 4):
        page.until(f"document.querySelector('.action')?.textContent === 'act {n}'")
        assert page.texts(".row[aria-current=true] .name") == [str(n)]
        page.press("j")
    page.choose("#filter", "ACT 3")
    page.until("document.getElementById('count').textContent.startsWith('1 of 5')")
    assert listed(page) == "3"


@pytest.mark.parametrize("seed", range(4))
def test_odd_rollouts_break_no_view(show, seed):
    """Empty responses, forks, failed and unscored rollouts, cuts of every kind: each view, each rollout, no error."""
    batch = random_batch(seed, parts=True, ids=seed % 2 == 0, values=seed % 2 == 0)
    rng = np.random.default_rng(seed)
    credits = []
    for level in ("step", "token", "episode", "turn", "agent"):
        units = CUTS[level](batch)
        values = rng.normal(size=len(units))
        known = rng.random(len(units)) < 0.8
        parts = {"a": values / 2, "b": values / 2} if level == "token" else {}
        credits.append(Credit(values, units, known_S=known, parts=parts, method=level))
    page = show(credits)
    for view in "123456":
        page.press(view)
        assert page.text("section.view:not([hidden])").strip()
    page.press("1")
    for _ in range(len(batch)):
        page.press("x", "c", "b", "p", "m", "v", "j")
    page.press("4", *["ArrowRight"] * 3, "2")
    assert page.count("#problem:not([hidden])") == 0
    page.click("#tab-groups")
    page.click("#groups tbody tr")
    assert page.text("#states").strip()


@pytest.mark.parametrize("view", VIEWS)
def test_whatever_can_be_reached_has_a_name(show, view):
    page = show([crossroads(), crossroads().scaled(-1.0)], f"#view={view}")
    nameless = page.value(
        "[...document.querySelectorAll('button, select, input, summary, [role=button], [role=img], [role=group]')]"
        ".filter((e) => e.checkVisibility() && !(e.getAttribute('aria-label') || e.textContent.trim()))"
        ".map((e) => e.outerHTML)"
    )
    assert nameless == []
    headless = "[...document.querySelectorAll('table')].filter((e) => !e.querySelector('th') && !e.querySelector('td'))"
    assert page.value(headless + ".length") == 0
    assert page.attributes("[role=tab][aria-selected=true]", "id") == [f"tab-{view}"]


def test_a_damaged_page_says_so(tmp_path, browser):
    text = html_of(three_rollouts())
    (tmp_path / "page.html").write_text(re.sub('id="page-0">.{40}', 'id="page-0">', text), encoding="utf-8")
    page = Page(browser)
    page.open((tmp_path / "page.html").as_uri())
    assert page.text("#problem").startswith("This report cannot be read: ")
    page.close()
