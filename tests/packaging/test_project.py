"""What pyproject.toml promises: lowest versions that are tested, extras that fit together, licences, whole releases."""

import importlib.util
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Their oldest builds for Linux come with CUDA, gigabytes; CONTRIBUTING says with which versions they were run last.
BY_HAND = {
    "train",
    "trl",
    "ray",
    "verl",
    "bench",
    "docs",
    "notebook",
    "reasoning-gym",
    "textarena",
    "textworld",
    "alfworld",
}
TOOLS = {"ruff", "mypy", "scipy"}  # of developers, pinned by constraints/known-good.txt; users never have them


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins(name):
    lines = (ROOT / "constraints" / name).read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(r.name): Version(next(iter(r.specifier)).version) for r in found}


def asked(extra):
    """Requirements of an extra, those that it takes from other extras included."""
    lines = PROJECT["dependencies"] if extra == "" else EXTRAS[extra]
    for requirement in map(Requirement, lines):
        if requirement.name == "apportion":
            for other in requirement.extras:
                yield from asked(other)
        else:
            yield requirement


def test_the_lowest_versions_are_those_that_are_tested():
    lowest = pins("oldest.txt")
    promised = {}
    for extra in ["", *(set(EXTRAS) - BY_HAND - {"all"})]:
        for requirement in asked(extra):
            if requirement.name not in TOOLS:
                (bound,) = (s.version for s in requirement.specifier if s.operator == ">=")
                promised[canonicalize_name(requirement.name)] = Version(bound)
    assert set(lowest) == set(promised)
    for name, version in lowest.items():
        bound = promised[name].release
        assert version.release[: len(bound)] == bound, f"{name}: {version} is tested, {promised[name]} is promised"


def test_every_requirement_has_a_lower_bound():
    for extra in ["", *EXTRAS]:
        for requirement in asked(extra):
            assert any(s.operator == ">=" for s in requirement.specifier), requirement


def test_the_versions_that_are_installed_are_those_that_are_promised():
    known = pins("known-good.txt")
    for extra in ("", "all", "trl", "dev", "notebook", "reasoning-gym"):
        for requirement in asked(extra):
            name = canonicalize_name(requirement.name)
            assert name in known, f"constraints/known-good.txt lacks {name}"
            assert requirement.specifier.contains(known[name]), f"{requirement} excludes {known[name]}"


def test_the_readme_names_every_extra_that_a_user_may_want():
    table = re.search(r"## Extras\n(.*?)\n## ", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)[1]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`([\w-]+)`", row)}
    assert named == set(EXTRAS) - {"dev", "docs", "notebook", "bench", "alfworld"}


def test_nothing_in_all_is_under_the_gpl():
    licences = load("licences")
    found, absent = licences.brought(["apportion"] + [str(r) for r in asked("all")])
    assert [name for name, licence in found.items() if re.search(r"\bA?GPL", licence)] == []
    if absent:
        pytest.skip(f"not installed: {', '.join(sorted(absent))}")


def test_the_extras_that_need_the_gpl_stand_alone():
    for extra in ("textarena", "textworld", "alfworld"):
        (requirement,) = EXTRAS[extra]
        inside = [other for other in EXTRAS if other != extra and requirement in EXTRAS[other]]
        assert inside == []
        assert not any(r.name == Requirement(requirement).name for r in asked("all"))


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ({"License-Expression": "Apache-2.0 AND MIT"}, "Apache-2.0 AND MIT"),
        ({"License": "GNU General Public License v3"}, "GPL"),
        ({"Classifier": "License :: OSI Approved :: GNU Lesser General Public License v2 (LGPLv2)"}, "LGPL"),
        ({"License": "MIT License\n\nPermission is hereby granted, free of charge, to any person"}, "MIT"),
        ({"Classifier": "License :: OSI Approved :: GNU Affero General Public License v3"}, "AGPL"),
        ({}, "not said"),
    ],
)
def test_a_licence_is_read_off_what_a_package_says(metadata, licence):
    from email.message import Message

    told = Message()
    told["Name"] = "some-package"
    for key, value in metadata.items():
        told.add_header(key, value)

    class Package:
        metadata = told
        files = ()

    assert load("licences").licence_of(Package()) == licence


def test_the_page_of_licences_tells_of_what_is_installed():
    licences = load("licences")
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\S+) \| (.*?) \|", page, re.M))
    for requirement in asked("all"):
        name = canonicalize_name(requirement.name)
        assert name in rows, "run `make licences`"
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        assert rows[name] == licences.licence_of(installed), "run `make licences`"
    for extra in EXTRAS:
        assert extra in licences.APART or extra == "all" or re.search(rf"^\| .*\b{extra}\b", page, re.M), extra


def whole_sdist():
    return dict.fromkeys(load("release").IN_SDIST, 10)


def test_an_sdist_and_a_wheel_that_are_whole_pass():
    release = load("release")
    assert release.faults_of_sdist(whole_sdist() | {"tests/data/test_read.py": 100}) == []
    names = ["apportion/__init__.py", "apportion-1.dist-info/METADATA", "apportion-1.dist-info/licenses/LICENSE"]
    assert release.faults_of_wheel(names, {"apportion/__init__.py"}) == []


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("experiments/pooled.py", 10),
        ("docs/results/run.json", 10),
        ("runs/demo/report.html", 10),
        ("src/apportion/__pycache__/x.pyc", 10),
        ("docs/images/huge.png", 5 << 20),
    ],
)
def test_junk_in_an_sdist_is_found(name, size):
    (fault,) = load("release").faults_of_sdist(whole_sdist() | {name: size})
    assert name in fault


def test_a_lack_is_found():
    release = load("release")
    parts = whole_sdist()
    del parts["SECURITY.md"]
    assert release.faults_of_sdist(parts) == ["the sdist lacks SECURITY.md"]
    wrong = release.faults_of_wheel(["apportion/a.py", "tests/x.py"], {"apportion/a.py", "apportion/b.css"})
    assert wrong == ["the wheel holds tests/x.py", "the wheel lacks apportion/b.css", "the wheel lacks the licence"]


def test_the_version_stands_everywhere():
    import apportion

    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {apportion.__version__}\n" in citation
    assert "cff-version: 1.2.0" in citation
