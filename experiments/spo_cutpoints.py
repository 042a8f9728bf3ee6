"""Are segments cut where the policy was unsure better than fixed ones and lines, at an equal number of words? (SPO)

A response of 24 words, paid at its end (the rules of the task `chain`: three words decide). The policy is unsure at the
words that decide and at three that are style and pay nothing; everywhere else it says the same word with 96 %. So most
words are certain, as in a language model's answer, and a cutpoint (probability below .9) is a decision, style, or slip.

    cutpoints   a segment begins at every, or every second, cutpoint            arXiv:2505.23564
    fixed       segments of 8, 6, 3 words
    lines       line breaks at places that have nothing to do with decisions, lines of 5 to 8 words
    grpo        no continuations: all words go into rollouts

Values come from 9 continuations of each segment's beginning; rollouts and continuations together generate at most
`--words` words. The first segment is valued for every cut, and each is measured with and without the probability mask,
so that neither is mistaken for the effect of the cut. Measured: cosine of the batch's gradient with the exact one.

    python -m experiments.spo_cutpoints [--seeds 20] [--words 20000] [--work runs/spo_cutpoints]

Writes results/spo_cutpoints.json; one JSON file per seed, so a stopped run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from apportion.asks import Continuation, Continue, Move
from apportion.assign import assign
from apportion.bench.exact import Exact, Rollouts, batch_gradient, cosine, exact, policy_gradient, sample
from apportion.bench.tasks import task
from apportion.data import Batch, Step, Trajectory
from apportion.resources import Asker, Request, Table
from apportion.units import Units, by_episode, by_segment
from experiments.command import options, say
from experiments.means import interval, paired
from experiments.stored import read, write, write_results

T, K = 24, 9
LINE_ENDS = (4, 9, 17)
DECISIVE, STYLE = (3, 11, 19), (6, 14, 22)
SURE = 0.96
METHOD = f"spo_chain(n={K}, first_segment='value', on_no_cutpoint='single')"
CUTS: dict[str, Callable[[Batch], Units]] = {
    "cutpoints, every one": lambda batch: by_segment(batch, "cutpoint", interval=1),
    "cutpoints, every second": lambda batch: by_segment(batch, "cutpoint", interval=2),
    "fixed, 8 words": lambda batch: by_segment(batch, "fixed", size=8),
    "fixed, 6 words": lambda batch: by_segment(batch, "fixed", size=6),
    "fixed, 3 words": lambda batch: by_segment(batch, "fixed", size=3),
    "lines": lambda batch: by_segment(batch, "newline", decode=words_of),
}
PILOT = 8


def words_of(ids: Any) -> list[str]:
    """Text of each token; a token is a place and a word."""
    return ["w\n" if int(i) // 3 in LINE_ENDS else "w " for i in ids]


def truth() -> Exact:
    """The game under the policy that is unsure at six places."""
    table = task("chain", horizon=T, decisive=DECISIVE).table
    pi = np.empty(table.slots)
    for x, (written, _) in enumerate(table.states):
        unsure = (0.3, 0.3, 0.4) if written in DECISIVE else (0.4, 0.3, 0.3)
        rest = (SURE, (1 - SURE) / 2, (1 - SURE) / 2)
        own = unsure if written in (*DECISIVE, *STYLE) else rest
        pi[table.first_slot_X[x] : table.first_slot_X[x + 1]] = own
    return exact(table, pi)


def responses(world: Exact, drawn: Rollouts) -> Batch:
    """Each rollout as one response of T tokens with its log-probabilities."""
    n = len(drawn.group_of_N)
    word, pi = drawn.action_S.reshape(n, T), world.policy[drawn.slot_S].reshape(n, T)
    return Batch.from_trajectories(
        Trajectory(
            [
                Step(
                    observation="write", prompt_ids=[3 * T], ids=(3 * np.arange(T) + word[i]).tolist(),
                    logp=np.log(pi[i]), reward=float(drawn.return_N[i]), terminated=True,
                )
            ],
            group=str(drawn.group_of_N[i]),
            id=str(i),
        )
        for i in range(n)
    )  # fmt: skip


class Player:
    """Plays the policy on from the middle of a response; counts its words."""

    def __init__(self, world: Exact) -> None:
        table = world.table
        self.words = 0
        # chance that the next decisive word is right, by how many were right: the same everywhere here
        self.right = float(world.policy[table.slot(table.states.index((DECISIVE[0], 0)), "thus")])

    def __call__(self, request: Request) -> Continuation:
        """The return of one continuation."""
        ask = request.ask
        assert isinstance(ask, Continue)
        ids = request.trajectory.steps[0].ids
        assert ids is not None
        at, random = ask.at.token, np.random.default_rng(request.seed)
        right = sum(int(ids[t]) % 3 == 2 for t in DECISIVE if t < at)
        right += int(random.binomial(sum(t >= at for t in DECISIVE), self.right))
        self.words += T - at
        return Continuation((Move(action="w", reward=(right / len(DECISIVE)) ** 2, observation="", terminated=True),))


def one(seed: int, budget: int, known: Mapping[str, float]) -> dict[str, float]:
    """Cosine of every arm on rollouts of one seed; arms that ask see the first of the same rollouts."""
    world = truth()
    table, goal = world.table, policy_gradient(world)
    drawn = sample(table, world.policy, groups=budget // T // 8, n=8, rng=np.random.default_rng([seed, 11]))

    def measure(units: Units, method: str, rollouts: Rollouts, player: Player | None) -> float:
        ask = Asker(Table(player, kinds=["continue"], identity="player"), seed=seed) if player else None
        tokens = assign(method, units, ask=ask).to_tokens()
        own = units.batch.sampled_T
        credit_S = (tokens.advantage_T * (tokens.weight_T > 0))[own]
        return cosine(batch_gradient(table, world.policy, rollouts, credit_S), goal)

    def first(n: int) -> Rollouts:
        keep = drawn.traj_of_S < n
        cut = {f: getattr(drawn, f)[keep] for f in ("state_S", "action_S", "slot_S", "time_S", "reward_S", "traj_of_S")}
        return Rollouts(**cut, group_of_N=drawn.group_of_N[:n])

    out = {}
    for mask in ("", " | probability_mask"):
        told = ", masked" if mask else ""
        if f"grpo{told}" in known:
            out[f"grpo{told}"] = known[f"grpo{told}"]
        else:
            out[f"grpo{told}"] = measure(by_episode(responses(world, drawn)), f"grpo(scale='none'){mask}", drawn, None)
        for name, cut in CUTS.items():
            if name + told in known:
                out[name + told] = known[name + told]
                continue
            player = Player(world)
            pilot = first(PILOT)
            measure(cut(responses(world, pilot)), METHOD, pilot, player)
            paid = T + player.words / PILOT
            rollouts = first(max(8, int(budget / paid) // 8 * 8))
            out[f"{name}{told}"] = measure(cut(responses(world, rollouts)), METHOD + mask, rollouts, Player(world))
    return out


def cached(seed: int, budget: int, work: Path) -> dict[str, float]:
    """Arms from the file of the seed, the others now."""
    path = work / f"{budget}.{seed}.json"
    before: dict[str, float] = read(path) if path.is_file() else {}
    found = one(seed, budget, before)
    if found != before:
        write(path, found)
    return found


def main() -> None:
    """Measure what is missing, and write the numbers."""
    parser = options("spo_cutpoints", __doc__, seeds=20)
    parser.add_argument("--words", type=int, default=20_000)
    given = parser.parse_args()
    runs = [cached(seed, given.words, given.work) for seed in range(given.seeds)]
    cosines = {name: [run[name] for run in runs] for name in runs[0]}
    rows = {}
    for name, values in cosines.items():
        row = {"cosine": interval(values, digits=5)}
        masked = ", masked" if name.endswith(", masked") else ""
        for other in ("cutpoints, every one", "grpo"):
            if name != other + masked:
                row[f"over {other}"] = paired(values, cosines[other + masked], digits=5)
        rows[name] = row
        say(f"{name}: {row}")
    write_results(given.out, "spo_cutpoints", {"seeds": given.seeds, "words": given.words, "rows": rows})


if __name__ == "__main__":
    main()
