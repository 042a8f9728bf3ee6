"""A token-level log of a training run: what trainers dump is text, and text cannot be credited again.

    Trainer = with_credit(GRPOTrainer, "gigpo", on_credit=TokenLog("runs/log"))

    runs/log/step-000000.parquet   rollouts (ids, log-probabilities, masks, step rewards, state keys) with their credit
    runs/log/step-000001.parquet   …
    runs/log/eval-step-000001.parquet   the same of an evaluation, where a host credits these (TRL)

Each file is whole or absent. `apportion check` and `view` read them one by one, and so does `apportion.read_credit`.
"""

from __future__ import annotations

import os
from pathlib import Path

from apportion.credit import Credit, write_credit
from apportion.credit.listeners import is_of_evaluation
from apportion.data import write
from apportion.errors import ConfigError

FORMS = (".parquet", ".jsonl", ".jsonl.gz")


class TokenLog:
    """Writes the rollouts of a run, with their credit, as a host hands them over.

    Args:
        folder: made where it is absent, readable for its owner only.
        credit: also the credit; False writes rollouts alone.
        every: only steps that this number divides.
        form: ending of the files, one of `FORMS`; parquet needs the extra of that name.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, credit: bool = True, every: int = 1, form: str = ".parquet"
    ) -> None:
        if form not in FORMS:
            raise ConfigError(f"TokenLog: form is {form!r}; it takes {', '.join(FORMS)}")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ConfigError(f"TokenLog: every is {every!r}; give a whole number from 1 on")
        self.folder, self.credit, self.every, self.form = Path(folder), credit, every, form
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def __call__(self, credit: Credit, step: int) -> None:
        """Write one batch; the second of a step (a resumed run, batches of one evaluation) gets a number behind it."""
        if step % self.every:
            return
        name = f"{'eval-' if is_of_evaluation(credit) else ''}step-{step:06d}"
        path = self.folder / f"{name}{self.form}"
        k = 2
        while path.exists():
            path, k = self.folder / f"{name}-{k}{self.form}", k + 1
        if self.credit:
            write_credit(path, credit)
        else:
            write(path, credit.units.batch)
