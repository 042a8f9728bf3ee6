"""A real package of somebody else: built into a wheel, installed by pip into a folder of its own, used from there."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ACME = Path(__file__).parent / "acme"
REPOSITORY = Path(__file__).parents[2]


def build_wheel(source: Path, folder: Path) -> Path:
    """What a build backend does, without one: modules, metadata, entry points and a record, zipped."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    points = [f"[{group}]" for group in project["entry-points"]]
    for group in project["entry-points"].values():
        points += [f"{key} = {value}" for key, value in group.items()]
    info = f"{name}-{version}.dist-info"
    files = {str(path.relative_to(source / "src")): path.read_bytes() for path in (source / "src").rglob("*.py")}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = ("\n".join(points) + "\n").encode()
    digests = {path: base64.urlsafe_b64encode(hashlib.sha256(body).digest()) for path, body in files.items()}
    record = [f"{path},sha256={digests[path].rstrip(b'=').decode()},{len(files[path])}" for path in files]
    files[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]) + "\n").encode()
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, body in files.items():
            archive.writestr(path, body)
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder that the plug-in is installed in."""
    folder, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), str(build_wheel(ACME, folder))], check=True)
    return target


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a clean process that sees the plug-in."""
    path = os.pathsep.join([str(installed), str(REPOSITORY / "src"), str(REPOSITORY)])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def say(installed: Path, code: str) -> object:
    """The JSON that a snippet prints."""
    child = run(installed, "-c", f"import json, apportion as ap\n{code}")
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


UNITS = "from tests.make import units_of; u = units_of([0, 0, 0, 1], [1, 2, 1, 1], [('A', r) for r in (1, 0, 3, 0, 9)])"


def test_a_method_is_found_by_its_name(installed):
    code = f"{UNITS}\nprint(json.dumps(ap.assign('acme/margin', u, factor=0.5).advantage_S.tolist()))"
    assert say(installed, code) == [-1.0, 1.0, 1.0, -1.5, 0.0]


def test_a_method_is_found_by_an_entry_point_of_its_own(installed):
    code = f"{UNITS}\nprint(json.dumps(ap.assign('acme_late/last_unit', u).advantage_S.tolist()))"
    assert say(installed, code) == [1.0, 0.0, 3.0, 0.0, 9.0]


def test_it_takes_part_in_compositions_and_records(installed):
    code = f"""{UNITS}
credit = ap.assign('grpo - 0.5*acme/margin(factor=2) + 2*acme_late/last_unit | acme/sign', u)
again = ap.remake(json.loads(json.dumps(credit.record())), u)
out = [credit.method, credit.params['acme/margin'], credit.advantage_S.tolist(), again.advantage_S.tolist()]
print(json.dumps(out))
"""
    method, params, credit, again = say(installed, code)
    assert method == "grpo - 0.5*acme/margin + 2.0*acme_late/last_unit | acme/sign"
    assert params == {"factor": 2}
    assert credit == again


def test_nothing_of_it_is_loaded_before_it_is_named(installed):
    code = f"""import sys
{UNITS}
ap.assign('gigpo', u)
print(json.dumps([name for name in sys.modules if 'acme' in name]))
"""
    assert say(installed, code) == []


def test_all_plugins_are_listed_on_request_and_a_broken_one_is_a_warning(installed):
    code = """import warnings
from apportion.methods import names
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    found = [name for name in names(plugins=True) if '/' in name]
print(json.dumps([[n for n in names() if '/' in n] == found, sorted(found), [str(w.message) for w in caught]]))
"""
    same, found, (warning,) = say(installed, code)
    assert same
    assert found == ["acme/margin", "acme/sign", "acme_late/last_unit"]
    assert "'acme_credit.broken'" in warning


def test_a_broken_plugin_breaks_its_own_name_only(installed):
    code = f"""{UNITS}
out = []
for name in ('acme_broken/x', 'acme/nothing', 'rloo'):
    try: out.append(ap.assign(name, u).method)
    except ap.ApportionError as problem: out.append(type(problem).__name__ + ': ' + str(problem))
print(json.dumps(out))
"""
    broken, absent, fine = say(installed, code)
    assert broken == (
        "ConfigError: the plug-in 'acme_credit.broken' that offers 'acme_broken/x' cannot be imported: "
        "ModuleNotFoundError: No module named 'a_package_that_nobody_has'; fix or uninstall it"
    )
    assert absent.startswith("UnknownName: no credit method named 'acme/nothing'; did you mean 'acme/")
    assert fine == "rloo"


def test_a_name_that_misses_leads_to_the_plugins(installed):
    code = """
def miss(name):
    try: ap.describe(name)
    except ap.UnknownName as problem: return str(problem).partition('; ')[2]
told = [miss('acmee/margin'), miss('zzz'), miss('nobody/zzz')]
ap.describe('acme/margin')
print(json.dumps([*told, miss('margin')]))
"""
    with_package, nothing, nobody, bare = say(installed, code)
    assert with_package == bare == "did you mean 'acme/margin'?"
    assert nothing == nobody == "see `apportion methods --plugins`"


def test_the_list_says_that_there_are_more(installed):
    listed = run(installed, "-m", "apportion", "methods")
    assert "installed packages have more (acme, acme_broken, acme_late): apportion methods --plugins" in listed.stderr
    assert "have more" not in run(installed, "-m", "apportion", "methods", "--plugins").stderr


def test_it_describes_itself_like_a_built_in(installed):
    told = say(installed, "ap.assign; print(json.dumps(ap.describe('acme/margin').to_dict()))")
    assert told["summary"] == "each trajectory's outcome against the best of the others in its group."
    assert told["formula"].strip() == "A[i] = R[i] - max_{j != i} R[j]"
    assert told["defaults"] == {"factor": 1.0}


def test_its_own_test_suite_passes(installed):
    child = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(ACME / "tests"))
    assert child.returncode == 0, child.stdout + child.stderr
    assert "passed" in child.stdout


def test_without_the_package_the_name_is_unknown():
    from apportion.assign import assign
    from apportion.errors import UnknownName
    from tests.make import units_of

    with pytest.raises(UnknownName, match="no credit method named 'acme/margin'"):
        assign("acme/margin", units_of([0], [1], [("A", 1)]))
