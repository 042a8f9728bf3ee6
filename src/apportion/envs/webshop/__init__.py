"""A web shop in words. `env` is the game, `products` the shelf, `goals` what is wanted and what a purchase is worth."""

from apportion.envs.webshop.env import WebShop

__all__ = ["WebShop"]
