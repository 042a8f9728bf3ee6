"""The application: one command per file."""

from __future__ import annotations

import typer

from apportion.cli import (
    assign,
    bench,
    check,
    convert,
    cost,
    demo,
    envs,
    grams,
    methods,
    models,
    pairs,
    play,
    recommend,
    train,
    values,
    view,
)
from apportion.cli.flags import Command, Group
from apportion.cli.interrupt import stoppable

app = typer.Typer(
    name="apportion",
    cls=Group,
    help="Which decision deserves how much of the outcome: credit assignment for language models and agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

FREE = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Commands whose further options are the parameters of a method."""

for _name, _command, _settings in (
    ("methods", methods.methods, None),
    ("describe", methods.describe, None),
    ("assign", assign.assign, dict(FREE)),
    ("cost", cost.cost, dict(FREE)),
    ("check", check.check, None),
    ("recommend", recommend.recommend, None),
    ("values", values.values, dict(FREE)),
    ("view", view.view, None),
    ("convert", convert.convert, None),
    ("envs", envs.envs, None),
    ("train", train.train, dict(FREE)),
    ("play", play.play, None),
    ("demo", demo.demo, None),
    ("bench", bench.bench, None),
):
    app.command(_name, cls=Command, help=_command.__doc__, context_settings=_settings)(stoppable(_command))
app.add_typer(grams.grams)
app.add_typer(models.models)
app.add_typer(pairs.pairs)


@app.callback(invoke_without_command=True)
def version(
    show: bool = typer.Option(False, "--version", help="Print the version and leave.", is_eager=True),
) -> None:
    """Credit assignment for language models and agents."""
    if show:
        from apportion import __version__

        typer.echo(f"apportion {__version__}")
        raise typer.Exit


__all__ = ["app"]
