"""Search at inference with a learned credit model: best of N whole rollouts, and step-level beams.

    found = search(run_config("runs/mine"), "prm/", SearchSettings(n=16, width=4, branch=4))

settings → players (whole rollouts), beam (snapshots) → promises of the model → results at equal compute.
"""

from apportion.train.search.results import Found, Row
from apportion.train.search.run import search
from apportion.train.search.settings import SearchSettings, run_config

__all__ = ["Found", "Row", "SearchSettings", "run_config", "search"]
