"""Credit that was divided by a spread two times."""

from __future__ import annotations

from collections.abc import Mapping

from apportion.check.findings import Finding, Yields
from apportion.check.registry import register
from apportion.credit import Credit

SCALED = ("std", "batch")


@register("normalised-twice", on="credit", cheap=True)
def normalised_twice(credit: Credit) -> Yields:
    """Whitening behind a method that already divides by a standard deviation."""
    nested = {name: value for name, value in credit.params.items() if isinstance(value, Mapping)}
    whitened = [name for name in nested if name.partition("#")[0] == "whiten"]
    scaled = [name for name, params in nested.items() if params.get("scale") in SCALED]
    if not whitened or not (scaled or len(whitened) > 1):
        return
    first = f"{scaled[0]}(scale={nested[scaled[0]]['scale']!r})" if scaled else whitened[0]
    yield Finding(
        "normalised-twice",
        "warning",
        f"{credit.method!r} is normalised twice: {first} divides by a standard deviation and whiten does again, "
        "so the credit no longer has the scale of either",
        "write scale='none' in the method, or drop whiten",
        {"normalisations": len(scaled) + len(whitened)},
    )
