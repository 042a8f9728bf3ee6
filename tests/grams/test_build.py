"""From solutions to grams: every stage against plain code, and phrases that were planted come out."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.data import Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.grams import build, solutions, spelling
from apportion.grams.clusters import cluster
from apportion.grams.ngrams import ngrams, runs
from tests.grams.corpus import PLANTED, RARE, corpus


def test_ngrams_by_hand():
    assert list(ngrams("Let me\n check, it's OK", 2, 3)) == ["let me", "me check", "let me check", "it's ok"]
    assert list(runs("a b\n\nc d 3 e f")) == [["a", "b"], ["c", "d"], ["e", "f"]]  # blank lines and digits break
    assert list(ngrams("", 1, 5)) == []


@given(st.text("ab ,.\n1", max_size=20), st.integers(1, 3), st.integers(0, 2))
def test_ngrams_slow_reference(text, shortest, more):
    want, words, gap = [], [], ""
    pieces = []  # maximal runs of letters and what stands between
    for c in text:
        if c in "ab":
            if words and not (gap.strip(" \n") == "" and gap.count("\n") < 2) and gap:
                pieces.append(words)
                words = []
            if gap or not words:
                words.append(c)
            else:
                words[-1] += c
            gap = ""
        else:
            gap += c
    pieces.append(words)
    for run in pieces:
        for n in range(shortest, shortest + more + 1):
            want += [" ".join(run[k : k + n]) for k in range(len(run) - n + 1)]
    assert list(ngrams(text, shortest, shortest + more)) == want


def test_what_was_planted_comes_out():
    found = build(corpus(), clusters=20, top=0.9, seed=1)
    assert set(PLANTED) <= set(found.phrases)
    assert RARE not in found.phrases  # twice, but in one solution: documents count, not places
    for gram in found.grams:
        texts = [" ".join(text.lower().split()) for text in corpus()]
        assert gram.documents == sum(gram.text in text for text in texts)
    assert found.provenance["solutions"] == 40


def test_clusters_are_kept_by_the_solutions_they_reach():
    found = build(corpus(), clusters=20, top=0.3)
    texts = [" ".join(text.lower().split()) for text in corpus()]
    told = found.provenance["kept_cluster_documents"]
    assert told == sorted(told, reverse=True)
    for k, documents in enumerate(told):
        members = [gram.text for gram in found.grams if gram.cluster == k]
        assert documents == sum(any(member in text for member in members) for text in texts)


def test_a_larger_share_keeps_what_a_smaller_one_kept():
    lists = [set(build(corpus(), clusters=12, top=top).phrases) for top in (0.1, 0.4, 1.0)]
    assert all(a <= b for a, b in pairwise(lists))
    assert len(lists[0]) < len(lists[2])


def test_of_too_many_candidates_those_in_most_solutions_stay():
    everything = build(corpus(), top=1.0)
    few = build(corpus(), top=1.0, most_candidates=4)
    ranked = sorted(everything.grams, key=lambda gram: (-gram.documents, gram.text))
    assert {gram.text for gram in few.grams} == {gram.text for gram in ranked[:4]}
    assert few.provenance["candidates"] == 4


def test_equal_seeds_equal_lists():
    assert build(corpus(), seed=3) == build(corpus(), seed=3)


def test_the_encoder_decides_what_is_one_cluster():
    def by_first_word(phrases):
        return [[float(ord(phrase[0]))] for phrase in phrases]

    found = build(corpus(), clusters=99, top=1.0, encoder=by_first_word)
    for k in {gram.cluster for gram in found.grams}:
        assert len({gram.text[0] for gram in found.grams if gram.cluster == k}) == 1
    assert found.provenance["encoder"] == "by_first_word"


def test_spelling_is_near_where_words_are_shared():
    a, b, c = spelling(["let me check that", "let me check this", "verify it again"])
    assert a @ b > 0.5 > a @ c
    assert np.linalg.norm(a) == pytest.approx(1.0)
    assert spelling(["x y"]).tolist() == spelling(["x y"]).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_kmeans_is_a_fixed_point_with_no_empty_cluster(seed):
    points = np.random.default_rng(seed).normal(size=(60, 3))
    label = cluster(points, 7, seed=seed)
    assert set(label.tolist()) == set(range(7))
    centres = np.array([points[label == k].mean(axis=0) for k in range(7)])
    nearest = ((points[:, None] - centres) ** 2).sum(-1).argmin(axis=1)
    assert nearest.tolist() == label.tolist()


def test_kmeans_finds_clusters_that_are_apart():
    centre = np.array([[0, 0], [10, 0], [0, 10]])
    points = np.repeat(centre, 20, axis=0) + np.random.default_rng(0).normal(size=(60, 2))
    label = cluster(points, 3)
    assert [len(set(part.tolist())) for part in np.split(label, 3)] == [1, 1, 1]
    assert len(set(label[[0, 20, 40]].tolist())) == 3
    assert set(cluster(np.zeros((4, 2)), 3).tolist()) == {0}  # equal points are one cluster


def test_solutions_are_rollouts_above_the_threshold():
    def rollout(*actions, outcome):
        return Trajectory([Step(action=action) for action in actions], outcome=outcome)

    told = [rollout("a", "b", outcome=1.0), rollout("c", outcome=0.5), rollout("d", outcome=None)]
    assert list(solutions(told)) == ["a\n\nb"]
    assert list(solutions(told, least=0.0)) == ["a\n\nb", "c"]
    with pytest.raises(DataError, match=r"trajectory 0 \('x'\) has token ids only; give Step.action, the text"):
        list(solutions([Trajectory([Step(ids=[1])], outcome=1.0, id="x")]))


def test_a_gram_in_just_as_many_solutions_as_asked_is_in():
    told = ["so we go on", "so we go home", "now so we stop"]
    found = build(told, shortest=2, top=1.0, least_documents=3)
    assert [(gram.text, gram.documents) for gram in found.grams] == [("so we", 3)]


def test_what_it_refuses():
    with pytest.raises(DataError, match="no n-gram of 3 to 5 words stands in 2 of the 1 solutions; give more"):
        build(["one two three four"])
    for name, value in (("clusters", 0), ("least_documents", 0), ("most_candidates", 0)):
        with pytest.raises(ConfigError, match=f"grams: {name} is 0; give a whole number from 1 on"):
            build(corpus(), **{name: value})
    for top in (0.0, 1.5):
        with pytest.raises(ConfigError, match=rf"grams: top is {top}; give a share in \(0, 1\]"):
            build(corpus(), top=top)
    with pytest.raises(ConfigError, match="grams: words per n-gram from 4 to 3; give 1 <= shortest <= longest"):
        build(corpus(), shortest=4, longest=3)


@pytest.mark.slow
def test_a_sentence_encoder_from_a_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    from apportion.grams import transformer

    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "[PAD]": 1, "let": 2, "me": 3}, "[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=model, unk_token="[UNK]", pad_token="[PAD]")
    wrapped.save_pretrained(tmp_path)
    config = transformers.BertConfig(
        vocab_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    encoder = transformer(tmp_path, batch_size=2)
    rows = encoder(["let me", "me", "let me", "let me me me"])
    assert rows.shape == (4, 8)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    np.testing.assert_allclose(rows[0], rows[2], atol=1e-6)  # padding in a batch changes nothing
    assert not np.allclose(rows[0], rows[1])
