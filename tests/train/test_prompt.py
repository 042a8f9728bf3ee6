"""Tokenizer, prompts and choices: what the policy reads and may write."""

import pytest
from transformers import AutoTokenizer

from apportion.envs import make
from apportion.errors import ConfigError
from apportion.train.choice import Choices
from apportion.train.prompt import Frame, Prompts
from apportion.train.tokenizer import play_for_text, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    texts, actions = play_for_text(make("crafttree"), range(20))
    return train_tokenizer(texts, actions, 400)


def test_text_comes_back_exactly(tokenizer):
    for text in ("Goal: craft lamp. Gathers left: 2. Inventory: 1 log, 2 plank.", "größe\n 🦊  x", " <act> "):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_phrases_of_the_environment_are_single_tokens(tokenizer):
    text = make("crafttree").reset(seed=1)[0]
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert len(ids) <= 12 < len(text.split()) + text.count(".") + text.count(":")


def test_transformers_reads_the_saved_tokenizer(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    text = "Goal: craft lamp. Unseen <|get log|> ü"
    assert again.encode(text) == tokenizer.encode(text)
    assert (again.pad_token_id, again.eos_token_id, again.padding_side) == (0, 1, "left")
    assert again.get_vocab() == tokenizer.get_vocab()


def test_the_same_texts_give_the_same_tokenizer():
    one, two = (train_tokenizer(*play_for_text(make("crafttree"), range(9)), 320).get_vocab() for _ in range(2))
    assert one == two


def test_playing_for_text_finds_what_the_expert_sees():
    texts, actions = play_for_text(make("crafttree"), range(20))
    assert {"get log", "craft lamp", "wait"} <= set(actions)
    assert any("torch" in text and "Inventory: " in text for text in texts)


def prompts(tokenizer, window, free_text=False):
    made = Prompts(tokenizer, window=window, free_text=free_text)
    return made, made.start()


def test_an_action_is_one_token(tokenizer):
    made, _ = prompts(tokenizer, 0)
    for action in ("get log", "craft pickaxe", "wait"):
        assert len(made.encode_action(action)) == 1
    assert len(made.encode_action("get moon")) > 1


@pytest.mark.parametrize("window", [0, 1, 2])
def test_a_window_shows_the_last_steps(tokenizer, window):
    made, dialogue = prompts(tokenizer, window)
    seen = []
    for k in range(4):
        ids, fresh = dialogue.see(f"look {k}")
        assert fresh == (k > 0)
        seen.append(tokenizer.decode(ids))
        dialogue.act(made.encode_action("get log"))
    whole = [f"look {k}<act>" for k in range(4)]
    for k in range(4):
        shown = whole[max(0, k - window) : k]
        assert seen[k] == "<|get log|>".join([*shown, whole[k]])


def test_a_history_grows(tokenizer):
    made, dialogue = prompts(tokenizer, None)
    parts = []
    for k in range(3):
        ids, fresh = dialogue.see(f"look {k}")
        assert not fresh
        parts += [*ids, *made.encode_action("wait")]
        dialogue.act(made.encode_action("wait"))
    assert tokenizer.decode(parts) == "".join(f"look {k}<act><|wait|>" for k in range(3))


def test_free_text_ends_with_one_stop_token(tokenizer):
    made, dialogue = prompts(tokenizer, None, free_text=True)
    said, stop = made.encode("wait"), made.stop_id
    dialogue.see("a")
    dialogue.act((*said, stop))
    assert tokenizer.decode(dialogue.see("b")[0]) == "b<act>"
    dialogue.act(said)  # cut off: the stop is context, not an action
    assert tokenizer.decode(dialogue.see("c")[0]) == "<stop>c<act>"


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_chat_template_is_followed_to_the_letter():
    tokenizer = train_tokenizer(["hello there"], size=300)
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = CHATML
    made, dialogue = prompts(tokenizer, None)
    ids = [*dialogue.see("what now?")[0], *made.encode("go"), made.stop_id]
    dialogue.act((*made.encode("go"), made.stop_id))
    ids += dialogue.see("and now?")[0]
    dialogue.act(made.encode("stay"))
    ids += [*made.encode("stay"), *dialogue.see("done?")[0]]
    roles = ("user", "what now?"), ("assistant", "go"), ("user", "and now?"), ("assistant", "stay"), ("user", "done?")
    messages = [{"role": role, "content": content} for role, content in roles]
    want = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(ids) == want


def test_a_plain_tokenizer_gets_a_prompt_sign():
    tokenizer = train_tokenizer(["hello"], size=300)
    frame = Frame.of(type("Plain", (), {"chat_template": None, "get_vocab": lambda self: {}})(), free_text=True)
    assert (frame.before, frame.between) == ("\n> ", "\n")
    assert Frame.of(tokenizer, free_text=True).stop


def test_choices_are_walked_token_by_token():
    choices = Choices(["go left", "go right", "wait"], [(1, 2), (1, 3), (4,)], stop=9)
    assert choices.allowed(()) == (1, 4)
    assert choices.allowed((1,)) == (2, 3)
    assert choices.allowed((4,)) == () == choices.allowed((1, 2))
    assert choices.action((1, 3)) == "go right"
    assert choices.ids_of("wait") == (4,)


def test_an_action_that_begins_another_is_closed_by_the_stop():
    choices = Choices(["go", "go on"], [(1,), (1, 2)], stop=9)
    assert choices.allowed((1,)) == (9, 2)
    assert choices.allowed((1, 9)) == ()
    assert choices.action((1, 2, 9)) == "go on"


def test_choices_that_cannot_be_chosen_are_errors():
    with pytest.raises(ConfigError, match="action 'a' cannot be told from another by its tokens"):
        Choices(["a", "b"], [(1,), (1,)], stop=9)
    with pytest.raises(ConfigError, match="there is no admissible action; set actions to 'text'"):
        Choices([], [], stop=9)
    with pytest.raises(ConfigError, match="'c' is not among the admissible actions 'a', 'b'"):
        Choices(["a", "b"], [(1,), (2,)], stop=9).ids_of("c")
