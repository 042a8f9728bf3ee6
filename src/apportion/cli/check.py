"""``apportion check``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import typer

from apportion.cli.output import emit_json, emit_text, progress, remark
from apportion.errors import ApportionError, ConfigError

if TYPE_CHECKING:
    from apportion.check import Findings
    from apportion.credit import Credit
    from apportion.data import Batch

INDENT = " " * 9


def check(
    path: Path = typer.Argument(help="Rollouts (ours or a log in a known format), or credit that assign wrote."),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    group_by: str = typer.Option(None, "--group-by", help="As for convert: what makes rollouts comparable."),
    outcome: str = typer.Option(None, "--outcome-field", help="As for convert: the field that is the outcome."),
    states: str = typer.Option("exact", "--states", help="What counts as one state: exact, normalised, learned, near."),
    methods: str = typer.Option(
        "", "--methods", help="Also credit by these (grpo,gigpo), check each credit, and say where they disagree."
    ),
    beta0: float = typer.Option(None, "--plan", help="Draw the planning curve D(w) with this guess of beta0."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Say whether credit on these rollouts can be trusted: findings, worst first, each with evidence and remedy.

    Exit code 1 when something needs attention (a warning or an error), 0 when nothing does, 2 for wrong usage.

    Example: apportion check runs.jsonl --methods grpo,gigpo
    """
    from apportion.adapters.readers import read_any
    from apportion.check import Findings, check_credit, check_rollouts, read_rollouts
    from apportion.units import STATES

    if states not in STATES:
        raise ConfigError(f"no state rule named {states!r}; there are {', '.join(STATES)}")
    names = _names(methods)
    if beta0 is not None and not beta0 >= 0:
        raise ConfigError(f"--plan is {beta0}; give beta0 as a number of at least 0")
    with progress(f"checking {path.name}") as advance:
        held = _credit_in(path) if form is None and path.is_file() else None
        read = read_rollouts(
            path,
            read=lambda p, skipped: (
                read_any(
                    p, form, group_by=group_by, outcome=outcome, skip_bad=skipped, on_trajectory=advance
                ).trajectories
                if held is None
                else held.units.batch.trajectories
            ),
        )
        findings = check_rollouts(*read, path=path, states=states)
    batch = _whole(read[0]) if names or beta0 is not None else None
    measures = dict(findings.measures)
    more: list[Any] = []
    if held is not None:
        told = check_credit(held)
        more, measures = [*told], {**measures, **{f"{key}: {held.method}": told.measures[key] for key in told.measures}}
    if batch is not None and names:
        found, measured = _of_credit(batch, names, states)
        more, measures = [*more, *found], {**measures, **measured}
    if batch is not None and beta0 is not None:
        from apportion.check.measures.resolution import curve

        measures["resolution"] = curve(batch, beta0)
    findings = Findings([*findings, *more], findings.subject, measures)
    if json:
        emit_json(findings.to_dict())
    else:
        _show(path, findings, plan=beta0 is not None)
    raise typer.Exit(findings.exit_code)


def _credit_in(path: Path) -> Credit | None:
    """The credit that a file holds with its rollouts; None where it is no such file."""
    from apportion.credit import read_credit

    try:
        return read_credit(path)
    except ApportionError:
        return None  # the reader of rollouts says what it is, or what is wrong with it


def _names(methods: str) -> list[str]:
    """Expressions between commas that stand outside brackets; checked before any file is read."""
    from apportion.assign import check_expression, required_needs

    names, depth = [""], 0
    for sign in methods:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            names.append("")
        else:
            names[-1] += sign
    names = [name.strip() for name in names if name.strip()]
    for name in names:
        check_expression(name)
        if needs := required_needs(name):
            raise ConfigError(
                f"--methods: {name} asks a {needs[0].replace('_', ' ')}; check compares methods that ask nobody"
            )
    return list(dict.fromkeys(names))


def _whole(rollouts: list[Any]) -> Batch | None:
    """The rollouts as a batch, for crediting; what the findings name as broken stops it."""
    from apportion.data import Batch

    try:
        return Batch.from_trajectories(rollouts)
    except ApportionError as problem:
        remark(f"no credit and no curve: {problem}")
        return None


