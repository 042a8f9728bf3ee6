"""The repetition kernel compiled with numba, see `_numpy_repetition` for what it counts."""

from __future__ import annotations

import numba
import numpy as np

from apportion.numerics._numba import _call
from apportion.numerics.typing import IntArray

EMPTY = -1


def repeated_substrings(code_X: IntArray, bounds_N: IntArray, out_N: IntArray) -> None:
    """See `_numpy_repetition.repeated_substrings`.

    Suffixes are sorted by induction (SA-IS: Nong, Zhang and Chan 2009), in time linear in the text whatever it repeats;
    what neighbours share is then found in the order of the text (Kasai et al. 2001, in the permuted form).
    """
    narrow = int(code_X.max(initial=0)) < 256  # a text that fits into the cache takes less time
    _call(_repeated, (code_X.astype(np.uint8 if narrow else np.int32), bounds_N), (out_N,))


def _repeated(code, bounds, out):  # type: ignore[no-untyped-def]
    for t in range(bounds.size - 1):
        text = code[bounds[t] : bounds[t + 1]]
        out[t] = _shared(text, _order(text)) if text.size > 0 else 0


@numba.njit(nogil=True)
def _order(code):  # type: ignore[no-untyped-def]
    # Starts of the suffixes in sorted order. Two rounds around the order of the names, which is a smaller text.
    order = np.empty(code.size, dtype=np.int32)
    small = np.empty(code.size, dtype=np.bool_)
    bucket = np.zeros((2, int(code.max()) + 2), dtype=np.int32)
    name = np.full(code.size // 2 + 1, EMPTY, dtype=np.int32)
    many = _sort_substrings(code, order, small, bucket)
    names = _name_substrings(code, many, order, small, name)
    place, reduced = _reduce(many, small, name)
    _place(code, _order_of_names(reduced, names), place, small, order, bucket)
    return order


@numba.njit(nogil=True)
def _order_of_names(code, names):  # type: ignore[no-untyped-def]
    # The same for a text of int32, and by itself.
    order = np.empty(code.size, dtype=np.int32)
    if names == code.size:
        for i in range(code.size):
            order[code[i]] = i
        return order
    small = np.empty(code.size, dtype=np.bool_)
    bucket = np.zeros((2, names + 1), dtype=np.int32)
    name = np.full(code.size // 2 + 1, EMPTY, dtype=np.int32)
    many = _sort_substrings(code, order, small, bucket)
    more = _name_substrings(code, many, order, small, name)
    place, reduced = _reduce(many, small, name)
    _place(code, _order_of_names(reduced, more), place, small, order, bucket)
    return order


@numba.njit(nogil=True)
def _sort_substrings(code, order, small, bucket):  # type: ignore[no-untyped-def]
    # The first round: what stands between two local minima (LMS substrings) comes out sorted, at the front of `order`.
    n = code.size
    small[n - 1] = False
    for i in range(n - 2, -1, -1):
        small[i] = code[i] < code[i + 1] or (code[i] == code[i + 1] and small[i + 1])
    start = bucket[0]
    for i in range(n):
        start[code[i] + 1] += 1
    for s in range(1, start.size):
        start[s] += start[s - 1]
    edge = bucket[1]
    for s in range(edge.size - 1):
        edge[s] = start[s + 1]
    for i in range(n):
        order[i] = EMPTY
    for i in range(1, n):
        if small[i] and not small[i - 1]:
            edge[code[i]] -= 1
            order[edge[code[i]]] = i
    _induce(code, order, small, start, edge)
    many = 0
    for k in range(n):
        i = order[k]
        if i > 0 and small[i] and not small[i - 1]:
            order[many] = i
            many += 1
    return many


@numba.njit(nogil=True)
def _induce(code, order, small, start, edge):  # type: ignore[no-untyped-def]
    # From sorted local minima to all suffixes: first those that are larger than the next one, then the others.
    n = code.size
    for s in range(edge.size - 1):
        edge[s] = start[s]
    order[edge[code[n - 1]]] = n - 1
    edge[code[n - 1]] += 1
    for k in range(n):
        j = order[k] - 1
        if j >= 0 and not small[j]:
            order[edge[code[j]]] = j
            edge[code[j]] += 1
    for s in range(edge.size - 1):
        edge[s] = start[s + 1]
    for k in range(n - 1, -1, -1):
        j = order[k] - 1
        if j >= 0 and small[j]:
            edge[code[j]] -= 1
            order[edge[code[j]]] = j


@numba.njit(nogil=True)
def _name_substrings(code, many, order, small, name):  # type: ignore[no-untyped-def]
    # Equal LMS substrings get equal names, in sorted order. They begin at least two positions apart.
    n = code.size
    names = 0
    for k in range(many):
        a = order[k]
        equal = k > 0
        if equal:
            b = order[k - 1]
            d = 0
            while True:
                if a + d == n or b + d == n or code[a + d] != code[b + d] or small[a + d] != small[b + d]:
                    equal = False
                    break
                if d > 0 and small[a + d] and not small[a + d - 1] and not small[b + d - 1]:
                    break
                d += 1
        if not equal:
            names += 1
        name[a // 2] = names - 1
    return names


@numba.njit(nogil=True)
def _reduce(many, small, name):  # type: ignore[no-untyped-def]
    # Where the LMS substrings begin, in the order of the text, and their names: a text of its own.
    place = np.empty(many, dtype=np.int32)
    reduced = np.empty(many, dtype=np.int32)
    t = 0
    for i in range(1, small.size):
        if small[i] and not small[i - 1]:
            place[t] = i
            reduced[t] = name[i // 2]
            t += 1
    return place, reduced


@numba.njit(nogil=True)
def _place(code, inner, place, small, order, bucket):  # type: ignore[no-untyped-def]
    # The second round: the suffixes at local minima are now sorted, and so all others follow.
    start, edge = bucket[0], bucket[1]
    for s in range(edge.size - 1):
        edge[s] = start[s + 1]
    for i in range(code.size):
        order[i] = EMPTY
    for k in range(inner.size - 1, -1, -1):
        i = place[inner[k]]
        edge[code[i]] -= 1
        order[edge[code[i]]] = i
    _induce(code, order, small, start, edge)


@numba.njit(nogil=True)
def _shared(code, order):  # type: ignore[no-untyped-def]
    # Σ of what each suffix shares with the one sorted before it; going through the text it falls by one at most.
    n = code.size
    before = np.empty(n, dtype=np.int32)
    before[order[0]] = EMPTY
    for k in range(1, n):
        before[order[k]] = order[k - 1]
    total = 0
    k = 0
    for i in range(n):
        j = before[i]
        if j == EMPTY:
            k = 0
            continue
        while i + k < n and j + k < n and code[i + k] == code[j + k]:
            k += 1
        total += k
        k -= k > 0
    return total
