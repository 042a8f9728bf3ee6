"""Names and seeds of samples: answers that are stored under them must be found again, by every later version."""

import pytest

from apportion.asks import Continue, Judge, Logprob, Place, Score, Value
from apportion.resources.keys import Names

ASKS = [
    Continue(Place(0, 1, 2), 3, max_tokens=5, tag="t"),
    Judge(4, (Place(4, 0), Place(4, 1, 2)), "scores", 2, False, 1),
    Judge(4, (Place(4, 0), Place(4, 1, 3)), "scores", 2, False, 1),
    Judge(4, (Place(4, 0),), "scores"),
    Logprob(Place(0, 1)),
    Value(Place(2, 3)),
    Score(1),
]
STORED = [
    ("67139ecade04faadda4a1bd6f33064712170230f", 214781736894847699),
    ("cbf76fccaaf4d7b0e0bfdcea9cd91bf1ecb7f920", 6485920337588397771),
    ("1533a48b65ef130ea367b537830c87e7cd07fd2e", 3712530058708451471),
    ("78a77610719da82a898ae57b20cb8e592956247a", 6749486841713337516),
    ("dcfea3ea48994d1e33717a13c8e573d9ac1cf99d", 7257749782638653733),
    ("eb6d61dc6539c43ccf251fd5344bf2e63421dd53", 2111186206502574395),
    ("057b47e245ff154161d014955414541605a6283f", 4300815926773298883),
]
"""Written down from an earlier version, which digested each sample from its beginning."""


def names(ask, content=b"content", identity="model", seed=7):
    return Names(ask, content, identity, seed)


@pytest.mark.parametrize("order", [1, -1])
def test_names_are_those_of_stored_caches(order):
    found = {k: (names(ask).key(1), names(ask).seed(1)) for k, ask in list(enumerate(ASKS))[::order]}
    assert [found[k] for k in range(len(ASKS))] == STORED


def test_everything_that_an_answer_depends_on_is_in_its_name():
    ask = ASKS[0]
    given = [names(ask), names(ask, b"other"), names(ask, identity="other"), names(ask, seed=8), names(ASKS[4])]
    keys = [name.key(number) for name in given for number in range(3)]
    assert len(set(keys)) == len(keys)
    seeds = [name.seed(number) for name in (given[0], given[1], given[3], given[4]) for number in range(3)]
    assert len(set(seeds)) == len(seeds)
    assert given[2].seed(0) == given[0].seed(0)  # two models are sampled alike
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_samples_may_be_named_in_any_order_and_again():
    name = names(ASKS[0])
    assert [name.key(k) for k in (2, 0, 1, 2)] == [names(ASKS[0]).key(k) for k in (2, 0, 1, 2)]


def test_how_often_is_asked_and_about_which_of_equal_rollouts_changes_no_name():
    one, other = Continue(Place(0, 1, 2), 3), Continue(Place(9, 1, 2), 8)
    assert names(one).key(0) == names(other).key(0)
    assert names(one).seed(0) == names(other).seed(0)
