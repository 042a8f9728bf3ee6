"""Digests of places: what caches of earlier versions were written under, and equal futures told from others."""

import numpy as np

from apportion.asks import Place
from apportion.data import Step, Trajectory
from apportion.resources import digest
from apportion.resources.past import digest_upto


def rollout(ids=(7, 123, 0, 50256), first=(15, 2)):
    steps = [Step(prompt_ids=list(first), ids=[9, 10]), Step(prompt_ids=np.array([1]), ids=np.array(ids))]
    return Trajectory(steps, group="g", reference="42")


def test_digests_are_those_of_stored_caches():
    """Written down from the first release's way of hashing: another digest would pay for every answer again."""
    told = [digest_upto(rollout(), Place(0, 1, token)).hex() for token in range(5)]
    assert told == STORED
    assert [digest_upto(rollout(), Place(0, 1, token)).hex() for token in reversed(range(5))] == STORED[::-1]


def test_equal_beginnings_have_equal_digests_and_no_others():
    at = [Place(0, 1, token) for token in range(5)]
    one, other = rollout(), rollout(ids=(7, 123, 0, 50255))
    assert [digest_upto(one, p) == digest_upto(other, p) for p in at] == [True] * 4 + [False]
    assert digest_upto(rollout(ids=(71, 23, 0, 5)), at[2]) != digest_upto(rollout(ids=(7, 123, 0, 5)), at[2])
    assert digest_upto(rollout(first=(1, 52)), at[0]) != digest_upto(rollout(first=(15, 2)), at[0])


def test_what_is_kept_is_bounded_and_of_the_step_itself():
    """Steps that are gone leave their number to others, which must not be given their ids."""
    seen = set()
    for k in range(3 * digest.KEPT):
        seen.add(digest_upto(rollout(ids=(k,)), Place(0, 1, 1)))
        assert digest._kept.cache_info().currsize <= digest.KEPT
    assert len(seen) == 3 * digest.KEPT


STORED = [
    "47805dbd6f9a1dfdfe2d4e61509c888f9c33a1d2",
    "78348c9c9248f0814982d2a66178b8313da72c8e",
    "7f6e7172ceda58bf8068a2293293fcdfbd52b6aa",
    "a41d3ff9b5dd2159077066a9ea178973d425c6fd",
    "5adaada1eab435310a735d8c6fd58679a58eb485",
]
