"""Does better credit learn faster? Methods × environments × seeds at equal generated tokens, with the embedded trainer.

    python -m experiments.learning                      # everything; goes on where it was stopped
    python -m experiments.learning --envs keydoor --arms grpo,gigpo --seeds 2
    python -m experiments.learning --tune               # the learning rate, on a seed that is not judged

Every run of an environment starts from one cloned policy; arms of a seed play equal tasks from equal start states. One
JSON file per run lies in `results/learning`, its commit inside; `make results` makes tables and figures of them.
"""
