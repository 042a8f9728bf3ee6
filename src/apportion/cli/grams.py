"""``apportion grams``: build, encode and check lists of Strategic Grams, the data of ``hicra``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from apportion.cli.flags import Command, Group
from apportion.cli.interrupt import stoppable
from apportion.cli.output import emit_json, emit_text, progress, remark, table
from apportion.cli.tokenizer_file import read_tokenizer
from apportion.errors import ConfigError, DataError

grams = typer.Typer(
    name="grams",
    cls=Group,
    help="Strategic Grams, the phrases that plan: build a list, encode it, check it. They are what `hicra` amplifies.",
    no_args_is_help=True,
)


def build(
    path: Path = typer.Argument(
        help="Rollouts with text (our JSONL or Parquet, a chat log in a known format), or correct solutions as JSON "
        'lines {"text": "..."}.'
    ),
    out: Path = typer.Option(..., "--out", "-o", help="Write the list here (.json)."),
    least: float = typer.Option(0.5, "--above", help="A rollout with an outcome above this is a correct solution."),
    shortest: int = typer.Option(3, "--shortest", help="Words per n-gram, at least."),
    longest: int = typer.Option(5, "--longest", help="Words per n-gram, at most."),
    clusters: int = typer.Option(100, "--clusters", help="Clusters that the n-grams are put into."),
    top: float = typer.Option(0.2, "--top", help="Share of the clusters kept, those in most solutions."),
    least_documents: int = typer.Option(2, "--least-documents", help="Solutions that an n-gram must stand in."),
    encoder: Path = typer.Option(
        None, "--encoder", help="Folder of a sentence encoder (transformers format); default: compare spelling."
    ),
    seed: int = typer.Option(0, "--seed", help="Of the clustering."),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Build a list from correct solutions: n-grams, clusters, and the clusters that most solutions share.

    Without --encoder phrases are compared by spelling, which needs no model and understands nothing.

    Example: apportion grams build runs.jsonl --out grams.json
    """
    from apportion.grams import build as build_list
    from apportion.grams import spelling, transformer, write_grams
    from apportion.grams.build import check_settings

    _check_out(out)
    check_settings(shortest, longest, clusters, top, least_documents)
    chosen = spelling if encoder is None else transformer(encoder)
    texts = _texts(path, form, least, skip_bad)
    with progress("counting n-grams", len(texts)) as advance:
        found = build_list(
            texts,
            shortest=shortest,
            longest=longest,
            clusters=clusters,
            top=top,
            least_documents=least_documents,
            encoder=chosen,
            seed=seed,
            advance=advance,
        )
    write_grams(out, found)
    if json:
        emit_json({"schema": "apportion.grams.build/1", "out": str(out), "grams": len(found), **found.provenance})
        return
    rows = [[gram.text, str(gram.documents), str(gram.cluster)] for gram in found.grams[:15]]
    table(f"{len(found)} grams of {len(texts)} solutions (the first 15)", ["gram", "solutions", "cluster"], rows)
    remark(f"wrote {out}; read it before training on it, and try `apportion grams check`")


