"""The learning comparison as tables."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.learning.plan import ARMS, EXACT
from experiments.learning.summary import Records, balanced, over_worlds, per_world
from experiments.learning.worlds import WORLDS
from experiments.markdown import commits, document, plain, signed, table

Store = Mapping[str, Records]


def shared(store: Store) -> list[str]:
    """Arms that every environment has, so that they can be compared over all of them."""
    return [arm for arm in ARMS if arm != EXACT and all(arm in balanced(records)[0] for records in store.values())]


def tables(store: Store) -> str:
    """One table for each environment."""
    out = []
    for name in (n for n in WORLDS if n in store):
        world, found = WORLDS[name], per_world(WORLDS[name], store[name])
        what = "exact expected return, share of the best" if world.table else f"{world.score}, held-out tasks"
        lr = next(iter(store[name].values()))["lr"]
        out.append(
            f"### {name}\n\n{world.about[0].upper()}{world.about[1:]}. {len(found['seeds'])} seeds, {world.tokens:,} "
            f"generated tokens a run, learning rate {lr:g}, {commits(found['commits'])}. "
            f"Before: {found['before']:.2f}."
        )
        head = ["credit", f"at the end ({what})", "area", "area over GRPO's, paired", "seconds", "credit's share"]
        rows = []
        for arm, row in found["arms"].items():
            over = signed(row["area_over_grpo"]) if "area_over_grpo" in row else ""
            cells = [arm, plain(row["final"]), plain(row["area"], 3), over]
            share = "not a method" if arm == EXACT else f"{row['credit_share']:.2%}"
            rows.append([*cells, f"{row['seconds']:.0f}", share])
        out.append(table(head, rows))
    return document(*out)


def over_all(store: Store) -> str:
    """Interquartile means, and who beats whom."""
    arms = shared(store)
    found = over_worlds(WORLDS, store, arms)
    head = [
        "credit",
        "IQM of the area",
        "IQM at the end",
        "beats GRPO (area)",
        "beats GiGPO (area)",
        "beats GRPO (end)",
    ]
    rows = []
    for arm in arms:
        cells = [arm, plain(found["area"]["iqm"][arm], 3), plain(found["final"]["iqm"][arm], 3)]
        for key, other in (("area", "grpo"), ("area", "gigpo"), ("final", "grpo")):
            cells.append("" if other == arm else plain(found[key]["better"][arm][other]))
        rows.append(cells)
    return table(head, rows)


def recurrence(store: Store) -> str:
    """How often states recur inside a group, at the beginning and at the end."""
    rows = []
    for name in (n for n in WORLDS if n in store):
        found = per_world(WORLDS[name], store[name])["arms"]
        for arm in (a for a in ("grpo", "gigpo", "pooled") if a in found):
            row = found[arm]["recurring"]
            rows.append([name, arm, plain(row["first"]), plain(row["last"])])
    return table(["environment", "credit", "first fifth of the run", "last fifth"], rows)
