"""The benchmark itself: values first, wrong values fail, absent peers are told, and nothing of a peer stays."""

import dataclasses
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from apportion.bench.speed import __main__ as command
from apportion.bench.speed import registry
from apportion.bench.speed.batches import KINDS, step_rows, tokens
from apportion.bench.speed.cases.similarity import group, observations, without_rapidfuzz
from apportion.bench.speed.compare import Comparison, Contender, Peer, difference, measure, without_numba
from apportion.bench.speed.limit import fill, traffic
from apportion.bench.speed.peers import Peers
from apportion.bench.speed.report import as_json, remarks, seconds, table
from apportion.bench.speed.stand_ins import Absent, StandIn
from apportion.bench.speed.timing import medians
from apportion.numerics.kernels import VARIABLE
from apportion.units import similar


@pytest.fixture(autouse=True)
def short_timings(monkeypatch):
    """The machinery is tested here, not the clock."""
    monkeypatch.setattr("apportion.bench.speed.timing.LONG_ENOUGH", 1e-3)


def comparison(theirs=2.0, **options) -> Comparison:
    """Ours returns twos; the peer returns what the test wants, a hundred times slower."""
    peers = {"them": Peer(lambda: [np.full(50, theirs) for _ in range(100)], lambda result: result[0])}
    contender = Contender(run=lambda: np.full(50, 2.0), value=lambda result: result, **options)
    return Comparison("kernel", "batch", 50, "thing", peers, {"ours": contender})


def test_equal_values_give_a_ratio_and_no_complaint():
    (row,) = measure(comparison(half=lambda: np.full(25, 2.0), limit=lambda: np.full(50, 1.0)), 3)
    assert row.difference == 0.0
    assert not row.mismatch
    assert row.ratio == pytest.approx(row.peer_seconds / row.seconds)
    assert row.ratio > 5
    assert row.times_limit == pytest.approx(row.seconds / row.limit_seconds)
    assert row.growth is not None
    assert row.numpy_ratio is not None


@pytest.mark.parametrize("theirs", [2.001, -2.0, np.nan, np.inf])
def test_wrong_values_are_a_failure(theirs):
    (row,) = measure(comparison(theirs), 1)
    assert row.mismatch
    assert remarks([row])[0].startswith("WRONG VALUES: kernel, ours, batch differs from them by ")


def test_a_missed_goal_is_told_but_is_no_failure_and_quick_runs_are_not_judged():
    case = comparison(floor={"them": 1e9}, limit=lambda: np.full(50, 1.0), ceiling=1e-9)
    (row,) = measure(case, 1)
    assert row.below_floor
    assert row.above_ceiling
    assert not row.mismatch
    told = remarks([row])
    assert len(told) == 2
    assert told[0].endswith("times as fast as them, not 1e+09")
    assert told[1].endswith("times the limit, not 1e-09")
    (row,) = measure(case, 1, goals=False)
    assert not row.below_floor
    assert not row.above_ceiling


def test_a_growth_that_is_too_steep_is_told():
    (row,) = measure(comparison(half=lambda: np.full(25, 2.0), steepest=1e-9), 1)
    assert row.too_steep
    assert remarks([row])[0].endswith("times as much when doubled, not 1e-09")
    (row,) = measure(comparison(half=lambda: np.full(25, 2.0), steepest=1e9), 1)
    assert not row.too_steep
    (row,) = measure(comparison(half=lambda: np.full(25, 2.0), steepest=1e-9), 1, goals=False)
    assert not row.too_steep


def test_an_item_that_takes_too_long_is_told_once_whoever_it_is_compared_with():
    def slow_is(allowed):
        return Contender(run=lambda: np.full(50, 2.0), value=lambda result: result, slowest=allowed)

    peers = {name: Peer(lambda: np.full(50, 2.0), lambda result: result) for name in ("them", "others")}
    for allowed, told in ((1e-12, 1), (1.0, 0)):
        case = Comparison("kernel", "batch", 50, "byte", peers, {"ours": slow_is(allowed)})
        rows = list(measure(case, 1))
        assert [row.too_slow for row in rows] == [bool(told)] * 2
        assert len(remarks(rows)) == told
        assert as_json(rows, Peers(), quick=False)["rows"][0]["short"] is bool(told)
        if told:
            assert remarks(rows)[0].startswith("short of its goal: kernel, ours, batch takes ")
            assert remarks(rows)[0].endswith(" a byte, not 0.001 ns")
            assert "(≤ 0.001 ns)" in shown(rows)
        assert not any(row.too_slow for row in measure(case, 1, goals=False))


