"""Values of a file, however laid out; broken ones named; any chunk size gives the same."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.adapters.readers import json_stream
from apportion.adapters.readers.json_stream import Item, stream_json
from apportion.errors import FormatError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=3)


@pytest.fixture
def tiny_chunks(monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 3)


def read(tmp_path, data, **options):
    path = tmp_path / "f.json"
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    return list(stream_json(path, **options))


def values(tmp_path, data, **options):
    items = read(tmp_path, data, **options)
    assert all(isinstance(item, Item) for item in items), items
    return [item.value for item in items]


LAYOUTS = {
    "one a line": lambda objects: "\n".join(json.dumps(o) for o in objects),
    "with CRLF": lambda objects: "".join(json.dumps(o) + "\r\n" for o in objects),
    "run together": lambda objects: "".join(json.dumps(o) for o in objects),
    "indented": lambda objects: "\n".join(json.dumps(o, indent=2) for o in objects),
    "one list": lambda objects: json.dumps(objects),
    "an indented list": lambda objects: json.dumps(objects, indent=1, ensure_ascii=False),
    "with a byte-order mark": lambda objects: "\ufeff" + json.dumps(objects),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=40)
@given(objects=st.lists(OBJECTS, min_size=1, max_size=4), chunk=st.integers(1, 40))
def test_every_layout_gives_the_same_values(tmp_path_factory, layout, objects, chunk):
    path = tmp_path_factory.getbasetemp() / "values.json"
    path.write_bytes(LAYOUTS[layout](objects).encode("utf-8", "surrogatepass"))
    before, json_stream.CHUNK = json_stream.CHUNK, chunk
    try:
        items = list(stream_json(path))
    finally:
        json_stream.CHUNK = before
    assert [item.value for item in items if isinstance(item, Item)] == objects
    assert len(items) == len(objects)


@given(cut=st.integers(0, 10_000), chunk=st.integers(1, 40))
def test_a_cut_file_gives_whole_values_and_says_that_it_was_cut(tmp_path_factory, cut, chunk):
    objects = [{"a": [1, {"é": 'x\n"y"'}], "n": -1.5e3, "t": True}, {"b": "😀"}, {"c": None}]
    data = "\n".join(json.dumps(o, ensure_ascii=k == 1) for k, o in enumerate(objects)).encode()
    data = data[: cut % len(data)]
    path = tmp_path_factory.getbasetemp() / "values.json"
    path.write_bytes(data)
    before, json_stream.CHUNK = json_stream.CHUNK, chunk
    try:
        items = list(stream_json(path))
    finally:
        json_stream.CHUNK = before
    whole = [item.value for item in items if isinstance(item, Item)]
    assert whole == objects[: len(whole)]
    ends = [
        len("\n".join(json.dumps(o, ensure_ascii=k == 1) for k, o in enumerate(objects[: m + 1])).encode())
        for m in range(3)
    ]
    complete = sum(end <= len(data) for end in ends)
    assert len(whole) == complete
    rest = data[ends[complete - 1] if complete else 0 :].strip()
    assert (len(items) > complete) == bool(rest)


def test_a_list_streams_and_a_chat_does_not(tmp_path):
    def is_text(first):
        return isinstance(first, str)

    assert values(tmp_path, '[1, [2], {"a": 3}]') == [1, [2], {"a": 3}]
    assert values(tmp_path, '["a", "b"]\n["c"]', whole=is_text) == [["a", "b"], ["c"]]


def test_numbers_are_not_cut_at_the_end_of_a_chunk(tmp_path, tiny_chunks):
    assert values(tmp_path, "[123456789, 1.25e-3, -7]") == [123456789, 1.25e-3, -7]
    assert values(tmp_path, "12345678") == [12345678]


def test_places_are_named(tmp_path):
    in_lines = read(tmp_path, '{"a":1}\n\n{"b":2}')
    assert [item.at.rpartition(", ")[2] for item in in_lines] == ["line 1", "line 3"]
    in_list = read(tmp_path, '[\n{"a":1},\n{"b":\n2}, 3]')
    assert [item.at.rpartition(", ")[2] for item in in_list] == [
        "item 1 (line 2)",
        "item 2 (line 3)",
        "item 3 (line 4)",
    ]


BROKEN = [
    ('{"a": 1\n{"b": 2}\n', 1, [{"b": 2}], r"line 1: not JSON \(Expecting ',' delimiter at line 2, column 1\)"),
    ('{"a": 1}\n{"b": "x\n{"c": 3}', 2, [{"a": 1}, {"c": 3}], "line 2: not JSON .Invalid control character"),
    ('{"a": 1} junk\n{"b": 2}', 1, [{"a": 1}, {"b": 2}], "line 1: not JSON .Expecting value"),
    (
        '{"a": 1}\n{"b": [2, ',
        2,
        [{"a": 1}],
        "line 2: the value breaks off; the file was cut short, or a bracket is not closed",
    ),
    ('{"a": "abc', 1, [], "line 1: the value breaks off"),
    ('[{"a": 1},\n{"b": },\n{"c": 3}]', 2, [{"a": 1}, {"c": 3}], r"item 2 \(line 2\): not JSON"),
    ('[{"a": 1}, {"b": }, {"c": 3}]', 1, [{"a": 1}], "nothing behind it can be read"),
    ('[{"a": 1}\n{"b": 2},\n{"c": 3}]', 2, [{"a": 1}, {"c": 3}], "no comma between two items; separate"),
    ('[{"a": 1}', 1, [{"a": 1}], "the list breaks off after 1 items; the file was cut short"),
    ('{"a": 1, "b": 2, "a": 3}\n{"c": 1}', 1, [{"c": 1}], "the key 'a' stands twice in one object; keep one"),
    ('{"x": {"b": 2, "b": 3}}', 1, [], "the key 'b' stands twice"),
    (b'{"a": "\xff"}\n{"b": 1}', 1, [{"b": 1}], "line 1: byte 0xff is not UTF-8; save the file as UTF-8"),
    (b'{"a": \xe9}\n{"b": 1}', 1, [{"b": 1}], "byte 0xe9 is not UTF-8"),
    ("[]", 1, [], "an empty list where a rollout was expected"),
    ("[" * 50_000, 1, [], "nested too deep to be read, and nothing behind it can be read; flatten it"),
    ('{"a": ' + "9" * 5000 + "}", 1, [], "a number with thousands of digits; give it as a string"),
]


@pytest.mark.parametrize(("data", "line", "good", "sentence"), BROKEN)
def test_what_is_broken_is_named_and_the_rest_is_read(tmp_path, data, line, good, sentence):
    items = read(tmp_path, data)
    assert [item.value for item in items if isinstance(item, Item)] == good
    (error,) = [item for item in items if isinstance(item, FormatError)]
    with pytest.raises(FormatError, match=sentence):
        raise error
    assert str(error).startswith(str(tmp_path / "f.json"))


@pytest.mark.parametrize("chunk", [1, 2, 5, 64])
@pytest.mark.parametrize(("data", "line", "good", "sentence"), BROKEN)
def test_the_same_at_any_chunk(tmp_path, monkeypatch, data, line, good, sentence, chunk):
    want = [str(item) if isinstance(item, FormatError) else item for item in read(tmp_path, data)]
    monkeypatch.setattr(json_stream, "CHUNK", chunk)
    assert [str(item) if isinstance(item, FormatError) else item for item in read(tmp_path, data)] == want


def test_packed_files_are_seen_through_and_damage_is_named(tmp_path):
    packed = gzip.compress(b'{"a": 1}\n' * 5000)
    assert values(tmp_path, packed) == [{"a": 1}] * 5000
    with pytest.raises(FormatError, match=r"f\.json: the compressed data are damaged"):
        read(tmp_path, packed[: len(packed) // 2])


def test_a_value_without_an_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "LONGEST", 1 << 20)
    with pytest.raises(FormatError, match=r"a value of more than 1 MiB; give one rollout per value"):
        read(tmp_path, '{"a": "' + "x" * (3 << 20))


def test_memory_is_bounded_by_the_largest_value(tmp_path):
    class Counted:  # the text that is held never exceeds a few chunks, however long the file is
        longest = 0

    more = json_stream._Text.more

    def watched(self):
        more(self)
        Counted.longest = max(Counted.longest, len(self.text))

    path = tmp_path / "long.json"
    path.write_text("[" + ",\n".join(['{"a": "' + "x" * 100 + '"}'] * 20_000) + "]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream._Text, "more", watched)
        assert sum(1 for _ in stream_json(path)) == 20_000
    assert path.stat().st_size > 2_000_000
    assert Counted.longest <= 3 * json_stream.CHUNK
