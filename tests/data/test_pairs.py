"""Pairs of turns: what one must be, and a file that comes back exactly and that other readers understand."""

import json
import random

import pytest

from apportion.data.pairs import TurnPair, read_pairs, write_pairs
from apportion.errors import DataError, FormatError


def pair(**changes):
    return TurnPair(**{"prompt_ids": (1, 2), "chosen_ids": (3,), "rejected_ids": (4, 5), **changes})


def any_pair(rng):
    """Anything that a pair may hold."""
    length = {side: rng.randint(1, 5) for side in ("chosen", "rejected")}
    masks = {f"{s}_mask": (*(rng.random() < 0.5 for _ in range(n - 1)), True) for s, n in length.items()}
    rewards = {f"{s}_rewards": tuple(rng.gauss(0, 1) for _ in range(n)) for s, n in length.items()}
    return TurnPair(
        prompt_ids=tuple(rng.randrange(2**31) for _ in range(rng.randint(1, 6))),
        chosen_ids=tuple(rng.randrange(50) for _ in range(length["chosen"])),
        rejected_ids=tuple(rng.randrange(50, 99) for _ in range(length["rejected"])),
        **(masks if rng.random() < 0.5 else {}),
        prompt="Größe\u2028 \"x\"\\\n\ud800", chosen=rng.choice(["", "a b"]), rejected="≥ 5",
        chosen_score=rng.choice([None, rng.random() / 3]), rejected_score=rng.choice([None, -1e-300]),
        actions=rng.choice([None, ("a", "")]),
        **(rewards if rng.random() < 0.5 else {}),
        group=rng.choice([None, "g/1"]), place=rng.choice([None, "0:1"]),
    )  # fmt: skip


def test_a_file_comes_back_exactly(tmp_path):
    rng = random.Random(0)
    pairs = [any_pair(rng) for _ in range(200)]
    assert write_pairs(tmp_path / "p.jsonl", pairs) == 200
    assert read_pairs(tmp_path / "p.jsonl") == pairs
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert len({tuple(line) for line in lines}) == 1  # the same columns in each, as a table of others wants them


def test_by_default_the_policy_sampled_every_token():
    made = pair()
    assert (made.chosen_mask, made.rejected_mask) == ((True,), (True, True))
    assert pair(rejected_mask=[0, 1]).rejected_mask == (False, True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"chosen_ids": ()}, "chosen_ids holds nothing; give token ids"),
        ({"prompt_ids": (1, -2)}, "prompt_ids holds -2; give token ids"),
        ({"prompt_ids": (1, True)}, "prompt_ids holds True"),
        ({"prompt_ids": "ab"}, "prompt_ids is 'ab'; give a list"),
        ({"rejected_ids": (3,)}, "both turns have the same tokens"),
        ({"chosen_mask": (0,)}, "the chosen turn has no sampled token"),
        ({"rejected_mask": (1,)}, "1 values of rejected_mask for 2 tokens"),
        ({"chosen_rewards": (1.0,)}, "one turn has token rewards and the other has none"),
        ({"chosen_rewards": (1.0, 2.0), "rejected_rewards": (0.0, 0.0)}, "2 values of chosen_rewards for 1 tokens"),
        ({"chosen_score": float("nan")}, "chosen_score holds nan; give finite numbers"),
        ({"chosen": 3}, "chosen is 3; give text"),
        ({"actions": "go"}, "actions is 'go'; give a list"),
        ({"group": 3}, "group is 3; give text"),
    ],
)
def test_what_is_no_pair_is_refused(given, says):
    with pytest.raises(DataError, match=says):
        pair(**given)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "line 2: Expecting value"),
        ("[1]", "line 2: a list where a pair was expected"),
        ('{"prompt": "a", "chosen": "b", "rejected": "c"}', "line 2: no 'prompt_ids', so this is no pair of token ids"),
        (
            '{"prompt_ids": [1], "chosen_ids": [2], "rejected_ids": [3], "rank": 1}',
            "line 2: a pair has no field 'rank'",
        ),
        ('{"prompt_ids": [1], "chosen_ids": [2], "rejected_ids": [2]}', "line 2: a pair: both turns have the same"),
        ('{"prompt_ids": 1, "chosen_ids": [2], "rejected_ids": [2]}', "line 2: a pair: prompt_ids is 1; give a list"),
        (
            '{"schema": "apportion.pairs/9"}',
            "line 2: written as 'apportion.pairs/9' by a newer apportion",
        ),
        ("[" * 100_000, "line 2: "),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, says):
    path = tmp_path / "p.jsonl"
    write_pairs(path, [pair()])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(FormatError, match=says):
        read_pairs(path)


def test_no_file_and_no_pair_are_said(tmp_path):
    with pytest.raises(FormatError, match="no such file; make one with `apportion pairs rank`"):
        read_pairs(tmp_path / "p.jsonl")
    (tmp_path / "p.jsonl").write_text("\n")
    with pytest.raises(FormatError, match="no pair in it"):
        read_pairs(tmp_path / "p.jsonl")


def test_trl_reads_the_columns_and_masks_the_prompt(tmp_path):
    """TRL's collator makes of the ids what ours says: prompt masked, every token of a turn counted."""
    pytest.importorskip("trl")
    datasets = pytest.importorskip("datasets")
    from trl.trainer.dpo_trainer import DataCollatorForPreference

    pairs = [pair(), pair(prompt_ids=(9,), actions=("a", "b"), prompt="x", chosen="y", rejected="z")]
    write_pairs(tmp_path / "p.jsonl", pairs)
    rows = datasets.load_dataset("json", data_files=str(tmp_path / "p.jsonl"), cache_dir=str(tmp_path))["train"]
    assert list(rows["prompt"]) == [p.prompt for p in pairs]
    got = DataCollatorForPreference(pad_token_id=0)([rows[k] for k in range(2)])
    for side, half in (("chosen", 0), ("rejected", 2)):
        for k, made in enumerate(pairs):
            ids, mask = getattr(made, f"{side}_ids"), getattr(made, f"{side}_mask")
            row, size = half + k, len(made.prompt_ids) + len(ids)
            assert got["input_ids"][row][:size].tolist() == [*made.prompt_ids, *ids]
            assert got["completion_mask"][row].tolist()[:size] == [0] * len(made.prompt_ids) + [int(m) for m in mask]
            assert not got["attention_mask"][row][size:].any()