def shown(rows) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(table(rows))
    return console.file.getvalue()


def test_absent_peers_leave_one_row_of_our_own_numbers():
    ours = Contender(run=lambda: np.ones(3), value=lambda result: result)
    absent = {"them": "not installed", "others": "nowhere"}
    (row,) = measure(Comparison("kernel", "batch", 3, "thing", absent, {"ours": ours}), 1)
    assert (row.ratio, row.difference, row.mismatch) == (None, None, False)
    assert row.seconds > 0
    assert remarks([row]) == ["no comparison with others: nowhere", "no comparison with them: not installed"]
    same = dict.fromkeys(("their loop", "their lines"), "not installed")
    (row,) = measure(Comparison("kernel", "batch", 3, "thing", same, {"ours": ours}), 1)
    assert remarks([row]) == ["no comparison with their lines, their loop: not installed"]
    assert "absent" in shown([row])


def test_absent_peers_add_no_row_beside_those_that_are_here():
    case = comparison()
    (row,) = measure(dataclasses.replace(case, peers={**case.peers, "others": "nowhere"}), 1)
    assert row.peer == "them"
    assert remarks([row]) == ["no comparison with others: nowhere"]


def test_nobody_to_compare_with_is_no_absent_peer():
    ours = Contender(run=lambda: np.ones(3), value=lambda result: result)
    (row,) = measure(Comparison("kernel", "batch", 3, "thing", {}, {"ours": ours}), 1)
    assert remarks([row]) == []
    assert "none" in shown([row])


def test_differences():
    assert difference(np.array([1.0, 2]), np.array([1.0, 2.5])) == pytest.approx(0.2)
    assert difference(np.array([0.0]), np.array([1e-3])) == 1e-3
    assert difference(np.ones(2), np.ones(3)) == np.inf
    assert difference(np.ones((2, 1)), np.ones(2)) == np.inf
    assert np.isnan(difference(np.array([np.nan]), np.ones(1)))
    assert difference(np.zeros(0), np.zeros(0)) == 0


def test_without_numba_is_for_that_call_only(monkeypatch):
    for before in (None, "1"):
        monkeypatch.delenv(VARIABLE, raising=False)
        if before is not None:
            monkeypatch.setenv(VARIABLE, before)
        assert without_numba(lambda: os.environ[VARIABLE])() == "0"
        assert os.environ.get(VARIABLE) == before


def test_what_computes_with_torch_is_loaded_or_its_absence_told():
    def gone(peers):
        raise Absent("core.py is not installed")

    setting = registry.Setting(Peers())
    pytest.importorskip("torch")
    assert setting.beside_torch(lambda peers: peers.loaded) == {}
    assert setting.beside_torch(gone) == "core.py is not installed"


def test_medians_time_every_call_in_every_round():
    calls = {"a": 0, "b": 0}

    def run(name, work):
        def call():
            calls[name] += 1
            return sum(range(work))

        return call

    got = medians({"a": run("a", 100_000), "b": run("b", 1_000_000)}, 3)
    assert got["b"] > 2 * got["a"] > 0
    assert min(calls.values()) >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_batches_have_the_shapes_they_promise(kind):
    b = tokens(kind, quick=True)
    assert len(b.reward_X) == len(b.value_X) == len(b.sampled_X) == b.length_N.sum() == len(b.seg_of_X)
    assert (b.reward_X.dtype, b.value_X.dtype) == (np.float32, np.float32)
    assert (b.reward_X[~b.sampled_X] == 0).all()
    np.testing.assert_array_equal(b.packed(b.padded(b.value_X)), b.value_X)
    half = b.first_half()
    np.testing.assert_array_equal(half.value_X, b.value_X[: len(half.value_X)])
    share = b.sampled_X.mean()
    assert share == 1 if kind != "agentic" else 0.2 < share < 0.4


