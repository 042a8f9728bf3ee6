"""WebShop: find what is asked for, choose its options, buy it; how well it fits is paid.

    Instruction: [SEP] Find me a lamp with solid wood with color: red, and price lower than 60.00 dollars [SEP] Search

The actions are the published ones, `search[…]` and `click[…]`. Pages also show the query and what was chosen, so that
the observation is the full state.

Source    arXiv:2207.01206, on an engine of our own without Java, spaCy or Flask; searches rank by BM25.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from apportion.envs.commands import CommandEnv, is_text
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.retrieval import words
from apportion.envs.splits import at_seed, choose_split
from apportion.envs.webshop.goals import Goal, goals_of, reward
from apportion.envs.webshop.pages import BUY, NEXT, Page, Shop
from apportion.envs.webshop.products import Product, generated_products, read_products

ACTION = re.compile(r"(search|click)\[(.+)\]", re.IGNORECASE | re.DOTALL)
RIGHT = 1 - 1e-9


@register("webshop", extra="search")
class WebShop(CommandEnv):
    """A web shop as a text environment.

    Args:
        data: folder (or file) of products in WebShop's format; "" = generated ones.
        world: number of the generated shelf.
        split: "train", "valid", "test" or "all": of the goals.
        max_steps: steps of an episode.
        mode: "choice" among the clicks, and on the search page among a few searches: the instruction, the product's
            search phrase, each attribute, and the product's name where none of these finds it; "text": `search[…]`
            with any words, `click[…]`.
    """

    def __init__(
        self, *, data: str = "", world: int = 0, split: str = "train", max_steps: int = 15, mode: str = "choice"
    ) -> None:
        options = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        super().__init__(
            EnvSpec(
                name="webshop",
                options=tuple(sorted(options.items())),
                full_state=True,
                shows_time=False,
                noise=DETERMINISTIC,
                max_steps=max_steps,
                free_text=is_text("webshop", mode),
                reward="how well the purchase fits, from 0 to 1; buying ends the episode; success is a full 1",
                return_range=(0.0, 1.0),
            )
        )
        products = read_products(data) if data else generated_products(world)
        self.shop, by_name = _shop(products)
        self._goals = [by_name[name] for name in choose_split("webshop", by_name, split)]
        self.goal = self._goals[0]
        self.page = Page()

    @property
    def tasks(self) -> int:
        """How many goals the split has."""
        return len(self._goals)

    def commands(self) -> tuple[str, ...]:
        """Clicks; on the search page searches for the instruction, its thing alone, and each attribute with it."""
        if self.page.kind != "search":
            return tuple(f"click[{what}]" for what in self.shop.clicks(self.page))
        return tuple(dict.fromkeys(f"search[{query}]" for query in self._queries()))

    def expert(self) -> list[str] | None:
        """The way to a purchase that fits fully; it knows what is on the shelf."""
        self._require_start("expert")
        if self._over:
            return []
        page, plan = self.page, list[str]()
        while len(plan) < self.steps_left:
            action = self._next(page)
            if action is None:
                return None
            plan.append(action)
            if action == f"click[{BUY}]":
                break
            page = self._after(page, action)
        return plan

    def _next(self, page: Page) -> str | None:
        """The step from this page."""
        asin, options = self.goal.asin, self.goal.options
        if page.kind == "search":
            found = [(hits.index(asin), q) for q in self._queries() if asin in (hits := self.shop.hits(q))]
            return f"search[{min(found)[1]}]" if found else None
        if page.kind == "results":
            here = self.shop.hits(page.query)
            if asin in here and here.index(asin) >= 10 * (page.number - 1):
                return f"click[{asin}]" if asin in self.shop.shown(page) else f"click[{NEXT}]"
            return "click[back to search]"
        if page.asin != asin:
            return "click[back to search]"
        if page.kind != "item":
            return "click[< prev]"
        due = [value for kind, value in options if dict(page.chosen).get(kind) != value]
        return f"click[{due[0]}]" if due else f"click[{BUY}]"

    def _queries(self) -> list[str]:
        """Searches that the instruction suggests; the last one is the product's own name where no other finds it."""
        thing = self.shop.by_asin[self.goal.asin].query
        asked = " ".join(words(self.goal.text.split(", and price lower than ")[0].removeprefix("Find me ")))
        queries = [asked, " ".join(words(thing)), *(" ".join(words(f"{thing} {a}")) for a in self.goal.attributes)]
        queries = [query for query in queries if query]
        if not any(self.goal.asin in self.shop.hits(query) for query in queries):
            queries.append(" ".join(words(self.shop.by_asin[self.goal.asin].name)))
        return queries

    def _after(self, page: Page, action: str) -> Page:
        found = ACTION.fullmatch(action)
        assert found is not None
        what = found[2].strip().lower()
        return Page("results", what) if found[1].lower() == "search" else self.shop.click(page, what)

    def _start(self, seed: int) -> None:
        self.goal, self.page = at_seed(self._goals, seed), Page()

    def _observe(self) -> str:
        return f"Instruction: [SEP] {self.goal.text} [SEP] {self.shop.text(self.page)}"

    def _state(self) -> str:
        return f"{self.goal.name} {tuple(self.page)}"

    def _accepts(self, action: str) -> bool:
        if not self._spec.free_text:
            return action in self.commands()
        found = ACTION.fullmatch(action)
        if found is None or not found[2].strip():
            return False
        if found[1].lower() == "search":
            return self.page.kind == "search"
        return found[2].strip().lower() in self.shop.clicks(self.page)

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        if action.lower().replace(" ", "") == f"click[{BUY}]".replace(" ", ""):
            bought, wanted = self.shop.by_asin[self.page.asin], self.shop.by_asin[self.goal.asin]
            worth = reward(self.goal, bought, dict(self.page.chosen), wanted)
            return worth, True, worth >= RIGHT
        self.page = self._after(self.page, action)
        return 0.0, False, False

    def _save(self) -> Any:
        return self.goal, self.page

    def _load(self, state: Any) -> None:
        self.goal, self.page = state


@lru_cache(maxsize=4)
def _shop(products: tuple[Product, ...]) -> tuple[Shop, dict[str, Goal]]:
    """One search engine for every environment over the same shelf."""
    return Shop(products), {goal.name: goal for goal in goals_of(products)}
