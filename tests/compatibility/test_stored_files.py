"""Files of earlier versions are read with what is in them; files of later ones are refused with one sentence.

`stored/<version>` holds what `write.py` wrote when that version was the newest. It is never written again.
"""

import ast
import re
import shutil
import sqlite3
import warnings
from pathlib import Path

import numpy as np
import pytest

import apportion as ap
from apportion.errors import ApportionError
from tests.compatibility import write
from tests.make import assert_same_trajectories

HERE = Path(__file__).resolve().parent
VERSIONS = sorted(path.name for path in (HERE / "stored").iterdir())
PACKAGE = HERE.parents[1] / "src" / "apportion"

GIGPO = [-0.975, -1.0, 0.975, 1.0] * 2
HALF_GRPO = [-np.sqrt(0.5) / 2] * 2 + [np.sqrt(0.5) / 2] * 2


def read_rollouts(path):
    batch = ap.read(path)
    assert_same_trajectories(batch, ap.Batch.from_trajectories(write.rollouts()))


def read_credit(path):
    credit = ap.read_credit(path)
    assert_same_trajectories(credit.units.batch, ap.Batch.from_trajectories(write.rollouts()))
    expected = np.array(GIGPO) + np.array(HALF_GRPO * 2)
    np.testing.assert_allclose(credit.advantage_S, expected, rtol=1e-12)
    again = ap.remake(credit.record(), credit.units)
    np.testing.assert_array_equal(again.advantage_S, credit.advantage_S)


def read_columns(path):
    np.testing.assert_allclose(ap.read_credit(path).advantage_S, GIGPO, rtol=1e-12)


def read_grams(path):
    from apportion.grams import read_grams as read

    assert len(read(path)) > 3


def read_pairs(path):
    from apportion.data.pairs import read_pairs as read

    (pair,) = read(path)
    assert (tuple(pair.prompt_ids), tuple(pair.chosen_ids), tuple(pair.rejected_ids)) == ((1, 2), (10, 11), (12,))


def read_memory(path):
    from apportion.adapters.crediting import Crediting
    from apportion.adapters.memory import read_memory as read
    from apportion.assign import assign_carrying

    memory = read(path.parent, Crediting("pooled"))
    _, fresh = assign_carrying("pooled", ap.by_step(ap.Batch.from_trajectories(write.rollouts())))
    assert memory.tick == 1
    np.testing.assert_array_equal(
        memory.key, fresh.key
    )  # keys of states are as they were, or a memory is worth nothing
    np.testing.assert_allclose(memory.total, fresh.total)


def read_cache(path):
    from apportion.resources.cache import Cache

    cache = Cache(path)
    try:
        reply = cache.get("score", "a key")
        assert (reply.value, reply.prompt_tokens, reply.generated_tokens) == (0.75, 12, 3)
        assert cache.speed("somebody").seconds == 1.5
    finally:
        cache.close()


def read_checkpoint(path):
    torch = pytest.importorskip("torch")
    from apportion.models.checkpoint import load_checkpoint

    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    before = {name: p.clone() for name, p in model.named_parameters()}
    assert load_checkpoint(path, model, optimizer) == (7, {"episodes": 14})
    assert not torch.equal(before["weight"], model.weight)
    assert optimizer.state_dict()["state"][0]["step"] == 1


def read_model(path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    model = ap.models.ValueHead.load(path)
    valued = model.predict(ap.Batch.from_trajectories(write.rollouts()))
    assert np.isfinite([step.value for t in valued for step in t.steps]).all()


READERS = {
    "rollouts.jsonl": (read_rollouts, "apportion.rollouts"),
    "rollouts.parquet": (read_rollouts, "apportion.rollouts"),
    "rollouts.arrow": (read_rollouts, "apportion.rollouts"),
    "credit.jsonl": (read_credit, "apportion.credit"),
    "credit.parquet": (read_credit, "apportion.credit"),
    "volume/rollouts.parquet": (read_columns, "apportion.credit.columns"),
    "grams.json": (read_grams, "apportion.grams"),
    "pairs.jsonl": (read_pairs, "apportion.pairs"),
    "credit_memory.json": (read_memory, "format"),
    "answers.cache": (read_cache, "user_version"),
    "checkpoints": (read_checkpoint, "apportion.checkpoint"),
    "model": (read_model, "apportion.credit-model"),
}
# Documents for other programs; apportion does not read them again.
ONLY_WRITTEN = {"apportion.report", "apportion.recommend", "apportion.check", "apportion.read", "apportion.search"}


@pytest.fixture
def stored(tmp_path, request):
    """A copy of one version's files: reading a cache writes to it."""
    return shutil.copytree(HERE / "stored" / request.param, tmp_path / "stored")


def needs(name):
    if name.endswith((".parquet", ".arrow")):
        pytest.importorskip("pyarrow")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("stored", VERSIONS, indirect=True)
def test_an_older_file_is_read(stored, name):
    needs(name)
    READERS[name][0](stored / name)


def newer(path, schema):
    """The same file, as if the next version of its schema had written it."""
    if path.is_dir():
        (told,) = [p for p in path.rglob("*.json") if schema in p.read_text()]
        return newer(told, schema)
    if schema == "user_version":
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 99")
        db.close()
    elif path.suffix in (".parquet", ".arrow"):
        _newer_columns(path, schema)
    else:
        text = path.read_text(encoding="utf-8")
        changed = re.sub(rf'"{schema}": \d+', f'"{schema}": 99', text, count=1)
        changed = re.sub(rf"{re.escape(schema)}/\d+", f"{schema}/99", changed, count=1)
        assert changed != text
        path.write_text(changed, encoding="utf-8")


def _newer_columns(path, schema):
    import pyarrow.parquet as pq
    from pyarrow import ipc

    table = pq.read_table(path) if path.suffix == ".parquet" else ipc.open_file(str(path)).read_all()
    old = table.schema.metadata
    new = {
        key: re.sub(rf"{re.escape(schema)}/\d+".encode(), f"{schema}/99".encode(), told) for key, told in old.items()
    }
    assert new != old
    table = table.replace_schema_metadata(new)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("stored", VERSIONS[-1:], indirect=True)
def test_a_newer_file_is_refused_with_one_sentence(stored, name):
    needs(name)
    read, schema = READERS[name]
    newer(stored / name, schema)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ApportionError, match="99") as caught:
            read(stored / name)
    said = str(caught.value)
    assert "update" in said
    assert "\n" not in said
    assert "Traceback" not in said


def test_every_schema_that_is_read_has_stored_files():
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                names = {target.id for target in node.targets if isinstance(target, ast.Name)}
                if names & {"SCHEMA", "FORMAT"}:
                    found.add(node.value.value.rpartition("/")[0])
    assert found - ONLY_WRITTEN == {schema for _, schema in READERS.values()} - {"format", "user_version"}


def test_the_stored_files_are_what_their_script_writes():
    """So that the next version can be stored as this one was; bytes of Parquet and databases may differ."""
    assert {path.name for path in (HERE / "stored" / VERSIONS[-1]).iterdir()} == {
        name.split("/")[0] for name in READERS
    }
