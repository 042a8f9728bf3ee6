"""GiGPO inside TRL's GRPOTrainer: a counting game with a tool, whose states recur between rollouts.

    python examples/trl_gigpo.py [MODEL]        any chat model whose template knows tools; default Qwen/Qwen3-0.6B

Needs `pip install 'apportion[trl]'`. Afterwards `apportion view` shows each file of runs/trl_gigpo/log.
"""

import sys

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from apportion.adapters.log import TokenLog
from apportion.adapters.trl import with_credit

PROMPT = [{"role": "user", "content": "Bring the counter to 7 with the tool, a little at a time, then say done."}]


class Counter:
    """TRL makes one for each rollout; its public methods are the tools."""

    def reset(self, **row):
        self.n, self.step_rewards, self.states = 0, [], ["n=0"]  # lists that the adapter reads

    def bump(self, by: int) -> str:
        """Add to the counter.

        Args:
            by: how much to add.

        Returns:
            The new value.
        """
        self.n += by
        self.step_rewards.append(-0.1)  # each call costs a little
        self.states.append(f"n={self.n}")  # the state that the next turn is taken in
        return self.states[-1]

    def get_reward(self) -> float:
        return float(self.n == 7) + sum(self.step_rewards)


def train(model, out="runs/trl_gigpo", tokenizer=None, **settings):
    Trainer = with_credit(GRPOTrainer, "gigpo", unit="step", gamma=0.95, on_credit=TokenLog(f"{out}/log"))
    trainer = Trainer(
        model=model,
        args=GRPOConfig(out, **{"num_generations": 8, "max_completion_length": 512, "report_to": [], **settings}),
        train_dataset=Dataset.from_list([{"prompt": PROMPT}] * 64),
        processing_class=tokenizer,
        environment_factory=Counter,
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    train(sys.argv[1] if len(sys.argv) > 1 else "Qwen/Qwen3-0.6B")
