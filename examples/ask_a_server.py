"""VinePPO with a policy behind a server: which line of a solution threw the answer away.

    python examples/ask_a_server.py [URL]        an OpenAI-compatible address; default: a stand-in on this machine

The value of each line is the mean score of fresh continuations from there. Answers are kept in a file, so a second run
asks nothing. Needs `pip install 'apportion[ask]'`; a key is read from OPENAI_API_KEY.
"""

import sys
from contextlib import nullcontext
from pathlib import Path

from stand_in_server import running

import apportion as ap
from apportion.resources import Asker, Budget, OpenAIServer

SOLUTIONS = {
    "right": ("10 + 20 + 7 + 5\n30 + 12\n42", 1.0),
    "slip in the second line": ("10 + 20 + 7 + 5\n30 + 11\n41", 0.0),
    "slip in the first line": ("10 + 20 + 7 + 6\n30 + 13\n43", 0.0),
}


def rollouts():
    question = "What is 17 + 25? Split the tens off, then add.\n"
    for name, (text, outcome) in SOLUTIONS.items():
        step = ap.Step(question, text, terminated=True)
        yield ap.Trajectory([step], group="17 + 25", id=name, reference="42", outcome=outcome)


def main(url=None, out="runs/examples", k=16):
    Path(out).mkdir(parents=True, exist_ok=True)
    units = ap.by_segment(ap.Batch.from_trajectories(rollouts()), by="newline")
    with running() if url is None else nullcontext(url) as address:
        policy = OpenAIServer(address, scorer="number", max_tokens=64, workers=4)
        with Asker(policy, budget=Budget(tokens=200_000), cache=Path(out) / "answers.cache") as ask:
            print(ap.cost("vineppo", units, ask=ask, k=k))  # what it would take; nothing is asked
            credit = ap.assign("vineppo", units, ask=ask, k=k)
            print("\n".join(ask.summary.lines()))
    for n, rollout in enumerate(units.batch.trajectories):
        print(f"{rollout.id}:", " ".join(f"{a:+.2f}" for a in credit.advantage_S[units.traj_of_S == n]))
    return credit, ask.summary


if __name__ == "__main__":
    main(*sys.argv[1:2])
