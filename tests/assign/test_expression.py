"""The grammar of compositions: what is read, what is refused with which sentence, and that nothing is evaluated."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.assign import check_expression, parse
from apportion.assign.expression import LONGEST, Leaf, Pipe, Sum, leaves, render
from apportion.errors import ApportionError, ConfigError, UnknownName
from apportion.methods.registry import written_as

A, B, C = Leaf("a"), Leaf("b"), Leaf("c")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a", A),
        (" a ", A),
        ("(a)", A),
        ("(a\n + b)", Sum(((1.0, A), (1.0, B)))),
        ("a + b", Sum(((1.0, A), (1.0, B)))),
        ("a - b", Sum(((1.0, A), (-1.0, B)))),
        ("-a", Sum(((-1.0, A),))),
        ("2*a", Sum(((2.0, A),))),
        ("a*2", Sum(((2.0, A),))),
        ("-2*a", Sum(((-2.0, A),))),
        ("a - 0.5*b + c", Sum(((1.0, A), (-0.5, B), (1.0, C)))),
        ("a - (b - c)", Sum(((1.0, A), (-1.0, B), (1.0, C)))),
        ("2*(a + 3*b)", Sum(((2.0, A), (6.0, B)))),
        ("a*2*3", Sum(((6.0, A),))),
        ("a | b", Pipe(A, B)),
        ("a | b | c", Pipe(Pipe(A, B), C)),
        ("a + b | c", Pipe(Sum(((1.0, A), (1.0, B))), C)),
        ("a + (b | c)", Sum(((1.0, A), (1.0, Pipe(B, C))))),
        ("2*(a | b)", Sum(((2.0, Pipe(A, B)),))),
        ("(a)(x=1)", Leaf("a", {"x": 1})),
        ("a(x=1, y=-2.5)", Leaf("a", {"x": 1, "y": -2.5})),
        ("a(x='t', y=True, z=None)", Leaf("a", {"x": "t", "y": True, "z": None})),
        ("a(x=[1, (2, 'b')])", Leaf("a", {"x": (1, (2, "b"))})),
        ("a(x=1e999)", Leaf("a", {"x": float("inf")})),
        ("mine/m", Leaf("mine/m")),
        ("mine/m(x=1)", Leaf("mine/m", {"x": 1})),
        ("a + mine/m | yours/t", Pipe(Sum(((1.0, A), (1.0, Leaf("mine/m")))), Leaf("yours/t"))),
        ("0.5*mine/m", Sum(((0.5, Leaf("mine/m")),))),
        ("mine/m*0.5", Sum(((0.5, Leaf("mine/m")),))),
        ("a - 0.5*mine/m(x=1)", Sum(((1.0, A), (-0.5, Leaf("mine/m", {"x": 1}))))),
        ("-mine/m", Sum(((-1.0, Leaf("mine/m")),))),
        ("2*-mine/m", Sum(((-2.0, Leaf("mine/m")),))),
        ("a # why", A),
    ],
)
def test_grammar(text, node):
    assert parse(text) == node


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("REINFORCE++", "reinforce_pp"),
        ("reinforce++", "reinforce_pp"),
        ("Dr. GRPO", "dr_grpo"),
        ("Dr.GRPO", "dr_grpo"),
        ("dr-grpo", "dr_grpo"),
        ("Tree-GRPO", "tree_grpo"),
        ("GRPO", "grpo"),
    ],
)
def test_a_method_written_as_in_papers_gets_its_name(written, name):
    with pytest.raises(
        UnknownName, match=f"no credit method named {written!r}; did you mean {name!r}".replace("+", r"\+")
    ):
        check_expression(written)


@pytest.mark.parametrize("text", ["grpo-anchor", "grpo -", "grpo ++", "dr grpo rloo", "grpo | ", "critic.steps"])
def test_what_is_no_name_of_a_method_gets_no_such_hint(text):
    assert written_as(text) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"a method is a name like 'gigpo' or an expression like 'grpo | whiten', got ''"),
        ("   ", r"got '   '"),
        ("a +", r"cannot read 'a \+'.*; write e.g. 'grpo \+ 0.5\*anchor \| whiten'"),
        ("a b", r"cannot read 'a b'"),
        ("a(", r"cannot read 'a\('"),
        ("a\n+b", r"cannot read"),
        ("3", r"cannot read '3' in '3'; use names, numbers, \+ - \* \| and \(name=value\)"),
        ("'a'", r"use names, numbers"),
        ("a + 3", r"cannot read '3' in 'a \+ 3'; use names"),
        ("a * b", r"cannot read 'a \* b' in .*; multiply a method by a number, like '0.5\*anchor'"),
        ("True*a", r"multiply a method by a number"),
        ("1j*a", r"multiply a method by a number"),
        ("a / 2", r"cannot read '2' in 'a / 2'"),
        ("a/b/c", r"cannot read 'a/b/c'"),
        ("a | (b + c)", r"right of a bar stands one transform, like 'whiten' or 'clip\(limit=5\)'"),
        ("a | (b | c)", r"right of a bar stands one transform"),
        ("a | 2*b", r"right of a bar stands one transform"),
        ("a(1)", r"cannot read '1' in 'a\(1\)'; parameters have names, like 'a\(name=value\)'"),
        ("a(**b)", r"parameters have names, like 'a\(name=value\)'"),
        ("a(*b)", r"parameters have names, like 'a\(name=value\)'"),
        ("a(x=1)(y=2)", r"cannot read 'a\(x=1\)' in .*; parameters follow a name, like 'clip\(limit=5\)'"),
        ("(a + b)(x=1)", r"parameters follow a name"),
        ("a(x=none)", r"cannot read 'none' in .*; put text in quotes, like 'none' in quotes"),
        ("a(x=1 + 1)", r"a value is a number, a quoted text, True, False, None or a list of those"),
        ("a(x={})", r"a value is a number"),
        ("a(x=b'x')", r"a value is a number"),
        ("a(x=1, x=2)", r"cannot read 'a\(x=1, x=2\)' in .*; x is given twice; keep one"),
        ("a ** 2", r"use names, numbers"),
        ("a // b", r"use names, numbers"),
        ("a @ b", r"use names, numbers"),
        ("not a", r"use names, numbers"),
        ("+a", r"use names, numbers"),
        ("a < b", r"use names, numbers"),
        ("[a]", r"use names, numbers"),
        ("a[0]", r"use names, numbers"),
        ("a.b", r"use names, numbers"),
        ("a if b else c", r"use names, numbers"),
        ("lambda: a", r"use names, numbers"),
        ("a := b", r"cannot read"),
        ("(x := a)", r"use names, numbers"),
        ("1e999*a", r"a weight is too large; give numbers whose product is at most 1e\+100"),
        ("1e90*(1e90*a)", r"a weight is too large"),
        ("1" + "0" * 400 + "*a", r"a weight is too large"),
        ("a" * (LONGEST + 1), r"the expression has 2001 characters; at most 2000 are read"),
        ("-" * (LONGEST - 1) + "a", r"cannot read '-{40}'…; it is nested too deeply"),
        ("(" * 900 + "a" + ")" * 900, r"cannot read"),
        ("a\0", r"cannot read"),
    ],
)
def test_what_cannot_be_read_gets_its_sentence(text, sentence):
    with pytest.raises(ConfigError, match=sentence) as problem:
        parse(text)
    assert len(str(problem.value)) < 400


@pytest.mark.parametrize("thing", [None, 3, ["a"], b"a"])
def test_only_text_is_read(thing):
    with pytest.raises(ConfigError, match="a method is a name like 'gigpo'"):
        parse(thing)


fired = []


class Trap:
    """Anything that touches it is seen."""

    def __getattr__(self, name):
        fired.append(name)
        return self

    def __call__(self, *args, **kwargs):
        fired.append("call")
        return self


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "a(x=__import__('os'))",
        "a(x=open('/dev/null'))",
        "a(x=(lambda: trap())())",
        "a(x=trap.go)",
        "a(x=[trap() for _ in [1]])",
        "a(x=f'{trap()}')",
        "f'{trap()}'*a",
        "().__class__.__bases__[0].__subclasses__()",
        "a(x='%s' % trap())",
        "trap.go",
        "[trap() for _ in (1,)]",
        "(trap := 1)",
        "a(x=9**9**9)",
        "9**9**9*a",
        "a(x='a'*10**9)",
        "await trap()",
        "exec('trap()')",
    ],
)
def test_nothing_is_evaluated(text, monkeypatch):
    import builtins

    monkeypatch.setattr(builtins, "trap", Trap(), raising=False)
    monkeypatch.setattr("os.system", lambda *_: fired.append("system"))
    with pytest.raises(ConfigError):
        parse(text)
    assert fired == []


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_our_error(text):
    with contextlib.suppress(ApportionError):  # anything else is a failure
        parse(text)


names = st.sampled_from(["a", "b", "mine/m"]).map(Leaf)
weights = st.sampled_from([1.0, -1.0, 0.5, -2.0, 3.0])
nodes = st.recursive(
    names,
    lambda inner: st.one_of(
        st.builds(Pipe, inner, st.sampled_from([Leaf("t"), Leaf("mine/t")])),
        # sums inside sums are flattened when read, so that only other nodes stand in one
        st.lists(st.tuples(weights, inner.filter(lambda n: not isinstance(n, Sum))), min_size=2, max_size=3).map(
            lambda terms: Sum(tuple(terms))
        ),
    ),
    max_leaves=6,
)


@given(nodes)
def test_what_is_rendered_reads_back_as_the_same(node):
    assert parse(render(node)) == node


def test_leaves_stand_in_the_order_of_the_text():
    assert [leaf.name for leaf in leaves(parse("a + 2*(b | c) - mine/d | e"))] == ["a", "b", "c", "mine/d", "e"]
