"""The shop's pages as pure functions of a small state: what is shown, what can be clicked, where a click leads."""

from __future__ import annotations

from typing import NamedTuple

from apportion.envs.retrieval import Index
from apportion.envs.webshop.products import Product

MOST_HITS, PER_PAGE = 50, 10
BACK, NEXT, PREVIOUS, BUY = "back to search", "next >", "< prev", "buy now"
DETAILS = ("description", "features")


class Page(NamedTuple):
    """Where the player is. ``chosen`` are pairs of (kind, value)."""

    kind: str = "search"  # search, results, item, description, features
    query: str = ""
    number: int = 1
    asin: str = ""
    chosen: tuple[tuple[str, str], ...] = ()


class Shop:
    """The shelf and its search engine."""

    def __init__(self, products: tuple[Product, ...]) -> None:
        self.by_asin = {product.asin: product for product in products}
        self._asins = tuple(self.by_asin)
        self._index = Index([product.text for product in self.by_asin.values()])

    def hits(self, query: str) -> list[str]:
        """What a search finds."""
        return [self._asins[k] for k in self._index.search(query, MOST_HITS)]

    def shown(self, page: Page) -> list[str]:
        """The results on this page."""
        return self.hits(page.query)[(page.number - 1) * PER_PAGE : page.number * PER_PAGE]

    def clicks(self, page: Page) -> list[str]:
        """What can be clicked."""
        if page.kind == "search":
            return []
        if page.kind == "results":
            turns = [NEXT] if len(self.hits(page.query)) > page.number * PER_PAGE else []
            turns += [PREVIOUS] if page.number > 1 else []
            return [BACK, *turns, *self.shown(page)]
        if page.kind in DETAILS:
            return [BACK, PREVIOUS]
        values = [value for _, listed in self.by_asin[page.asin].options for value in listed]
        return list(dict.fromkeys([BACK, PREVIOUS, *DETAILS, BUY, *values]))

    def click(self, page: Page, what: str) -> Page:
        """Where one of `clicks` leads, but for "buy now"."""
        if what == BACK:
            return Page()
        if page.kind == "results":
            if what in (NEXT, PREVIOUS):
                return page._replace(number=page.number + (1 if what == NEXT else -1))
            return page._replace(kind="item", asin=what)
        if what == PREVIOUS:
            if page.kind == "item":
                return Page("results", page.query, page.number)
            return page._replace(kind="item")
        if what in DETAILS:
            return page._replace(kind=what)
        kind = next(kind for kind, listed in self.by_asin[page.asin].options if what in listed)
        return page._replace(chosen=tuple(sorted({**dict(page.chosen), kind: what}.items())))

    def text(self, page: Page) -> str:
        """What the page says."""
        if page.kind == "search":
            return "Search"
        head = f"Back to Search [SEP] Query: {page.query}"
        if page.kind == "results":
            found = self.hits(page.query)
            lines = [f"{a} [SEP] {self.by_asin[a].name} [SEP] ${self.by_asin[a].price:.2f}" for a in self.shown(page)]
            return " [SEP] ".join([head, f"Page {page.number} (Total results: {len(found)})", *lines])
        item = self.by_asin[page.asin]
        head = f"{head}, page {page.number} [SEP] < Prev"
        chosen = ", ".join(f"{kind}={value}" for kind, value in page.chosen) or "nothing"
        if page.kind == "description":
            return f"{head} [SEP] {item.asin} [SEP] {item.description} [SEP] chosen: {chosen}"
        if page.kind == "features":
            return f"{head} [SEP] {item.asin} [SEP] {' [SEP] '.join(item.bullets)} [SEP] chosen: {chosen}"
        options = [f"{kind} [SEP] {' [SEP] '.join(listed)}" for kind, listed in item.options]
        price = f"Price: ${item.price:.2f} [SEP] Description [SEP] Features [SEP] Buy Now"
        return " [SEP] ".join([head, *options, item.asin, item.name, price, f"chosen: {chosen}"])
