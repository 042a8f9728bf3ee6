"""Which step of an agent's log was decisive: read a log, check it, credit it, write a report.

    python examples/credit_a_log.py [LOG]        any of the formats of docs/logs.md; default: a small one, written here

Needs nothing but the base install.
"""

import json
import sys
from pathlib import Path

import apportion as ap
from apportion.adapters.readers import read_any

BOXES = [("red", 0.0), ("blue", 1.0), ("red", 0.0), ("green", 0.0), ("blue", 1.0)]


def small_log(path):
    """Five chats about one task: every agent opens a box, and the badge is in the blue one."""
    with path.open("w", encoding="utf-8") as file:
        for number, (box, reward) in enumerate(BOXES):
            said = [
                ("user", "The badge is in one of three boxes. Bring it to the desk."),
                ("assistant", "look around"),
                ("user", "You see a red box, a blue box and a green box."),
                ("assistant", f"open the {box} box"),
                ("user", f"The {box} box is open."),
                ("assistant", "take what is inside, go to the desk"),
            ]
            messages = [{"role": role, "content": text} for role, text in said]
            row = {"id": f"run-{number}", "task_id": "badge", "messages": messages, "reward": reward}
            file.write(json.dumps(row) + "\n")
    return path


def main(log=None, out="runs/examples"):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    batch = ap.Batch.from_trajectories(read_any(log or small_log(out / "chats.jsonl")).trajectories)
    for finding in ap.check(batch):  # can credit on these rollouts be trusted?
        print(f"{finding.severity}: {finding.message}")
    units = ap.by_step(batch)
    credit = ap.assign("gigpo", units)
    for n, rollout in enumerate(batch.trajectories):
        print(rollout.id, " ".join(f"{a:+.2f}" for a in credit.advantage_S[units.traj_of_S == n]))
    ap.report(credit, out / "credit.html")
    print(f"wrote {out / 'credit.html'}")
    return credit


if __name__ == "__main__":
    main(*sys.argv[1:2])
