import json

import pytest

from apportion.envs import make
from apportion.envs.searchqa.corpus import generated_corpus, read_corpus
from apportion.envs.searchqa.env import plain
from apportion.errors import ConfigError, FormatError, MissingExtra


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bm25s", None)
    from apportion.envs.retrieval import Index

    with pytest.raises(MissingExtra, match=r"search needs the package 'bm25s'.*apportion\[search\]"):
        Index(["a"])


def test_generated_questions_follow_from_their_paragraphs():
    """A reader of our own: each answer is found by looking up the named things one after the other."""
    corpus = generated_corpus(3)
    text = dict(corpus.paragraphs)

    def seat(firm):
        return text[firm].split("Its seat is ")[1].rstrip(".")

    def mayor(town):
        return text[town].split("Its mayor is ")[1].rstrip(".")

    kinds = set()
    for question in corpus.questions:
        asked = question.text
        if asked.startswith("In which country is the seat of "):
            found = text[seat(asked[32:-1])].split(" is a city in ")[1].split(",")[0]
        elif asked.startswith("Who is the mayor of the city where "):
            found = mayor(seat(asked[35:].removesuffix(" has its seat?")))
        else:
            place = asked.split("the mayor of ")[1].removesuffix(" play?")
            town = seat(place[12:]) if place.startswith("the seat of ") else place
            found = text[mayor(town)].split("plays the ")[1].rstrip(".")
        assert found == question.answer
        assert all(title in text for title in question.needs)
        kinds.add(asked.split()[0] + str(len(question.needs)))
    assert kinds == {"In2", "Who2", "Which2", "Which3"}


def test_answers_are_compared_plainly():
    assert plain("The  Beatles!") == plain("beatles") == "beatles"
    assert plain("Ann") != plain("Anne")


def hotpot(tmp_path, text=None):
    rows = [
        {"_id": "q1", "question": "Who plays?", "answer": "The Cat", "supporting_facts": [["A", 0], ["A", 1], ["B", 0]],
         "context": [["A", ["One. ", "Two."]], ["B", ["Three."]]]},
        {"question": "What?", "answer": "x", "supporting": ["C"],
         "context": [["C", "Four."], ["A", ["One. ", "Two."]]]},
    ]  # fmt: skip
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps(rows) if text is None else text)
    read_corpus.cache_clear()
    return str(path)


def test_hotpotqas_format_is_read(tmp_path):
    corpus = read_corpus(hotpot(tmp_path))
    assert corpus.paragraphs == (("A", "One. Two."), ("B", "Three."), ("C", "Four."))
    assert [(q.name, q.answer, q.needs) for q in corpus.questions] == [
        ("q1", "The Cat", ("A", "B")),
        ("1", "x", ("C",)),
    ]
    for text, says in (
        ("[]", "holds no question"),
        ("{", "HotpotQA's format"),
        ('[{"context": []}]', "supporting_facts"),
    ):
        with pytest.raises(FormatError, match=says):
            read_corpus(hotpot(tmp_path, text))
    with pytest.raises(ConfigError, match="no such file"):
        read_corpus(str(tmp_path / "none"))


@pytest.fixture
def bm25s():
    return pytest.importorskip("bm25s", reason="search needs the extra 'search'")


def slow_bm25(documents, query, k1=0.9, b=0.4):
    """Lucene's formula, by hand."""
    import math

    from apportion.envs.retrieval import words

    listed = [words(d) for d in documents]
    mean = sum(map(len, listed)) / len(listed)
    out = []
    for doc in listed:
        total = 0.0
        for word in words(query):
            n = sum(word in d for d in listed)
            idf = math.log(1 + (len(listed) - n + 0.5) / (n + 0.5))
            f = doc.count(word)
            total += idf * f / (f + k1 * (1 - b + b * len(doc) / mean))
        out.append(total)
    return out


def test_search_ranks_by_the_formula(bm25s):
    from apportion.envs.retrieval import Index

    documents = ["red cat", "red red dog and cat", "blue bird", "cat cat cat", "Red-cat!"]
    index = Index(documents)
    for query in ("red cat", "dog", "cat", "bird cat"):
        scores = slow_bm25(documents, query)
        due = [k for k in sorted(range(5), key=lambda k: (-round(scores[k], 5), k)) if scores[k] > 0]
        assert list(index.search(query, 5)) == due, query
    assert index.search("unicorn", 3) == ()


def test_a_played_game(bm25s):
    env = make("searchqa", split="all")
    env.reset(seed=0)
    plan = env.expert()
    assert plan[-1] == f"answer {env.question.answer}"
    for action in plan[:-1]:
        assert action in env.commands()
        text, reward, *_ = env.step(action)
        assert reward == 0.0
        assert f"{action}: {action.removeprefix('search ')}: " in text
    assert plan[-1] in env.commands()
    assert env.step(plan[-1])[1:3] == (1.0, True)


def test_every_question_can_be_answered_by_choices(bm25s):
    env = make("searchqa", split="all")
    for seed in range(env.tasks):
        env.reset(seed=seed)
        for action in env.expert():
            assert action in env.commands(), env.question
            *_, info = env.step(action)
        assert info["success"]


def test_an_answer_cannot_be_chosen_before_it_was_seen(bm25s):
    env = make("searchqa", split="all")
    for seed in range(40):
        env.reset(seed=seed)
        assert f"answer {env.question.answer}" not in env.commands()


def test_tags(bm25s, tmp_path):
    env = make("searchqa", data=hotpot(tmp_path), split="all", mode="text")
    seed = next(s for s in range(2) if env.reset(seed=s) and env.question.name == "q1")
    env.reset(seed=seed)
    text, *_ = env.step("<think>hm\nso</think> <search> three </search>")
    assert text == "Question: Who plays?\nsearch three: B: Three.\nSteps left: 4."
    for wrong in ("<search></search>", "<search>x</answer>", "find x", "search "):
        assert env.step(wrong)[4]["invalid"]
    env.reset(seed=seed)
    assert env.step("<answer>cat</answer>")[1] == 1.0


def test_hotpotqa(bm25s, data_root):
    env = make("searchqa", data=str(data_root / "hotpotqa" / "distractor100.json.xz"), split="all", mode="text")
    assert env.tasks == 100
    for seed in range(100):
        env.reset(seed=seed)
        for action in env.expert():
            *_, info = env.step(action)
            assert not info["invalid"]
        assert info["success"]


def test_wrong_options(bm25s):
    with pytest.raises(ConfigError, match="no list of answers to choose from; set mode to 'text'"):
        make("searchqa", data="x")
    with pytest.raises(ConfigError, match="results is 0"):
        make("searchqa", results=0)
