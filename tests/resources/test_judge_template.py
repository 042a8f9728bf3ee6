"""Prompt templates: the library's own are whole, a user's are read strictly, and their content is part of every key."""

import re
from importlib import resources

import pytest

from apportion.asks import Judge, Place
from apportion.data import Step, Trajectory
from apportion.errors import ConfigError
from apportion.resources.judge_callable import JudgeCallable
from apportion.resources.judge_template import KINDS, load_template, read_template, templates
from apportion.resources.protocol import Request

OWN = """
name = "mine"
version = 3
privileged = true
[scale]
kind = "labels"
labels = { yes = 1, hm = 0.25, no = -1 }
[units]
word = "move"
first = 0
[limits]
observation = 100
tokens = 70
tokens_per_unit = 5
[text]
instruction = "Judge every $unit from $first to $last, $count in all, for $$5."
reminder = "Once more."
"""


@pytest.fixture
def file(tmp_path):
    def write(text=OWN, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("name", templates())
def test_the_librarys_own_are_whole(name):
    template = load_template(name)
    assert template.name == name
    assert template.version >= 1
    assert template.scale.kind in KINDS
    assert ("reference" in template.instruct(3)) is template.privileged
    assert "$" not in template.instruct(3)
    assert "  " not in template.instruct(3)
    assert "JSON" in template.reminder


def test_they_are_files_of_the_package_and_all_kinds_are_there():
    folder = resources.files("apportion.resources").joinpath("judge_templates")
    assert {f"{name}.toml" for name in templates()} == {file.name for file in folder.iterdir()}
    assert {load_template(name).scale.kind for name in templates()} == set(KINDS)


def test_a_users_own(file):
    template = load_template(file())
    assert (template.name, template.version, template.privileged, template.unit) == ("mine", 3, True, "move")
    assert template.scale.labels == {"yes": 1, "hm": 0.25, "no": -1}
    assert (template.scale.low, template.scale.high) == (-1, 1)
    assert template.instruct(3) == "Judge every move from 0 to 2, 3 in all, for $5."
    assert template.instruct(3, 1) == "Judge every move from 1 to 1, 1 in all, for $5."
    assert template.tokens(4) == 90
    assert (template.limits.observation, template.limits.action) == (100, 8000)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("version = 3", "version = 3\ncolour = 1"), "no key is named colour; there are name, version, privileged"),
        (("[limits]", "[limits]\ncolour = 1"), "no key is named limits.colour; there are observation, action"),
        (("first = 0", "first = 0\nx = 1"), r"no key is named units.x; there are word, first"),
        (("reminder", "again"), "no key is named text.again; there are instruction, reminder"),
        (('reminder = "Once more."', ""), "text.reminder is None; give a text"),
        (('reminder = "Once more."', 'reminder = " "'), "text.reminder is empty; give a text"),
        (('kind = "labels"', 'kind = "stars"'), "scale.kind is 'stars'; it takes labels, range, wrong, probability"),
        (("yes = 1", "yes = 2"), "give two or more, each a number from -1 to 1"),
        ((", hm = 0.25, no = -1", ""), "give two or more, each a number from -1 to 1"),
        (("yes = 1", "yes = true"), "scale.labels.yes is True; give a finite number"),
        (("yes = 1", "yes = nan"), "scale.labels.yes is nan; give a finite number"),
        (("labels = {", "low = 1\nlabels = {"), "no key is named scale.low; there are kind, labels"),
        (('word = "move"', 'word = "<move>"'), "units.word is '<move>'; give a short word"),
        (("first = 0", "first = -1"), "units.first is -1; give a whole number from 0 on"),
        (("version = 3", "version = true"), "version is True; give a whole number from 0 on"),
        (("version = 3", 'version = "3"'), "version is '3'; give a whole number"),
        (("privileged = true", "privileged = 1"), "privileged is 1; give true or false"),
        (("observation = 100", "observation = 1"), "show or allow next to nothing"),
        (("$count", "$colour"), r"asks for \$colour; it may use \$unit, \$first, \$last, \$count"),
        (("$$5", "$5"), r"has a lone \$ sign; write \$\$ for one"),
        (('name = "mine"', "name"), "is no TOML"),
    ],
)
def test_what_a_template_may_not_say(file, change, sentence):
    assert change[0] in OWN
    with pytest.raises(ConfigError, match=sentence):
        load_template(file(OWN.replace(*change)))


def test_scales_of_numbers(file):
    def of(scale):
        return read_template(re.sub(r"kind = .*\nlabels = .*", scale, OWN).encode(), "x").scale

    assert (of('kind = "range"\nlow = 1\nhigh = 5').low, of('kind = "range"\nlow = 1\nhigh = 5').high) == (1, 5)
    assert (of('kind = "wrong"').low, of('kind = "wrong"').high) == (-1, 1)
    assert (of('kind = "probability"').low, of('kind = "probability"').high) == (0, 1)
    with pytest.raises(ConfigError, match=r"the scale goes from 5 to 1; give low < high"):
        of('kind = "range"\nlow = 5\nhigh = 1')
    with pytest.raises(ConfigError, match=r"scale.high is None; give a finite number"):
        of('kind = "range"\nlow = 5')


def test_what_is_no_template(file, tmp_path):
    with pytest.raises(ConfigError, match=r"no judge template named 'nope'; there are coach, labels, scores"):
        load_template("nope")
    for name in (str(tmp_path), str(tmp_path / "absent.toml"), file(name="mine.txt"), "../labels", "a b"):
        with pytest.raises(ConfigError, match=r"is neither a name \(coach, .*\) nor a .toml file"):
            load_template(name)
    with pytest.raises(ConfigError, match=r"is larger than 256 KiB; give a prompt, not data"):
        load_template(file(OWN + "#" * 2**18))
    (tmp_path / "latin.toml").write_bytes(OWN.replace("Once", "Où").encode("latin-1"))
    with pytest.raises(ConfigError, match="is no TOML"):
        load_template(str(tmp_path / "latin.toml"))


def test_the_content_of_a_template_is_part_of_what_an_answer_depends_on(file):
    rollout = Trajectory([Step(observation="q", action="a")], reference="r")
    path = file()
    request = Request(Judge(0, (Place(0),), path, privileged=True), rollout, 0, 0)

    def judge():
        return JudgeCallable(lambda *a: "", identity="x")

    before = judge().content(request)
    kept = judge()
    kept.template(path)
    file(OWN.replace("tokens = 70", "tokens = 71"))  # the words are the same, the file is not
    assert judge().content(request) != before
    assert kept.content(request) == before  # a run goes on with what it began with
    file()
    assert judge().content(request) == before
