"""Strategic Grams: the phrases that plan, as data. Built from solutions, kept in a file, handed to ``hicra``.

grams = build(texts)                     n-grams → clusters → those that most solutions share
write_grams("grams.json", grams)
credit = assign("dr_grpo | hicra", units, grams=grams.for_hicra())
"""

from apportion.grams.build import build, solutions
from apportion.grams.encode import encode
from apportion.grams.encoders import Encoder, spelling, transformer
from apportion.grams.lists import Gram, GramList, read_grams, starter, write_grams
from apportion.grams.sensitivity import Sensitivity, sensitivity

__all__ = [
    "Encoder",
    "Gram",
    "GramList",
    "Sensitivity",
    "build",
    "encode",
    "read_grams",
    "sensitivity",
    "solutions",
    "spelling",
    "starter",
    "transformer",
    "write_grams",
]