def starter(
    out: Path = typer.Option(..., "--out", "-o", help="Write the list here (.json)."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Write the list that comes with the library: planning phrases of English, by hand, to begin with.

    Example: apportion grams starter --out grams.json
    """
    from apportion.grams import starter as first_list
    from apportion.grams import write_grams

    _check_out(out)
    found = first_list()
    write_grams(out, found)
    if json:
        emit_json({"schema": "apportion.grams.starter/1", "out": str(out), "grams": len(found), **found.provenance})
        return
    remark(f"wrote {len(found)} phrases to {out}; build your own with `apportion grams build`")


def encode(
    path: Path = typer.Argument(help="A list that `apportion grams build` wrote."),
    tokenizer: Path = typer.Option(..., "--tokenizer", help="The policy's tokenizer: a folder, or its tokenizer.json."),
    out: Path = typer.Option(..., "--out", "-o", help="Write the list with token ids here (.json)."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Add token ids to a list, in every spelling (case, leading space), for rollouts that carry ids.

    Example: apportion grams encode grams.json --tokenizer policy/ --out ids.json
    """
    from apportion.grams import encode as with_ids
    from apportion.grams import read_grams, write_grams

    _check_out(out)
    found = with_ids(read_grams(path), _encoder(tokenizer), name=tokenizer.name)
    write_grams(out, found)
    total = sum(len(gram.ids) for gram in found.grams)
    if json:
        emit_json({"schema": "apportion.grams.encode/1", "out": str(out), "grams": len(found), "sequences": total})
        return
    remark(f"wrote {out}: {len(found)} phrases in {total} sequences of token ids")


def check(
    path: Path = typer.Argument(help="Rollouts: our JSONL or Parquet, or a chat log in a known format."),
    listed: Path = typer.Option(..., "--grams", "-g", help="A list that `apportion grams build` or `encode` wrote."),
    remove: float = typer.Option(0.3, "--remove", help="Share of the grams taken away in each round."),
    rounds: int = typer.Option(20, "--rounds", help="Rounds of random removal."),
    seed: int = typer.Option(0, "--seed", help="Of the removals and of the placebo."),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Say what a list marks, and how much hangs on single phrases: random removal, placebo, successes against failures.

    Exit code 1 when something needs attention, 0 when nothing does.

    Example: apportion grams check runs.jsonl --grams grams.json
    """
    from apportion.cli.sources import load
    from apportion.grams import read_grams, sensitivity
    from apportion.grams.sensitivity import check_removal

    check_removal(remove, rounds)
    found = read_grams(listed)
    batch = load(path, form=form, group_by=None, skip_bad=skip_bad)
    with progress(f"marking {len(batch)} trajectories"):
        result = sensitivity(batch, found, remove=remove, rounds=rounds, seed=seed)
    if json:
        emit_json({"schema": "apportion.grams.check/1", **result.to_dict()})
    else:
        told = result.to_dict()
        del told["findings"]
        rows = [[name.replace("_", " "), _number(value)] for name, value in told.items()]
        table(f"{listed.name} on {path.name}", ["", ""], rows)
        for sentence in result.findings:
            emit_text(f"→ {sentence}")
    raise typer.Exit(1 if result.findings else 0)


def grams_of(path: str) -> list[Any]:
    """The parameter ``grams`` from a file."""
    from apportion.grams import read_grams

    return list(read_grams(path).for_hicra())


def _encoder(path: Path) -> Any:
    model = read_tokenizer(path, "apportion grams encode")
    return lambda text: model.encode(text, add_special_tokens=False).ids


def _texts(path: Path, form: str | None, least: float, skip_bad: bool) -> list[str]:
    """Correct solutions: of a corpus every text, of rollouts those with a good outcome."""
    from apportion.adapters.readers import read_any
    from apportion.grams import solutions
    from apportion.grams.corpus import is_corpus, read_corpus

    with progress(f"reading {path.name}") as advance:
        if form is None and is_corpus(path):
            bad: list[str] = []
            texts = list(read_corpus(path, bad=bad if skip_bad else None))
            remarks = [*bad[:3], *([f"left out {len(bad)} broken lines"] if bad else [])]
        else:
            reading = read_any(path, form, skip_bad=skip_bad, on_trajectory=advance)
            texts = list(solutions(reading.trajectories, least=least))
            remarks = list(reading.report.remarks())
    for sentence in remarks:
        remark(sentence)
    if not texts:
        raise DataError(f"{path}: no rollout has an outcome above {least:g}; give solutions, or another --above")
    return texts


def _check_out(out: Path) -> None:
    if out.suffix != ".json":
        raise ConfigError(f"{out}: lists of grams are JSON; give a name that ends in .json")


def _number(value: Any) -> str:
    if value is None:
        return "not known"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


for _name, _command in (("build", build), ("starter", starter), ("encode", encode), ("check", check)):
    grams.command(_name, cls=Command, help=_command.__doc__)(stoppable(_command))
