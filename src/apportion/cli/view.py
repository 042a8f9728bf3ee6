"""``apportion view``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apportion.cli.output import console, emit_json, progress, remark
from apportion.cli.overwriting import keep_inputs
from apportion.errors import ConfigError

if TYPE_CHECKING:
    from apportion.credit import Credit
    from apportion.report.texts import Decode


def view(
    paths: list[Path] = typer.Argument(help="Credit files that `apportion assign --out` wrote; several are compared."),
    out: Path = typer.Option(None, "--out", "-o", help="Write an HTML report here; it opens offline."),
    text: str = typer.Option(
        None, "--text", "--trajectory", "-t", help="Show this trajectory (id or position) in the terminal."
    ),
    compare: list[str] = typer.Option(
        [], "--compare", "-c", help="Another method, assigned to the same units and put beside; may be repeated."
    ),
    serve: bool = typer.Option(False, "--serve", help="Show it from a server on this machine: for large rollouts."),
    port: int = typer.Option(0, "--port", min=0, max=65535, help="Port of --serve; 0 takes a free one."),
    browser: bool = typer.Option(False, "--open", help="Open the report in the browser."),
    tokenizer: Path = typer.Option(
        None, "--tokenizer", help="Of rollouts that have token ids alone: the policy's tokenizer, a folder or its file."
    ),
    full: bool = typer.Option(False, "--full", help="Whole texts and contexts in the terminal, not their beginnings."),
    json: bool = typer.Option(False, "--json", help="The report's data as one JSON document on stdout."),
) -> None:
    """Look at credit laid over the transcript: in the terminal, as one HTML file, or from a local server.

    Without --out, --serve or --json it shows one trajectory in the terminal, the one with the largest credit.

    Example: apportion view credit.parquet --compare grpo --out credit.html
    """
    from apportion.report import report, report_model
    from apportion.report.text import trajectory_table

    if browser and out is None and not serve:
        raise ConfigError("--open opens a report; say where with --out FILE, or --serve")
    if port and not serve:
        raise ConfigError("--port is the port of --serve; say --serve as well")
    if serve and (out is not None or json or text is not None):
        raise ConfigError("--serve shows the report itself; leave --out, --text and --json out, or call view twice")
    if out is not None:
        keep_inputs(out, paths)
    decode = None if tokenizer is None else _decoder(tokenizer)
    credits = _credits(paths, compare)
    if not json and not serve and (out is None or text is not None):
        _one_source(paths, credits)
    if json:
        emit_json(report_model(credits, decode=decode))
        return
    if serve:
        _serve(credits, decode, port, browser)
        return
    if out is not None:
        with progress(f"writing {out.name}"):
            report(credits, out, decode=decode)
        remark(f"wrote {out}; open it in a browser")
        if browser:
            webbrowser.open(out.resolve().as_uri())
    if out is None or text is not None:
        which = int(text) if text is not None and text.isdigit() else text
        console().print(trajectory_table(report_model(credits, decode=decode), which, full=full))


def _credits(paths: list[Path], compare: list[str]) -> list[Credit]:
    from apportion.assign import assign
    from apportion.credit import read_credit

    credits = []
    for path in paths:
        with progress(f"reading {path.name}"):
            credits.append(read_credit(path))
    for expression in compare:
        with progress(f"assigning {expression}"):
            credits.append(assign(expression, credits[0].units))
    return credits


def _one_source(paths: list[Path], credits: list[Credit]) -> None:
    """The terminal shows one trajectory, and beside it only credit of the same rollouts."""
    first = credits[0].record()["rollouts"]
    for path, credit in zip(paths[1:], credits[1:], strict=False):  # then come those of --compare, of the first file
        if credit.record()["rollouts"] != first:
            raise ConfigError(
                f"{path} is credit of other rollouts than {paths[0]}, and the terminal shows one trajectory; view each "
                "file by itself, or both in one report with --out FILE"
            )


def _decoder(path: Path) -> Decode:
    from apportion.cli.tokenizer_file import read_tokenizer
    from apportion.units import token_texts

    model = read_tokenizer(path, "apportion view --tokenizer")
    return token_texts(lambda ids: model.decode(list(ids), skip_special_tokens=False))


def _serve(credits: list[Credit], decode: Decode | None, port: int, browser: bool) -> None:
    from apportion.report import Report, build_pages
    from apportion.report.serve import ReportServer

    with progress("laying out the pages"):
        report = Report(credits, decode=decode)
        index, pages = build_pages(report, report.header())
    try:
        server = ReportServer(index, pages, port)
    except OSError as error:
        raise ConfigError(
            f"port {port} cannot be used ({error.strerror}); choose another, or 0 for a free one"
        ) from None
    with server:
        remark(f"showing {len(report.groups):,} groups at {server.address} (only from this machine; Ctrl-C ends it)")
        if browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            remark("ended")
