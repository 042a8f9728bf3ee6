"""``apportion cost``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apportion.cli.asking import Asking, asks
from apportion.cli.cutting import checked_cut, cut_file
from apportion.cli.output import emit_json, table
from apportion.cli.params import method_params
from apportion.errors import ConfigError

if TYPE_CHECKING:
    from apportion.resources import Quote


@asks
def cost(
    context: typer.Context,
    method: str = typer.Argument(help="Name or expression, as for assign."),
    path: Path = typer.Argument(help="Rollouts: our JSONL or Parquet, or a chat log in a known format."),
    unit: str = typer.Option("", "--unit", "-u", help="As for assign; default: the method's."),
    states: str = typer.Option("exact", "--states", help="As for assign."),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    group_by: str = typer.Option(None, "--group-by", help="As for assign."),
    outcome: str = typer.Option(None, "--outcome-field", help="As for assign."),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    tokens_per_second: float = typer.Option(
        None, "--tokens-per-second", help="Measured throughput, for the time; default: what the cache remembers."
    ),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
    *,
    asking: Asking,
) -> None:
    """What assign would ask for, and what it would cost; nothing is asked.

    Without a --resampler tokens are counted as the rollouts have them. With one, its own limit and its cache count.

    Example: apportion cost vineppo runs.jsonl --k 9 --max-tokens 512
    """
    from apportion.assign import check_expression, check_level, required_cut
    from apportion.assign import cost as quote
    from apportion.resources import Cache, Speed

    params = method_params(context.args)
    asking.take(params, method)
    check_expression(method, params)
    cut = checked_cut(unit or required_cut(method), states)
    check_level(method, cut[0])
    if tokens_per_second is not None and not tokens_per_second > 0:
        raise ConfigError(f"--tokens-per-second is {tokens_per_second}; give a number above 0")
    speed = None
    if tokens_per_second is not None:
        speed = Speed(requests=0, prompt_tokens=1, generated_tokens=1, seconds=1 / tokens_per_second)
    units = cut_file(path, cut, form=form, group_by=group_by, outcome=outcome, skip_bad=skip_bad)
    bounded = True
    if asking.anybody:
        with asking.asker(units.batch, dry=True) as ask:
            price = quote(method, units, ask=ask, speed=speed, **params)
    else:
        if speed is None and asking.cache is not None and asking.cache.exists():
            cache = Cache(asking.cache)
            speed = cache.speed()
            cache.close()
        bounded = bool(asking.given.get("max_tokens_said")) or asking.max_tokens != 1024
        price = quote(method, units, max_tokens=asking.max_tokens if bounded else None, speed=speed, **params)
        bounded = bounded or not price.expected_tokens
    if json:
        emit_json({"schema": "apportion.cost/1", "method": method, "params": params, "unit": cut[0], **price.to_dict()})
        return
    policy_alone = bool(asking.resampler) and not asking.judge and not asking.reward_model  # others are estimated
    _show(method, price, bounded, _counted(price, at_most=policy_alone, text=not units.batch.has_ids))


def _counted(price: Quote, *, at_most: bool, text: bool) -> tuple[str, str]:
    """Prompt tokens, and how exact the counts are."""
    if price.exact:
        return f"{price.prompt_tokens:,}", "requests and prompt tokens"
    if not at_most:
        return f"about {price.prompt_tokens:,}", "no: an estimate, or an upper bound"
    why = "; a byte of text is a token at most, and --tokenizer counts them" if text else ""
    return f"{price.prompt_tokens:,} at most", f"no: an upper bound{why}"


def _show(method: str, price: Quote, bounded: bool, counted: tuple[str, str]) -> None:
    prompt, exact = counted
    rows = [
        ["questions", f"{price.asks:,}"],
        ["requests", f"{price.requests:,}" + _aside(price)],
        ["prompt tokens", prompt],
        ["generated tokens", _written(price, bounded)],
        ["a budget sets aside", f"{price.prompt_tokens + price.generated_tokens:,} tokens"],
        ["time", "unknown; give --tokens-per-second" if price.seconds is None else _duration(price.seconds)],
        ["exact", exact],
    ]
    table(f"what {method} would ask for", ["", ""], rows)


def _written(price: Quote, bounded: bool) -> str:
    """Generated tokens; what a reminder would show again is set aside too, and is none of them."""
    about = f"about {price.expected_tokens:,}"
    if price.most_requests > price.requests:
        return about
    if not bounded:
        return f"{about}, as long as the rollouts go on themselves; --max-tokens gives a limit"
    return f"{about}, {price.generated_tokens:,} at most"


def _aside(price: Quote) -> str:
    """What more there is to say of the number of requests."""
    parts = [f"{price.most_requests:,} at most, if a judge has to be reminded"]
    parts = parts if price.most_requests > price.requests else []
    parts += ["equal questions are asked once"] if price.requests + price.cached < price.asks else []
    parts += [f"{price.cached:,} more are in the cache"] if price.cached else []
    return f" ({'; '.join(parts)})" if parts else ""


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