def test_unknown_batches_are_named():
    with pytest.raises(ValueError, match="no batch named 'chat'; there are math, agentic, long"):
        tokens("chat")


def test_step_rows_recur():
    rows = step_rows(2, 3, 10)
    assert len(rows.task_R) == len(rows.traj_R) == len(rows.state_R) == len(rows.reward_R) == 60
    assert len(set(rows.task_R)) == 2
    assert len(set(rows.traj_R)) == 6
    assert 5 < len(set(rows.state_R)) < 60


def test_the_limit_moves_the_bytes_it_says():
    x, y = np.arange(40_000, dtype=np.float32), np.ones(40_000, dtype=np.float32)
    run = traffic([x, y, x > 3], [np.float32, np.float64])
    first, second = run()
    np.testing.assert_array_equal(first, x + 1)
    np.testing.assert_array_equal(second, x + 1)
    assert (first.dtype, second.dtype) == (np.float32, np.float64)
    assert run()[0] is not first
    assert fill(5, np.float32)().tolist() == [1.0] * 5


# --- peers -------------------------------------------------------------------------------------------------

VERL_CORE = """
from omegaconf_that_is_absent import DictConfig
import verl.utils.torch_functional as verl_F
from verl.trainer.config import AlgoConfig
from verl.utils import as_torch_index, group_mean_std
from verl.utils.import_utils import deprecated
import numpy as np

REGISTRY = {}

def register(name):
    def decorator(function):
        REGISTRY[name] = function
        return function
    return decorator

@register("double")
def double(x, config: AlgoConfig = None):
    return verl_F.twice(x)

@deprecated("use double")
def old(x):
    return x

def grouped(x):
    return group_mean_std(as_torch_index(x)), old(3)
"""
FILES = {
    "verl/trainer/ppo/core_algos.py": VERL_CORE,
    "verl/utils/torch_functional.py": "from tensordict import TensorDict\ndef twice(x):\n    return 2 * x\n",
    "verl/utils/groupwise.py": "from verl.utils.device import get_device_name\n"
    "def as_torch_index(x):\n    return x, get_device_name()\n"
    "def group_mean_std(x):\n    return x\n",
}


def checkout(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr("apportion.bench.speed.peers._installed", lambda name: iter(()))


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("inside", ["", "verl-1.0"])
def test_a_checkout_is_loaded_with_stand_ins_for_what_is_absent(tmp_path, inside):
    checkout(tmp_path / inside, FILES)
    before = set(sys.modules)
    peers = Peers(tmp_path)
    core = peers.verl()
    assert core.double(21) == 42
    assert core.grouped("x") == (("x", "cpu"), 3)
    assert core.REGISTRY["double"] is core.double
    assert isinstance(core.DictConfig, type)
    assert sorted(peers.loaded) == sorted(FILES)
    left = {name for name in set(sys.modules) - before if name.partition(".")[0] not in ("torch", "numpy")}
    assert not [name for name in left if name.startswith(("verl", "tensordict", "omegaconf", "_peer"))]
    assert not any(isinstance(module, StandIn) for module in sys.modules.values())


@pytest.mark.usefixtures("nothing_installed")
def test_a_fork_s_copy_comes_after_the_original(tmp_path):
    fork = {
        **FILES,
        "verl/utils/torch_functional.py": "def twice(x):\n    return 'fork'\n",
        "gigpo/core_gigpo.py": "A = 1\n",
    }
    checkout(tmp_path / "a-fork", fork)
    checkout(tmp_path / "verl", FILES)
    assert Peers(tmp_path).verl().double(1) == 2
    assert Peers(tmp_path).gigpo().A == 1
    assert Peers(tmp_path / "a-fork").verl().double(1) == "fork"


@pytest.mark.usefixtures("nothing_installed")
def test_the_checkout_with_the_package_s_name_comes_before_forks_that_nobody_knows(tmp_path):
    checkout(tmp_path / "a-fork", {**FILES, "verl/utils/torch_functional.py": "def twice(x):\n    return 'fork'\n"})
    checkout(tmp_path / "verl", FILES)
    assert Peers(tmp_path).verl().double(1) == 2


def test_texts_of_the_similarity_case_recur_or_all_differ():
    met = observations(80, distinct=False)
    assert len(met) == 80
    assert 10 < len(set(met)) < 80
    assert len(set(observations(40, distinct=True))) == 40
    assert sum(text.split(" step ")[0] in met for text in met if " step " in text) > 5
    assert group(["a", "b", "a"]) == ["a", "b", "a"]
    assert without_rapidfuzz(lambda: group(met))() == group(met)
    assert without_rapidfuzz(lambda: similar._rapidfuzz())() is None


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "gigpo/core_gigpo.py is neither installed nor below --peer-src"),
        ({"gigpo/core_gigpo.py": "1 / 0"}, "core_gigpo.py cannot be loaded: ZeroDivisionError: division by zero"),
    ],
)
def test_a_missing_or_broken_peer_is_absent_with_a_reason(tmp_path, files, sentence):
    with pytest.raises(Absent) as caught:
        Peers(checkout(tmp_path, files)).gigpo()
    assert str(caught.value) == sentence


