"""``apportion envs``."""

from __future__ import annotations

from dataclasses import asdict

import typer

from apportion.cli.output import emit_json, emit_text, remark, table


def envs(
    name: str = typer.Argument("", help="One environment, with its options and a first observation."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
    markdown: bool = typer.Option(False, "--markdown", help="The table of the docs."),
) -> None:
    """List the text environments: what each shows, how it is played, what it needs.

    Example: apportion envs textcraft
    """
    from apportion.envs.facts import COLUMNS, all_facts, cells, facts, markdown_table

    rows = (facts(name),) if name else all_facts()
    if json:
        emit_json({"schema": "apportion.envs/1", "envs": [asdict(row) for row in rows]})
    elif markdown:
        emit_text(markdown_table(rows))
    else:
        table("", COLUMNS, [cells(row) for row in rows])
        if name:
            _details(name, rows[0].options, installed=rows[0].spec is not None)
        else:
            remark("apportion envs NAME shows options and a first observation; apportion train --env NAME plays it")


def _details(name: str, options: dict[str, object], *, installed: bool) -> None:
    from apportion.envs import make
    from apportion.envs.registry import extra_of

    table("", ["option", "default"], [[key, repr(value)] for key, value in options.items()])
    if not installed:
        remark(f"install it with: pip install 'apportion[{extra_of(name)}]'")
        return
    env = make(name)
    text, _ = env.reset(seed=0)
    listed = env.actions()
    tried = "any text" if listed is None else ", ".join(listed)
    advice = (env.expert() or ["none"])[0]
    emit_text(f"reward: {env.spec.reward}\n\nseed 0:\n\n{text}\n\nactions: {tried}\n\nthe expert's next: {advice}")
