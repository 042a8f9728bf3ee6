"""``apportion methods`` and ``apportion describe``."""

from __future__ import annotations

import typer

from apportion.cli.output import emit_json, emit_text, remark, table


def methods(
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
    markdown: bool = typer.Option(False, "--markdown", help="The table of the docs."),
    plugins: bool = typer.Option(False, "--plugins", help="Also load the methods of other installed packages."),
) -> None:
    """List every method: unit, what it reads, where it comes from.

    Example: apportion methods --json
    """
    from apportion.methods import describe as describe_method
    from apportion.methods import markdown_table
    from apportion.methods import methods as all_methods
    from apportion.methods.registry import plugged

    specs = all_methods(plugins=plugins)
    if json:
        emit_json({"schema": "apportion.methods/1", "methods": [describe_method(s.name).to_dict() for s in specs]})
    elif markdown:
        emit_text(markdown_table())
    else:
        rows = [
            [
                s.name,
                s.family,
                s.unit,
                ", ".join(s.reads) or ("answers" if s.needs else "credit"),
                describe_method(s.name).summary,
                s.source,
            ]
            for s in sorted(specs, key=lambda s: (s.kind, s.family, s.name))
        ]
        table("", ["method", "family", "unit", "reads", "what it does", "source"], rows)
        if not plugins and (others := plugged()):
            remark(f"installed packages have more ({', '.join(others)}): apportion methods --plugins")


def describe(
    name: str = typer.Argument(help="A name that `apportion methods` lists."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Print a method's formula, source, defaults, what it reads, and where it deviates.

    Example: apportion describe gigpo
    """
    from apportion.methods import describe as describe_method

    told = describe_method(name)
    if json:
        emit_json(told.to_dict())
    else:
        emit_text(told.text())