@pytest.mark.usefixtures("nothing_installed")
def test_without_a_folder_only_installed_packages_count():
    with pytest.raises(Absent, match=r"core_gigpo[.]py is not installed"):
        Peers().gigpo()


TRAINER = """
class Trainer:
    def train(self):
        for _ in range(3):
            if True:
                lastgaelam = 0
                steps = []
                for t in reversed(range(responses.shape[1])):
                    nextvalues = values[:, t + 1] if t + 1 < responses.shape[1] else 0.0
                    delta = rewards[:, t] + args.gamma * nextvalues - values[:, t]
                    lastgaelam = delta + args.gamma * args.lam * lastgaelam
                    steps.append(lastgaelam)
                advantages = torch.stack(steps[::-1], 1)
                returns = advantages + values
                self.step(advantages)
"""


@pytest.mark.usefixtures("nothing_installed")
def test_lines_inside_a_trainer_become_a_function(tmp_path):
    from types import SimpleNamespace

    lines = Peers(checkout(tmp_path, {"trl/trainer/ppo_trainer.py": TRAINER})).trl_gae()
    reward, value = np.array([[0.0, 1.0]]), np.array([[0.5, 0.25]])
    advantage, returns = lines(np, SimpleNamespace(gamma=1.0, lam=0.5), reward, reward, value)
    np.testing.assert_allclose(advantage, [[0.125, 0.75]])
    np.testing.assert_allclose(returns, [[0.625, 1.0]])
    with pytest.raises(Absent, match=r"has no line 'returns = advantages [+] values'"):
        Peers(checkout(tmp_path, {"trl/trainer/ppo_trainer.py": TRAINER.split("returns =")[0]})).trl_gae()


FORK = """
def compute_tempo_outcome_advantage(x):
    return [x]
"""
GENERATOR = """
from absent_package import Base, register

@register("mc")
class Generator(Base):
    def cut(self, response_logprobs):
        if True:
            response_probs = np.exp(response_logprobs)
            cutpoints = np.where(response_probs < 0.9)[0]
            cutpoints = cutpoints[::self.cutpoint_interval]
            return None

    @absent_decorator
    def _compute_token_advantages(self, trajectory: Dict[str, Any]) -> List[float]:
        return trajectory["score"]
"""


@pytest.mark.usefixtures("nothing_installed")
def test_of_several_copies_the_one_that_holds_the_text_is_loaded(tmp_path):
    checkout(tmp_path / "a", {"verl/trainer/ppo/core_algos.py": "A = 1\n"})
    with pytest.raises(
        Absent, match=r"core_algos[.]py with 'compute_tempo_outcome_advantage' in it is neither installed"
    ):
        Peers(tmp_path).tempo()
    checkout(tmp_path / "b", {"verl/trainer/ppo/core_algos.py": FORK})
    assert Peers(tmp_path).tempo()(3) == [3]


