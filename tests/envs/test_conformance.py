"""Every environment passes every check, and every check can fail."""

import pytest

from apportion.envs import conformance, names, options, second_process
from apportion.envs.conformance import CHECKS, conform
from apportion.envs.registry import resolve
from apportion.errors import EnvError
from tests.envs.faulty import Corridor, Interfering

NEEDS = {
    "babyai": "minigrid",
    "searchqa": "bm25s",
    "webshop": "bm25s",
    "gym": "gymnasium",
    "textarena": "textarena",
    "textworld": "textworld",
}

BUILT_IN = [name for name in names() if "/" not in name]  # other tests of this process register their own

VARIANTS = [
    ("crafttree", {"show_time": True}),
    ("crafttree", {"goal": "lamp", "horizon": 7, "budget": 3}),
    ("keydoor", {"show_time": True}),
    ("keydoor", {"noise": (1.0,)}),
    ("keydoor", {"n": 2, "apples": 1, "horizon": 8}),
    ("alfworld", {"mode": "text", "show": "message"}),
    ("alfworld", {"show": "message", "split": "test"}),
    ("colspec", {"mode": "text", "reward": "share"}),
    ("mathword", {"mode": "choice"}),
    ("textcraft", {"mode": "text"}),
    ("textcraft", {"stock": "limited", "split": "test"}),
    ("twentyq", {"mode": "text", "show_table": False}),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_environment_passes(name, check):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{name} needs an extra")
    check(resolve(name))


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_environment_is_the_same_in_another_process(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{name} needs the extra 'envs'")
    conformance.check_second_process(name)


@pytest.mark.parametrize(("name", "given"), VARIANTS, ids=str)
def test_with_other_options(name, given):
    for check in CHECKS:
        check(resolve(name, given))


@pytest.mark.parametrize("reward", ["success", "minigrid"])
def test_another_babyai_level(reward):
    pytest.importorskip("minigrid", reason="BabyAI needs the extra 'envs'")
    make = resolve("babyai", {"level": "BabyAI-GoToLocalS5N2-v0", "reward": reward, "max_steps": 12})
    for check in (conformance.check_types, conformance.check_snapshot, conformance.check_replay):
        check(make)
    conformance.check_rewards(make)


@pytest.mark.parametrize("given", [{}, {"noise": True}, {"free_text": True}], ids=str)
def test_the_honest_corridor_passes(given):
    conform("tests.envs.faulty:Corridor", **given)


@pytest.mark.parametrize(
    ("fault", "check", "says"),
    [
        ("running total", conformance.check_rewards, "a reward is an increment, not a total"),
        ("global stream", conformance.check_seeded, "it moved the random state of the process"),
        ("own stream", conformance.check_seeded, "a second reset gives another episode; it must forget"),
        ("forgetful snapshot", conformance.check_snapshot, "restored in the same instance, the same actions went"),
        ("shared snapshot", conformance.check_snapshot, "restored in the same instance, the same actions went"),
        ("lost action", conformance.check_replay, "another state than the snapshot's"),
        ("own stream", conformance.check_replay, "draws on something that its seed does not fix"),
        ("nonsense moves", conformance.check_invalid_actions, "changed the observation"),
        ("nonsense costs", conformance.check_invalid_actions, "paid -1.0 instead of 0"),
        ("nonsense ends", conformance.check_invalid_actions, "terminated the episode"),
        ("nonsense is free", conformance.check_invalid_actions, "did not cost one step"),
        ("nonsense unmarked", conformance.check_invalid_actions, r"was not marked with info\['invalid'\]"),
        ("clock in key", conformance.check_invalid_actions, "changed the state key"),
        ("twins", conformance.check_actions, "holds doubles"),
        ("phantom", conformance.check_actions, "the listed action 'jump' counts as invalid"),
        ("blanks count", conformance.check_actions, "blanks around 'left' change what it does"),
        ("never over", conformance.check_order, "a step after the end is not refused"),
        ("no start needed", conformance.check_order, "step before the first reset is not refused"),
        ("integer reward", conformance.check_types, "the reward is [012], not a finite float"),
        ("no success", conformance.check_types, r"info\['success'\] is no bool at the end"),
        ("empty text", conformance.check_types, "the observation is '', not a text"),
        ("endless", conformance.check_types, "no end at spec.max_steps"),
        ("lost expert", conformance.check_expert, "the expert does not reach the goal"),
        ("meddling expert", conformance.check_expert, "asking the expert changed the game"),
        ("coarse key", conformance.check_state_key, "the key by state is that of seed"),
        ("hidden coins", conformance.check_state_key, "the key by observation is that of seed"),
        ("secret noise", conformance.check_noise, "declared deterministic, and its noise seed changes"),
        ("imaginary noise", conformance.check_noise, "was not seen"),
        ("stale noise", conformance.check_noise, "does not draw the noise afresh"),
    ],
)
def test_every_check_can_fail(fault, check, says):
    with pytest.raises(EnvError, match=rf"^corridor.*{says}"):
        check(lambda: Corridor(fault=fault))


def test_instances_that_share_state_are_found():
    with pytest.raises(EnvError, match="the seed alone must fix them, whatever else is played"):
        conformance.check_seeded(Interfering)


def test_the_second_process_check_can_fail():
    with pytest.raises(EnvError, match=r"under PYTHONHASHSEED=\d+ an equal seed gives another episode"):
        conformance.check_second_process("tests.envs.faulty:Corridor", {"fault": "hash"})


def test_a_crash_in_the_second_process_is_told():
    with pytest.raises(EnvError, match=r"could not play in another process: .*'Nobody'"):
        second_process.record_elsewhere("tests.envs.faulty:Nobody", "{}", "1")


def test_every_listed_check_has_a_planted_fault():
    marks = test_every_check_can_fail.pytestmark[0].args[1]
    assert {check for _, check, _ in marks} == set(CHECKS)


def test_options_are_listed_with_defaults():
    assert options("crafttree") == {"horizon": 9, "budget": 4, "goal": "any", "show_time": False}
