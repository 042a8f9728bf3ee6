"""``apportion recommend``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import typer

from apportion.cli.output import emit_json, emit_text
from apportion.cli.sources import load
from apportion.errors import ConfigError

if TYPE_CHECKING:
    from apportion.recommend import Advice, Option

PANEL = "What you have besides the rollouts"
INDENT = " " * 4


def _have(name: str, help: str) -> bool:
    out: bool = typer.Option(False, f"--{name}", help=help, rich_help_panel=PANEL)
    return out


def recommend(
    path: Path = typer.Argument(help="Rollouts: our JSONL or Parquet, or a chat log in a known format."),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    group_by: str = typer.Option(None, "--group-by", help="As for assign."),
    outcome: str = typer.Option(None, "--outcome-field", help="As for assign."),
    states: str = typer.Option("exact", "--states", help="As for assign."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    policy: bool = _have("policy", "The policy: it can go on from any place, and say probabilities."),
    environment: bool = _have("environment", "An environment that can be set back to any step."),
    reward_model: bool = _have("reward-model", "A reward model of whole answers."),
    judge: bool = _have("judge", "A language model that judges."),
    reference_model: bool = _have("reference-model", "A model to compare log-probabilities with."),
    training: bool = _have("training", "You would train a further model beside the policy."),
    budget_tokens: int = typer.Option(None, "--budget-tokens", help="Tokens that one round of asking may cost."),
    max_tokens: int = typer.Option(None, "--max-tokens", help="Longest continuation, for the price."),
    every: bool = typer.Option(False, "--all", help="Also the methods that do not fit, with the reason."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Say which credit methods fit these rollouts, which do not and why, and what each would cost.

    Exit code 0 when a method fits, 1 when none does or the data cannot be read, 2 for wrong usage.

    Example: apportion recommend runs.jsonl --policy --environment --budget-tokens 2000000
    """
    from apportion.recommend import recommend as advise
    from apportion.units import STATES

    if states not in STATES:
        raise ConfigError(f"no state rule named {states!r}; there are {', '.join(STATES)}")
    given = {
        "policy": policy,
        "environment": environment,
        "reward_model": reward_model,
        "judge": judge,
        "reference_model": reference_model,
        "training": training,
    }
    batch = load(path, form=form, group_by=group_by, outcome=outcome, skip_bad=skip_bad)
    advice = advise(
        batch,
        have=[name for name, there in given.items() if there],
        budget_tokens=budget_tokens,
        max_tokens=max_tokens,
        states=states,
    )
    if json:
        emit_json(advice.to_dict())
    else:
        _show(advice, every=every)
    raise typer.Exit(int(advice.best is None))


def _show(advice: Advice, *, every: bool) -> None:
    facts = advice.facts
    emit_text(
        f"{_counted(facts['rollouts'], 'rollout')}, {_compared(facts)}; {_counted(facts['steps'], 'step')} and "
        f"{_counted(facts['tokens'], 'token')} in the median; {facts['recurring']:.0%} of the later steps in a state "
        "that others visit too\n"
    )
    fitting = [option for option in advice.options if option.fits]
    methods = [option for option in fitting if option.kind == "method"]
    _show_options(methods)
    if not methods:
        emit_text("no method fits\n")
    transforms = [option for option in fitting if option.kind == "transform"]
    if transforms:
        emit_text("to add behind a bar (grpo | …):\n")
        _show_options(transforms)
    if advice.elsewhere:
        named: dict[str, list[str]] = {}
        for row in advice.elsewhere:
            named.setdefault(row["source"], []).append(row["name"])
        listed = "; ".join(f"{', '.join(who)} ({source})" for source, who in named.items())
        emit_text(fill(f"also for such rollouts, no method here: {listed}", 100, subsequent_indent=INDENT) + "\n")
    rest = [option for option in advice.options if not option.fits]
    if every:
        emit_text("does not fit:\n")
        _show_options(rest)
    else:
        emit_text(f"{len(rest)} {'others' if fitting else 'methods'} do not fit; --all says why")


def _counted(number: float, noun: str) -> str:
    return f"{number:g} {noun}" + ("" if number == 1 else "s")


def _compared(facts: Mapping[str, float]) -> str:
    """Who can be compared with whom."""
    if not facts["scored"]:
        return "none of which has an outcome, so there is nothing to divide: docs/logs.md says how to bring outcomes in"
    if not facts["groups_compared"]:
        return "each alone in its group (if several are of one task, name the field that says so with --group-by)"
    groups = f"{_counted(facts['groups_compared'], 'group')} of several (median {facts['group']:g}, "
    if not facts["varied_groups"]:
        return groups + "none with different outcomes: take tasks that are sometimes solved, or more rollouts of each)"
    return groups + f"{facts['varied_groups']:.0%} with different outcomes)"


def _show_options(options: Sequence[Option]) -> None:
    """Methods in their order, those that one rule speaks of in the same words together: the reason is said once."""
    for _, together in groupby(options, key=lambda o: (o.rule, o.why, o.evidence, o.source)):
        members = list(together)
        for option in members:
            emit_text(f"{option.name:<18} {_price(option)}")
        first = members[0]
        emit_text(fill(first.why, 100, initial_indent=INDENT, subsequent_indent=INDENT))
        evidence = ", ".join(first.evidence)
        said = f"rule {first.rule} (question {first.question} of the guide): {evidence} · {first.source}"
        emit_text(fill(said, 100, initial_indent=INDENT, subsequent_indent=INDENT + "  "))
        for caution in dict.fromkeys(caution for option in members for caution in option.cautions):
            minding = [option.name for option in members if caution in option.cautions]
            whom = "" if len(minding) == len(members) else f" ({', '.join(minding)})"
            emit_text(fill(f"mind{whom}: {caution}", 100, initial_indent=INDENT, subsequent_indent=INDENT + "  "))
        emit_text("")


def _price(option: Option) -> str:
    price = option.cost_class
    if option.cost is not None:
        about = "" if option.cost["exact"] else "about "
        asked = f"{option.cost['requests']:,} requests, {option.cost['tokens']:,} tokens"
        price += f": {about}{asked}, cut by {option.cost['unit']}"
    return price
