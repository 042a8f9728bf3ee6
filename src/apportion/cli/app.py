"""The application: one command per file."""

from __future__ import annotations

import typer

from apportion.cli import assign, check, convert, demo, methods, train, view

app = typer.Typer(
    name="apportion",
    help="Which decision deserves how much of the outcome: credit assignment for language models and agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

FREE = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Commands whose further options are the parameters of a method."""

app.command("methods", help=methods.methods.__doc__)(methods.methods)
app.command("describe", help=methods.describe.__doc__)(methods.describe)
app.command("assign", help=assign.assign.__doc__, context_settings=FREE)(assign.assign)
app.command("check", help=check.check.__doc__)(check.check)
app.command("view", help=view.view.__doc__)(view.view)
app.command("convert", help=convert.convert.__doc__)(convert.convert)
app.command("train", help=train.train.__doc__, context_settings=FREE)(train.train)
app.command("demo", help=demo.demo.__doc__)(demo.demo)


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
