"""Do spans reach the credit that SCAR gives token by token, at a seventh of its evaluations?

A reward model is trained on a planted task: responses of six sentences whose worth is a sum over words and over pairs
of words, in one sentence or in two. So the Shapley value of every word is known. SCAR then credits held-out responses
with the trained model, by word and by sentence, and the two are compared by rank correlation inside each response:

    words    credit per sentence, spread over its words, against the words' own credit, word by word: the claim as it is
             written, and what is lost inside sentences is held against it
    spans    the same against the words' own credit summed in each sentence and spread alike: do the sentences get what
             their words got?

Run it from the repository's root with the extra ``train``:  ``python -m experiments.scar_spans_vs_tokens``
It writes ``experiments/results/scar_spans_vs_tokens.md`` and ``.json``.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np
import torch

import apportion as ap
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.methods.red import ranks
from apportion.numerics import FloatArray
from apportion.resources import Asker
from apportion.units import Units, by_segment, by_token
from experiments.command import options, say
from experiments.scar_page import FULL, markdown, summary
from experiments.scar_world import SENTENCES, Planted, Scored, sentence_words, text_of, trained
from experiments.stored import kept, write_results

ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "words, 16 orders and their reverse": ("words", {"estimator": "permutation", "orders": 16, "max_evals": 10_000}),
    "words, balanced tree": ("words", {"estimator": "owen", "max_evals": 10_000}),
    "words, one order and its reverse": ("words", {"estimator": "permutation", "orders": 1}),
    "words, tree cut at 1/7": ("words", {"estimator": "owen", "max_evals": 210}),
    "sentences, exact": ("spans", {"estimator": "exact"}),
    "sentences, balanced tree": ("spans", {"estimator": "owen"}),
    "sentences, one order and its reverse": ("spans", {"estimator": "permutation", "orders": 1}),
}


def one_seed(seed: int, responses: int, steps: int) -> dict[str, Any]:
    """Train one model and credit its responses with every estimator."""
    rng = np.random.default_rng([seed, 417])
    torch.manual_seed(seed)
    task = Planted.drawn(rng)
    began = time.process_time()
    model, fit = trained(task, rng, steps)
    took = time.process_time() - began
    drawn = [sentence_words(rng) for _ in range(responses)]
    batch = Batch.from_trajectories(
        [Trajectory([Step(observation="Write six sentences.", action=text_of(own))]) for own in drawn]
    )
    units = {"words": by_token(batch), "spans": by_segment(batch, by="sentence")}
    assert len(units["spans"]) == SENTENCES * responses
    of_word = units["words"].traj_of_S
    truth = np.concatenate([task.shapley([i for own in sentences for i in own]) for sentences in drawn])
    credit, evaluations = {}, {}
    for name, (cut, how) in ESTIMATORS.items():
        resource = Scored(model, seed)
        credit[name] = per_word(ap.assign("scar", units[cut], alpha=1.0, seed=seed, ask=Asker(resource), **how))
        evaluations[name] = resource.calls / responses
    rows = {}
    for name in ESTIMATORS:
        rows[name] = {
            "evaluations": evaluations[name],
            "spans": [both(credit[name], credit[FULL], units["spans"], of_word, n, True) for n in range(responses)],
            "words": [both(credit[name], credit[FULL], units["spans"], of_word, n, False) for n in range(responses)],
            "truth by span": [both(credit[name], truth, units["spans"], of_word, n, True) for n in range(responses)],
            "truth by word": [both(credit[name], truth, units["spans"], of_word, n, False) for n in range(responses)],
        }
    spent = time.process_time() - began - took
    say(f"seed {seed}: R² {fit:.3f} after {took:.0f} s of CPU, credit in {spent:.0f} s")
    return {"seed": seed, "fit": fit, "rows": rows}


def both(x: FloatArray, y: FloatArray, spans: Units, of_word: Any, n: int, by_span: bool) -> float:
    """Rank correlation inside response n."""
    if by_span:
        x, y = per_sentence(x, spans), per_sentence(y, spans)
    own = of_word == n
    return rank_correlation(x[own], y[own])


def rank_correlation(x: FloatArray, y: FloatArray) -> float:
    """Spearman's, NaN where one side does not vary."""
    a, b = ranks(x.round(12)), ranks(y.round(12))
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else float("nan")


def per_word(credit: Credit) -> FloatArray:
    """Credit of every word: a unit's is shared equally."""
    tokens = credit.to_tokens(spread="divide")
    return tokens.advantage_T[credit.units.unit_of_T >= 0]


def per_sentence(x_W: FloatArray, spans: Units) -> FloatArray:
    """Summed in each sentence, and spread over its words."""
    sentence = spans.unit_of_T[spans.unit_of_T >= 0]
    total = np.bincount(sentence, weights=x_W)
    return np.asarray((total / np.bincount(sentence))[sentence])


def main() -> None:
    """Run what is missing, then write the table."""
    parser = options("scar_spans_vs_tokens", __doc__, seeds=5)
    parser.add_argument("--responses", type=int, default=6, help="of each seed, that are credited")
    parser.add_argument("--steps", type=int, default=1500, help="of training the reward model")
    given = parser.parse_args()
    torch.set_num_threads(1)
    results = [
        kept(
            given.work / f"seed-{seed}-{given.responses}-{given.steps}.json",
            partial(one_seed, seed, given.responses, given.steps),
        )
        for seed in range(given.seeds)
    ]
    found = {
        "seeds": len(results),
        "responses": given.responses,
        "steps": given.steps,
        "fits": [result["fit"] for result in results],
        "table": summary(results),
    }
    write_results(given.out, "scar_spans_vs_tokens", found, markdown(found))
    sys.stdout.write(markdown(found))


if __name__ == "__main__":
    main()