@pytest.mark.usefixtures("nothing_installed")
def test_a_method_and_lines_are_taken_out_of_a_class_that_cannot_be_loaded(tmp_path):
    from types import SimpleNamespace

    name = "src/treetune/episode_generators/math_episode_generator_with_mc_advantages.py"
    peers = Peers(checkout(tmp_path, {name: GENERATOR}))
    assert peers.spo_advantages()(None, {"score": 0.5}) == 0.5
    at, probability = peers.spo_cutpoints()(np, SimpleNamespace(cutpoint_interval=2), np.log([0.5, 0.95, 0.2, 0.3]))
    assert at.tolist() == [0, 3]
    np.testing.assert_allclose(probability, [0.5, 0.95, 0.2, 0.3])
    checkout(tmp_path, {name: GENERATOR.split("cutpoints = cutpoints[")[0] + "pass\n"})
    with pytest.raises(Absent, match=r"has no line 'cutpoints = cutpoints\[::self.cutpoint_interval\]'"):
        Peers(tmp_path).spo_cutpoints()


# --- the command -------------------------------------------------------------------------------------------


def run(monkeypatch, capsys, made: Comparison, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(command, "cases", lambda: {"fake": lambda setting: iter([made])})
    code = command.main(["--rounds", "1", *arguments])
    return code, capsys.readouterr().out


def test_the_exit_code_is_1_exactly_when_values_differ(monkeypatch, capsys, tmp_path):
    code, text = run(monkeypatch, capsys, comparison())
    assert code == 0
    assert "WRONG" not in text
    code, text = run(monkeypatch, capsys, comparison(theirs=3.0), "--json", str(tmp_path / "out.json"))
    assert code == 1
    assert "WRONG VALUES: kernel, ours, batch differs from them by 0.33 (allowed 1e-05)" in text
    code, _ = run(monkeypatch, capsys, comparison(theirs=np.nan), "--json", str(tmp_path / "nan.json"))
    assert code == 1
    (row,) = json.loads((tmp_path / "nan.json").read_text())["rows"]
    assert (row["difference"], row["mismatch"]) == (None, True)
    code, _ = run(monkeypatch, capsys, comparison(floor={"them": 1e9}))
    assert code == 0


def test_the_json_holds_the_whole_run(monkeypatch, capsys, tmp_path):
    path = tmp_path / "out.json"
    run(monkeypatch, capsys, comparison(limit=lambda: np.ones(50)), "--json", str(path))
    got = json.loads(path.read_text())
    assert got["schema"] == 2
    assert got["versions"]["numpy"] == np.__version__
    (row,) = got["rows"]
    assert row["ratio"] == pytest.approx(row["peer_seconds"] / row["seconds"])
    assert row["share_of_limit"] == pytest.approx(row["limit_seconds"] / row["seconds"])
    assert (row["mismatch"], row["short"], row["difference"]) == (False, False, 0.0)
    assert str(tmp_path) not in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--peer-src", "nowhere"], "--peer-src: nowhere is not a folder"),
        (["--json", "nowhere/out.json"], "--json: the folder of nowhere/out.json does not exist"),
        (["--rounds", "0"], "--rounds: at least 1"),
        (["--only", "gipgo"], "invalid choice: 'gipgo'"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err


def test_every_file_of_cases_registers_one():
    found = registry.cases()
    assert {"gae", "gigpo", "grpo", "similarity"} <= set(found)
    modules = {function.__module__.rpartition(".")[2] for function in found.values()}
    folder = Path(command.__file__).parent / "cases"
    assert modules == {path.stem for path in folder.glob("*.py")} - {"__init__"}
    with pytest.raises(ValueError, match="two benchmark cases are named 'gae'; rename one"):
        registry.case("gae")(lambda setting: iter(()))


def test_seconds_are_written_with_three_digits():
    assert [seconds(x) for x in (12.34, 0.0125, 3.21e-5, 4.5e-9)] == ["12.3 s", "12.5 ms", "32.1 µs", "4.5 ns"]


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_installed")
def test_all_cases_run_without_any_peer(capsys):
    assert command.main(["--quick", "--rounds", "1"]) == 0
    text = capsys.readouterr().out
    assert "no comparison with verl, verl vectorised, verl's loop: verl/trainer/ppo/core_algos.py is not" in text
    assert "no comparison with verl-agent: gigpo/core_gigpo.py is not installed" in text
