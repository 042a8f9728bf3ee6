"""What others build on: the public names, their signatures and their fields. A change here is a change for users."""

import dataclasses
import inspect
from pathlib import Path

import pytest

import apportion as ap
from apportion import errors, testing
from apportion.methods import get, names

HERE = Path(__file__).parent

# Parameters of the functions that user code calls. Adding one with a default is fine: add it here.
SIGNATURES = {
    "assign": "method, units, *, ask=None, values=None, **params",
    "cost": "method, units, *, ask=None, max_tokens=None, speed=None, **params",
    "remake": "record, units, *, ask=None",
    "by_episode": "batch, *, state=None",
    "by_turn": "batch, *, state=None",
    "by_step": "batch, *, state=None",
    "by_agent": "batch, *, state=None",
    "by_token": "batch",
    "by_tree": "batch",
    "by_segment": "batch, by='newline', *, count=None, size=None, interval=None, rho=None, share=None, splitter=None, "
    "parser=None, decode=None, min_tokens=1, max_segments=None",
    "on_truncated": "batch, policy, *, penalty=0.0",
    "read": "paths, *, skip_bad=False",
    "write": "path, what",
    "register": "name, *, unit='step', units=(), family, reads=(), needs=(), source, holds=(), chain=False, "
    "kind='method', example=None, plan=None, most=None, scope=None, wide=None, carry=None, reads_with=None",
    "describe": "name",
    "methods": "*, plugins=False",
}

METHODS_OF_CLASSES = {
    "Credit.to_tokens": "self, spread='copy'",
    "Credit.record": "self",
    "TokenAdvantages.split": "self",
    "TokenAdvantages.padded": "self, *, side='right', pad_id=0, length=None",
    "Batch.from_trajectories": "trajectories",
}

# Fields that user code reads or builds with; more may follow, none may go.
FIELDS = {
    "Step": "observation action prompt_ids ids fresh logp ref_logp entropy value token_values reward state terminated "
    "truncated failed turn agent actions parent extra",
    "Trajectory": "steps group id outcome final_observation final_value reference meta",
    "Credit": "advantage_S units known_S train_S parts notes cost method params",
    "TokenAdvantages": "advantage_T weight_T units",
    "Cost": "requests prompt_tokens generated_tokens",
}
PADDED = ("ids", "sampled", "advantage", "weight", "real")


def parameters(function):
    """The signature without annotations."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return text[1:-1]


def test_all_is_sorted_complete_and_importable():
    assert ap.__all__ == sorted(set(ap.__all__))
    for name in ap.__all__:
        assert getattr(ap, name) is not None
    public = {name for name, value in vars(ap).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public - set(ap.__all__) <= {"annotations", "Any", "Iterable", "ModuleType", "TYPE_CHECKING"}


def test_the_names_of_the_readme_are_there():
    for name in "read write by_step by_episode by_turn by_segment by_token by_agent assign methods describe".split():
        assert name in ap.__all__


@pytest.mark.parametrize("name", ap.__all__)
def test_every_public_name_says_what_it_is(name):
    assert (inspect.getdoc(getattr(ap, name)) or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    assert parameters(getattr(ap, name)) == SIGNATURES[name]


@pytest.mark.parametrize("name", METHODS_OF_CLASSES)
def test_signatures_of_methods(name):
    holder, _, method = name.partition(".")
    assert parameters(getattr(getattr(ap, holder), method)) == METHODS_OF_CLASSES[name]


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name):
    have = [field.name for field in dataclasses.fields(getattr(ap, name))]
    assert set(FIELDS[name].split()) <= set(have)


def test_fields_of_padded():
    assert ap.Padded._fields == PADDED


def test_every_error_is_also_a_standard_error():
    kinds = [e for e in vars(errors).values() if inspect.isclass(e) and issubclass(e, ap.ApportionError)]
    for kind in kinds:
        if kind is not ap.ApportionError:
            assert issubclass(kind, (ValueError, KeyError, ImportError, RuntimeError)), kind
            assert kind.__name__ in ap.__all__


def test_the_names_of_testing_are_there():
    assert testing.__all__ == sorted(set(testing.__all__))
    for name in testing.__all__:
        assert hasattr(testing, name)
        if callable(getattr(testing, name)) and name != "Method":
            assert inspect.getdoc(getattr(testing, name))


BUILT_IN = [name for name in names() if "/" not in name]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_has_its_test_file(name):
    assert (HERE / "methods" / f"test_{name}.py").is_file(), f"write tests/methods/test_{name}.py with its four truths"


@pytest.mark.parametrize("name", BUILT_IN)
def test_one_file_one_method(name):
    assert get(name).module.split(".")[-1] == name


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_parameter_is_explained(name):
    spec = get(name)
    for parameter in spec.defaults:
        assert f"{parameter}:" in spec.doc, f"{name}: say what {parameter} is under Args"
