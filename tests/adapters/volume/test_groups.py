"""Files that do not hold whole groups are found from the column of groups, whatever there is of them."""

import dataclasses
import random

import numpy as np
import pyarrow.parquet as pq
import pytest

from apportion.adapters.volume import assign_files, chunks, groups
from apportion.adapters.volume.groups import check_whole, scan_groups
from apportion.adapters.volume.sources import Source, find_sources
from apportion.data import write
from apportion.data.columnar import arrow
from apportion.errors import DataError, FormatError
from tests.adapters.volume.folders import folder_of, rollouts


@pytest.fixture
def big(tmp_path):
    return folder_of(tmp_path / "big", rollouts(2), files=3)


def test_a_group_in_two_files_is_told_with_what_to_do(big, tmp_path):
    given = rollouts(2)
    write(big / "late.parquet", given[:1])
    sentence = (
        rf"group '{given[0].group}' is split between .*late.parquet and .*part-0.parquet, so it cannot be credited "
        r"file by file; `apportion convert .*big --out grouped/` writes files that hold whole groups"
    )
    with pytest.raises(DataError, match=sentence):
        assign_files([big], tmp_path / "out", "gigpo")
    assert not list((tmp_path / "out").glob("*.parquet"))


def test_a_group_whose_rows_are_apart_in_one_file_is_told(tmp_path):
    given = rollouts(2)
    at = next(k for k, t in enumerate(given) if t.group == given[k + 1].group)
    write(tmp_path / "one.parquet", [*given[:at], *given[at + 1 :], given[at]])
    with pytest.raises(DataError, match=rf"one.parquet: the rows of group '{given[at].group}' do not stand together"):
        assign_files([tmp_path / "one.parquet"], tmp_path / "out", "gigpo")


@pytest.mark.parametrize("passes", [1, 5])
def test_every_split_is_found_and_whole_files_never_accused(tmp_path, monkeypatch, passes):
    rng = random.Random(passes)
    monkeypatch.setattr(groups, "ROWS", 3)
    base = rollouts(4)
    monkeypatch.setattr(groups, "AT_A_TIME", len({t.group for t in base}) // passes + 1)
    for trial in range(8):
        folder = folder_of(tmp_path / f"good-{trial}", base, files=1 + trial % 4)
        sources = find_sources([folder])
        spills = [tmp_path / f"{trial}-{k}" for k in range(len(sources))]
        told = [scan_groups(s.path, str(spill)) for s, spill in zip(sources, spills, strict=True)]
        check_whole(sources, spills, "x")
        assert sum(t["groups"] for t in told) == len({t.group for t in base})
        assert sum(t["rows"] for t in told) == len(base)
        stray = rng.choice(base)
        write(folder / "stray.parquet", [stray])
        again = find_sources([folder])
        more = [*spills, tmp_path / f"{trial}-stray"]
        scan_groups(str(folder / "stray.parquet"), str(more[-1]))
        assert again[-1].name == "stray.parquet"
        with pytest.raises(DataError, match=f"group '{stray.group}' is split"):
            check_whole(again, more, "x")


def test_equal_digests_of_two_names_are_no_split(big, tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "group_digest", lambda name: 7)
    assign_files([big], tmp_path / "out", "gigpo")
    write(big / "late.parquet", rollouts(2)[:1])
    with pytest.raises(DataError, match="is split between"):
        assign_files([big], tmp_path / "other", "gigpo")


def test_a_chunk_ends_where_a_group_ends_however_rows_are_read(tmp_path, monkeypatch):
    given = rollouts(3)
    given[5:5] = [dataclasses.replace(given[0], id=f"alone-{k}", group=None) for k in range(4)]
    write(tmp_path / "a.parquet", given)
    pa, pq_ = arrow("reading", "parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    for rows in (1, 2, 5, 100):
        pq.write_table(table, tmp_path / "b.parquet", row_group_size=7)
        for steps in (1, 10, 50, 10**6):
            monkeypatch.setattr(chunks, "ROWS", rows)
            monkeypatch.setattr(chunks, "STEPS", steps)
            file = chunks.open_parquet(pa, pq_, str(tmp_path / "b.parquet"))
            seen, at = [], 0
            for first, part in chunks.chunks(pa, file, "b", None):
                assert first == at
                at += len(part)
                names = part.column("group").to_pylist()
                assert len(names) > 0
                if at < len(given) and names[-1] is not None:
                    assert given[at].group != names[-1]
                seen += names
            assert seen == [t.group for t in given]
            for start in np.cumsum([0, 1, 2, 11]):  # from any row on
                parts = list(chunks.chunks(pa, file, "b", None, start=int(start)))
                assert parts[0][0] == start
                assert sum(len(p) for _, p in parts) == len(given) - start


def test_what_is_in_a_folder_is_found_or_told(tmp_path, big):
    (big / "deep").mkdir()
    write(big / "deep" / "x.parquet", rollouts(4000, groups=2))
    for name in ("_SUCCESS", ".hidden.parquet", "_tmp.parquet", "README.md"):
        (big / name).touch()
    assert [s.name for s in find_sources([big])] == ["deep/x.parquet", *(f"part-{k}.parquet" for k in range(3))]
    assert [s.name for s in find_sources([f"{big}/part-*.parquet"])] == [f"part-{k}.parquet" for k in range(3)]
    assert find_sources([big / "part-1.parquet"]) == [Source("part-1.parquet", str(big / "part-1.parquet"))]
    with pytest.raises(DataError, match=r"would both be written to part-1.parquet"):
        find_sources([big / "part-1.parquet", folder_of(tmp_path / "other", rollouts(2)) / "part-1.parquet"])
    write(big / "log.jsonl", rollouts(1)[:2])
    with pytest.raises(DataError, match=r"log.jsonl holds rollouts in another format than Parquet; `apportion convert"):
        find_sources([big])
    with pytest.raises(DataError, match="no Parquet file is there"):
        find_sources([tmp_path / "nowhere"])


def test_what_is_no_parquet_of_ours_is_told(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(FormatError, match=r"a.parquet: not a Parquet file that can be read"):
        assign_files([tmp_path / "a.parquet"], tmp_path / "out", "gigpo")
    pq.write_table(arrow("x", "parquet")[0].table({"x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(FormatError, match=r"b.parquet: a Parquet file, but not of ours"):
        assign_files([tmp_path / "b.parquet"], tmp_path / "out2", "gigpo")
