"""The episodes of an environment as one text, played in this process and in others with another hash seed.

python -m apportion.envs.second_process crafttree '{"budget": 3}'
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

from apportion.envs.episodes import SEEDS, play
from apportion.envs.protocol import TextEnv
from apportion.envs.registry import resolve
from apportion.errors import EnvError


def record(make: Callable[[], TextEnv]) -> str:
    """Every moment of the episodes at `SEEDS`, at random and by the expert."""
    return json.dumps([play(make(), seed, expert=expert) for seed in SEEDS for expert in (False, True)])


def record_elsewhere(reference: str, options: str, hash_seed: str) -> str:
    """`record` of a fresh process.

    Args:
        reference: as for `registry.resolve`. options: of the environment, as JSON.
        hash_seed: its PYTHONHASHSEED.

    Raises:
        EnvError: the environment could not be played there.
    """
    path = os.pathsep.join(entry or "." for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-m", "apportion.envs.second_process", reference, options],
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise EnvError(f"{reference}: check 'second_process' could not play in another process: {last}")
    return done.stdout


if __name__ == "__main__":
    sys.stdout.write(record(resolve(sys.argv[1], json.loads(sys.argv[2]))))