def _of_credit(batch: Batch, names: list[str], states: str) -> tuple[list[Any], dict[str, Any]]:
    """Findings about each method's credit and about their differences, with what the credit's measures say."""
    from dataclasses import replace

    from apportion.assign import assign, required_cut
    from apportion.check import check_credit, compare_credits
    from apportion.units import CUTS

    credits: dict[str, Any] = {}
    found: list[Any] = []
    measures: dict[str, Any] = {}
    for name in names:
        level = required_cut(name)
        options = {"state": states} if states != "exact" and level in ("episode", "turn", "step", "agent") else {}
        try:
            credits[name] = assign(name, CUTS[level](batch, **options))
        except ApportionError as problem:
            remark(f"{name} is left out: {problem}")
            continue
        told = check_credit(credits[name])
        found += [replace(finding, message=f"{name}: {finding.message}") for finding in told]
        measures |= {f"{measure}: {name}": numbers for measure, numbers in told.measures.items()}
    if len(credits) > 1:
        found += compare_credits(credits)
    return found, measures


def _show(path: Path, findings: Findings, *, plan: bool) -> None:
    if not findings:
        emit_text(f"{path.name}: nothing found ({_subject(findings.subject)})")
    else:
        emit_text(f"{path.name}: {_subject(findings.subject)}\n")
        for finding in findings:
            emit_text(f"{finding.severity:<8} {finding.code}")
            emit_text(fill(finding.message, 100, initial_indent=INDENT, subsequent_indent=INDENT))
            if finding.where:
                emit_text(fill("at " + "; ".join(finding.where), 100, initial_indent=INDENT, subsequent_indent=INDENT))
            emit_text(fill("→ " + finding.remedy, 100, initial_indent=INDENT, subsequent_indent=INDENT + "  ") + "\n")
    for name, numbers in findings.measures.items():
        if name.startswith("credit-mass"):
            _show_mass(name, numbers)
    if "state-groups" in findings.measures:
        _show_states(findings.measures["state-groups"])
    if plan and findings.measures.get("resolution"):
        _show_plan(findings.measures["resolution"])


def _show_states(numbers: Mapping[str, Any]) -> None:
    emit_text(
        f"states   {numbers['with_company']:.0%} of {numbers['steps']} steps are in a state that another rollout of "
        f"the group visits ({numbers['states']} states)"
    )
    emit_text(f"{INDENT}share of the state groups by size {' '.join(f'{b:>6}' for b in numbers['bins'])}")
    parts = [("all", numbers)]
    early, late = numbers["by_file_early"], numbers["by_file_late"]
    if early["steps"] and late["steps"]:  # a file of one group has no halves
        parts += [("first half of the file", early), ("second half", late)]
    for name, part in parts:
        emit_text(f"{INDENT}  {name:<31} {' '.join(f'{share:>6.0%}' for share in part['groups_by_size'])}")


def _show_mass(name: str, numbers: Mapping[str, Any]) -> None:
    label = name.partition(": ")[2]
    emit_text(
        f"credit   {label}: half of the mass is in {numbers['units_with_half']} of {numbers['units']} "
        f"{numbers['level']}s, {numbers['positive']:.0%} of it is positive"
    )
    for top in numbers["top"][:3]:
        emit_text(f"{INDENT}{top['mass']:>6.1%}  {top['unit']}, credit {top['credit']:+.3g}")
    for agent, own in numbers.get("agents", {}).items():
        emit_text(f"{INDENT}agent {agent!r}: {own['mass']:.0%} of the mass, {own['tokens']:.0%} of the tokens")
    for phrase in numbers.get("phrases", [])[:3]:
        emit_text(
            f"{INDENT}units with {phrase['phrase']!r}: {phrase['mass']:.0%} of the mass, {phrase['tokens']:.0%} of "
            "the tokens"
        )


def _show_plan(numbers: Mapping[str, Any]) -> None:
    emit_text(
        f"plan     D(w) for T = {numbers['tokens']:g} tokens, w_env = {numbers['env_window']:g}, beta0 = "
        f"{numbers['beta0']:g}, var_r = {numbers['var_r']:.3g}, var_u = {numbers['var_u']:g}; least at w = "
        f"{numbers['best_window']:.4g}"
    )
    emit_text(INDENT + "  ".join(f"D({w:.4g}) = {risk:.3g}" for w, risk in numbers["curve"]))
    emit_text(INDENT + "This holds only as far as its assumptions do:")
    for sentence in numbers["assumptions"]:
        emit_text(fill("- " + sentence, 100, initial_indent=INDENT, subsequent_indent=INDENT + "  "))


def _subject(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
