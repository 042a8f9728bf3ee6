"""Models of transformers as policies and reward models, compared with plain forward passes of tiny random models."""

import math
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from apportion.asks import Attend, Continue, Logprob, Place, Score, Span, Value
from apportion.data import Step, Trajectory
from apportion.data.words import words
from apportion.errors import ConfigError, ResourceError
from apportion.resources import Asker
from apportion.resources.hf_policy import HFPolicy
from apportion.resources.hf_reward import HFReward
from apportion.resources.hf_sampling import Track, _nucleus, draw, forced_logp
from apportion.resources.reward_text import WITHHELD, shown_text, token_texts
from apportion.resources.sampling import Prompt, Speller
from apportion.train.tokenizer import train_tokenizer

TEXTS = ["the answer is 42.", "what is 6 times 7?", "größe 鍵 🦊 add 1 and 2 to get 3", "so it is 1", "and 0"]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS * 3, size=300)


def gpt2(tokenizer, seed=0, kind="GPT2LMHeadModel", **more):
    torch.manual_seed(seed)
    shape = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=64, eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, initializer_range=0.5, **more,
    )  # fmt: skip
    return getattr(transformers, kind)(shape).eval()


def llama(tokenizer, seed=0, kind="LlamaForCausalLM", **more):
    torch.manual_seed(seed)
    shape = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id, initializer_range=0.5, **more,
    )  # fmt: skip
    return getattr(transformers, kind)(shape).eval()


def bert(tokenizer, seed=0, **more):
    torch.manual_seed(seed)
    shape = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=64, pad_token_id=tokenizer.pad_token_id, initializer_range=0.5, **more,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(shape).eval()


MODELS = {"gpt2": gpt2, "llama": llama}


def logits_after(model, ids):
    with torch.inference_mode():
        return model(input_ids=torch.tensor([list(ids)])).logits[0].double()


def one(resource, ask, *rollouts, **options):
    (answer,) = Asker(resource, **options)([ask], rollouts)
    assert answer.failed == 0, answer.reason
    return answer


def rollout_of(tokenizer, prompt="what is 6 times 7?", action=" the answer is 42.", end=True, text=False, **fields):
    ids = tokenizer(action)["input_ids"] + ([tokenizer.eos_token_id] if end else [])
    said = {"observation": prompt, "action": action} if text else {}
    step = Step(prompt_ids=tokenizer(prompt)["input_ids"], ids=ids, terminated=True, **said)
    return Trajectory([step], group="g", reference="42", outcome=1.0, **fields)


# ── sampling ──


@pytest.mark.parametrize("name", MODELS)
def test_a_sample_does_not_depend_on_what_it_is_drawn_with(name, tokenizer):
    model = MODELS[name](tokenizer)
    rng = np.random.default_rng(0)
    contexts = [tuple(rng.integers(5, len(tokenizer), n).tolist()) for n in (3, 9, 1, 9, 5)]
    contexts.append(contexts[1])

    limits = (8, 3, 8, 1, 8, 6)

    def tracks():
        pairs = zip(contexts, limits, strict=True)
        return [Track(c, most, np.random.default_rng(k)) for k, (c, most) in enumerate(pairs)]

    settings = {"temperature": 1.0, "top_p": 0.9, "ends": frozenset({tokenizer.eos_token_id, *range(20, 40)})}
    together = tracks()
    draw(model, together, **settings)
    alone = tracks()
    for track in alone:
        draw(model, [track], **settings)
    for a, b in zip(together, alone, strict=True):
        assert (a.ids, a.finished) == (b.ids, b.finished)
        np.testing.assert_allclose(a.logp, b.logp, atol=1e-4)
        assert len(a.ids) <= a.most
        assert a.finished == (a.ids[-1] in settings["ends"])
    assert together[1].ids[:3] != together[5].ids[:3]  # one context, two seeds


@pytest.mark.parametrize("name", MODELS)
def test_log_probabilities_are_those_of_a_plain_pass(name, tokenizer):
    model = MODELS[name](tokenizer)
    (track,) = tracks = [Track((7, 8, 9), 6, np.random.default_rng(3))]
    draw(model, tracks, temperature=0.7, top_p=0.8, ends=frozenset())
    scores = logits_after(model, [*track.context, *track.ids]).log_softmax(-1)
    want = [float(scores[2 + k, id_]) for k, id_ in enumerate(track.ids)]
    np.testing.assert_allclose(track.logp, want, atol=1e-5)
    runs = [((7, 8, 9), tuple(track.ids)), ((7,), (8, 9)), ((5, 6, 7, 8), ())]
    told = forced_logp(model, runs)
    np.testing.assert_allclose(told[0], want, atol=1e-5)
    short = logits_after(model, [7, 8, 9]).log_softmax(-1)
    np.testing.assert_allclose(told[1], [float(short[0, 8]), float(short[1, 9])], atol=1e-5)
    assert told[2] == []


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (2.0, 0.6), (0.0, 1.0)])
def test_samples_are_distributed_as_they_should(tokenizer, temperature, top_p):
    model = gpt2(tokenizer)
    count, context = 3000, (7, 8, 9)
    tracks = [Track(context, 1, np.random.default_rng([k, 1])) for k in range(count)]
    draw(model, tracks, temperature=temperature, top_p=top_p, ends=frozenset())
    logits = logits_after(model, context)[-1].numpy()
    if temperature == 0:
        assert {track.ids[0] for track in tracks} == {int(logits.argmax())}
        return
    share = np.exp((logits - logits.max()) / temperature)
    share /= share.sum()
    kept, total = np.zeros_like(share), 0.0
    for k in np.argsort(-share, kind="stable"):  # the smallest set that holds top_p
        kept[k] = share[k]
        total += share[k]
        if total >= top_p:
            break
    kept /= kept.sum()
    seen = Counter(track.ids[0] for track in tracks)
    assert all(kept[k] > 0 for k in seen)
    for k in np.argsort(-kept)[:10]:
        error = math.sqrt(kept[k] * (1 - kept[k]) / count)
        assert abs(seen[int(k)] / count - kept[k]) < 4.5 * error


def test_continuations_go_on_from_the_ids_and_are_scored(tokenizer):
    model, rollout = gpt2(tokenizer), rollout_of(tokenizer)
    seen = []

    def scorer(trajectory, answer):
        seen.append(answer)
        return float(len(answer))

    policy = HFPolicy(model, tokenizer, scorer=scorer, max_tokens=6, batch=4)
    answer = one(policy, Continue(Place(0, 0, 3), 5), rollout)
    context = [*rollout.steps[0].prompt_ids.tolist(), *rollout.steps[0].ids.tolist()[:3]]
    assert answer.prompt_tokens == 5 * len(context)
    assert answer.generated_tokens == sum(len(s.moves[0].ids) for s in answer.samples)
    written = tokenizer.decode(rollout.steps[0].ids.tolist()[:3])
    for sample in answer.samples:
        (move,) = sample.moves
        scores = logits_after(model, [*context, *move.ids]).log_softmax(-1)
        want = [float(scores[len(context) - 1 + k, id_]) for k, id_ in enumerate(move.ids)]
        np.testing.assert_allclose(move.logp, want, atol=1e-5)
        assert sample.finished == (move.ids[-1] == tokenizer.eos_token_id)
        assert written + move.action in seen
        assert move.reward == len(written + move.action)
    again = HFPolicy(model, tokenizer, scorer=scorer, max_tokens=6, batch=1)
    assert [s.moves[0].ids for s in one(again, Continue(Place(0, 0, 3), 5), rollout).samples] == [
        s.moves[0].ids for s in answer.samples
    ]


def test_a_stop_text_ends_an_answer_and_is_not_part_of_it(tokenizer):
    model = gpt2(tokenizer)
    free = HFPolicy(model, tokenizer, max_tokens=12).sample([Prompt(ids=(7, 8), max_tokens=12, seed=5)])[0]
    stop = free.text[3:5]
    (cut,) = HFPolicy(model, tokenizer, max_tokens=12, stop=[stop]).sample([Prompt(ids=(7, 8), max_tokens=12, seed=5)])
    assert cut.text == free.text.partition(stop)[0]
    assert cut.finished
    assert cut.ids == free.ids[: len(cut.ids)]
    with pytest.raises(ConfigError, match="stop is text, and the model samples ids"):
        HFPolicy(model, stop=["x"])


def test_text_alone_is_tokenised_and_needs_a_tokenizer(tokenizer):
    model = gpt2(tokenizer)
    rollout = Trajectory([Step(observation="what is 6 times 7?", action=" so it is 1")], group="g", reference="1")
    answer = one(HFPolicy(model, tokenizer, scorer="number", max_tokens=4), Continue(Place(0, 0, 2), 1), rollout)
    assert answer.prompt_tokens == len(tokenizer("what is 6 times 7? so it")["input_ids"])
    with pytest.raises(ResourceError, match="give HFPolicy the tokenizer"):
        one(HFPolicy(model), Continue(Place(0), 1), rollout)


def test_a_context_without_room_is_refused_and_a_long_answer_is_cut(tokenizer):
    policy = HFPolicy(gpt2(tokenizer), max_tokens=100, stop_ids=())
    full, empty, tight = policy.sample(
        [Prompt(ids=(7,) * 64, max_tokens=9), Prompt(ids=(), max_tokens=9), Prompt(ids=(7,) * 62, max_tokens=9, seed=2)]
    )
    assert "leaves no room for an answer (64 in all)" in str(full)
    assert "no context to go on from" in str(empty)
    assert len(tight.ids) <= 2


# ── log-probabilities and values ──


def test_logprob_of_the_policy_and_of_the_reference(tokenizer):
    model, other, rollout = gpt2(tokenizer), gpt2(tokenizer, seed=1), rollout_of(tokenizer)
    policy = HFPolicy(model, tokenizer, reference=other)
    prompt, ids = rollout.steps[0].prompt_ids.tolist(), rollout.steps[0].ids.tolist()
    for asked, who in (("policy", model), ("reference", other)):
        scores = logits_after(who, [*prompt, *ids]).log_softmax(-1)
        want = [float(scores[len(prompt) - 1 + k, ids[k]]) for k in range(1, 4)]
        answer = one(policy, Logprob(Place(0, 0, 1), until=4, model=asked), rollout)
        np.testing.assert_allclose(answer.one, want, atol=1e-5)
        assert (answer.prompt_tokens, answer.generated_tokens) == (len(prompt) + 4, 0)
    with pytest.raises(ResourceError, match="give HFPolicy"):
        one(HFPolicy(model, tokenizer), Logprob(Place(0, 0, 1), model="reference"), rollout)


def test_logprob_in_a_frame_and_of_a_text(tokenizer):
    model, rollout = gpt2(tokenizer), rollout_of(tokenizer)
    policy = HFPolicy(model, tokenizer)
    frame = "{prompt} gold {reference} {outcome}{unknown} {context}"
    shown = "what is 6 times 7? gold 42 {unknown} what is 6 times 7?"
    ids, target = tokenizer(shown)["input_ids"], rollout.steps[0].ids.tolist()
    scores = logits_after(model, [*ids, *target]).log_softmax(-1)
    want = [float(scores[len(ids) - 1 + k, id_]) for k, id_ in enumerate(target)]
    np.testing.assert_allclose(one(policy, Logprob(Place(0, 0, 0), frame=frame), rollout).one, want, atol=1e-5)

    context, gold = rollout.steps[0].prompt_ids.tolist(), tokenizer(" 42", add_special_tokens=False)["input_ids"]
    scores = logits_after(model, [*context, *gold]).log_softmax(-1)
    want = [float(scores[len(context) - 1 + k, id_]) for k, id_ in enumerate(gold)]
    np.testing.assert_allclose(one(policy, Logprob(Place(0, 0, 0), target=" 42"), rollout).one, want, atol=1e-5)


def test_words_of_a_text_get_the_sum_over_their_ids(tokenizer):
    model = gpt2(tokenizer)
    text = " the größe is 鍵鍵 42, so"
    rollout = Trajectory([Step(observation="what is 6?", action=text)], group="g")
    answer = one(HFPolicy(model, tokenizer), Logprob(Place(0, 0, 0)), rollout)
    assert len(answer.one) == len(words(text))
    context, target = tokenizer("what is 6?")["input_ids"], tokenizer(text)["input_ids"]
    (want,) = forced_logp(model, [(context, target)])
    assert sum(answer.one) == pytest.approx(sum(want))
    slow, at = [0.0] * len(words(text)), 0
    for piece, value in zip(token_texts(target, Speller(tokenizer).text), want, strict=True):
        word = next(w for w in range(len(slow)) if at < len("".join(words(text)[: w + 1])))
        slow[word] += value  # the word in which the token begins
        at += len(piece)
    np.testing.assert_allclose(answer.one, slow, atol=1e-6)


def test_values_come_from_the_head(tokenizer):
    model, rollout = gpt2(tokenizer), rollout_of(tokenizer)
    head = torch.nn.Linear(16, 1)
    policy = HFPolicy(model, tokenizer, value_head=head)
    context = [*rollout.steps[0].prompt_ids.tolist(), *rollout.steps[0].ids.tolist()[:2]]
    with torch.inference_mode():
        hidden = model.transformer(input_ids=torch.tensor([context])).last_hidden_state[0, -1]
        want = float(head(hidden)[0])
    assert one(policy, Value(Place(0, 0, 2)), rollout).one == pytest.approx(want, abs=1e-5)
    assert "value" not in HFPolicy(model, tokenizer).kinds


def test_other_weights_are_another_policy(tokenizer):
    model = gpt2(tokenizer)
    policy, before = HFPolicy(model, tokenizer), HFPolicy(model, tokenizer).identity
    assert policy.identity == before
    with torch.no_grad():
        model.transformer.h[1].mlp.c_fc.weight[0, 0] += 1e-3
    assert policy.identity != before
    after = policy.identity
    model.transformer.h[1].mlp.c_fc.weight.data[0, 1] += 1e-3
    policy.forget_weights()
    assert policy.identity != after
    assert HFPolicy(model, tokenizer, temperature=0.5).identity != HFPolicy(model, tokenizer).identity
    assert (
        HFPolicy(model, identity="step 10").identity == HFPolicy(gpt2(tokenizer, seed=9), identity="step 10").identity
    )


def test_a_folder_is_loaded_and_what_is_none_is_said(tokenizer, tmp_path):
    gpt2(tokenizer).save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    rollout = rollout_of(tokenizer)
    asked = Continue(Place(0, 0, 1), 2, max_tokens=3)
    held = one(HFPolicy(gpt2(tokenizer), tokenizer), asked, rollout)
    assert one(HFPolicy(str(tmp_path / "m"), device="cpu"), asked, rollout).samples == held.samples
    with pytest.raises(ConfigError, match="no model can be loaded from"):
        HFPolicy(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="the model is a int"):
        HFPolicy(3)


# ── reward models ──


@pytest.mark.parametrize("build", [gpt2, llama])
def test_all_beginnings_are_scored_in_one_pass_and_as_alone(build, tokenizer):
    kind = {"gpt2": "GPT2ForSequenceClassification", "llama": "LlamaForSequenceClassification"}[build.__name__]
    model, rollout = build(tokenizer, kind=kind, num_labels=1), rollout_of(tokenizer)
    passes = []
    model.base_model.register_forward_pre_hook(lambda module, args, kwargs: passes.append(1), with_kwargs=True)
    reward = HFReward(model, tokenizer, shares_tokenizer=True)
    size = len(rollout.steps[0].ids)
    asks = [Score(0, upto=Place(0, 0, t)) for t in range(size + 1)] + [Score(0)]
    answers = Asker(reward)(asks, [rollout])
    assert len(passes) == 1
    prompt, ids = rollout.steps[0].prompt_ids.tolist(), rollout.steps[0].ids.tolist()
    with torch.inference_mode():
        for t, answer in enumerate([*answers[:-1]]):
            row = torch.tensor([[*prompt, *ids[:t]]])
            assert answer.one == pytest.approx(float(model(input_ids=row).logits[0, 0]), abs=1e-4)
            assert answer.prompt_tokens == row.shape[1]
    assert answers[-1].one == answers[-2].one
    assert len({round(a.one, 6) for a in answers}) == size + 1


FILLED = {
    "blank": "what is 6 times 7? the {}42.",
    "delete": "what is 6 times 7? the 42.",
    "mask_token": "what is 6 times 7? the{}42.",
}


@pytest.mark.parametrize("filler", ["blank", "delete", "mask_token"])
@pytest.mark.parametrize("ids", [False, True])
def test_absent_tokens_are_filled(filler, ids, tokenizer):
    tokenizer = train_tokenizer(TEXTS * 3, size=300)
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    model = bert(tokenizer, num_labels=1)
    if ids:
        rollout = rollout_of(tokenizer, end=False)
        pieces = token_texts(rollout.steps[0].ids.tolist(), Speller(tokenizer).text)
        absent = Span(0, 1, len(pieces) - 1)
        prompt = "what is 6 times 7?"
    else:
        rollout = Trajectory([Step(observation="what is 6?", action=" the answer is 42.")], group="g")
        pieces, absent, prompt = words(" the answer is 42."), Span(0, 1, 3), "what is 6?"
    fill = {"blank": lambda p: " " * len(p), "delete": lambda p: "", "mask_token": lambda p: "<mask>"}[filler]
    text = prompt + "".join(fill(p) if absent.first <= k < absent.last else p for k, p in enumerate(pieces))
    reward = HFReward(model, tokenizer, policy_tokenizer=tokenizer)
    answer = one(reward, Score(0, absent=(absent,), filler=filler), rollout)
    with torch.inference_mode():
        want = float(model(input_ids=torch.tensor([tokenizer(text)["input_ids"]])).logits[0, 0])
    assert answer.one == pytest.approx(want, abs=1e-5)
    whole = one(reward, Score(0), rollout).one
    assert whole != pytest.approx(answer.one, abs=1e-4)


@pytest.mark.parametrize("filler", ["delete", "mask_token"])
def test_shared_ids_are_taken_out_as_ids(filler, tokenizer):
    tokenizer = train_tokenizer(TEXTS * 3, size=300)
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    model, rollout = llama(tokenizer, kind="LlamaForSequenceClassification", num_labels=1), rollout_of(tokenizer)
    reward = HFReward(model, tokenizer, shares_tokenizer=True)
    answer = one(reward, Score(0, absent=(Span(0, 1, 3),), filler=filler), rollout)
    own = rollout.steps[0].ids.tolist()
    put = [tokenizer.mask_token_id] * 2 if filler == "mask_token" else []
    row = [*rollout.steps[0].prompt_ids.tolist(), own[0], *put, *own[3:]]
    with torch.inference_mode():
        want = float(model(input_ids=torch.tensor([row])).logits[0, 0])
    assert answer.one == pytest.approx(want, abs=1e-5)


def test_agents_are_withheld_and_labels_are_probabilities(tokenizer):
    steps = [
        Step(observation="what?", action=" add 1", agent="a"),
        Step(observation=" so", action=" it is 1", agent="b"),
    ]
    rollout, model = Trajectory(steps, group="g"), bert(tokenizer, num_labels=3)
    reward = HFReward(model, tokenizer, label=2)
    answer = one(reward, Score(0, agents=("a",)), rollout)
    with torch.inference_mode():
        row = torch.tensor([tokenizer(f"what?{WITHHELD} so it is 1")["input_ids"]])
        want = float(model(input_ids=row).logits[0].softmax(-1)[2])
    assert answer.one == pytest.approx(want, abs=1e-5)
    with pytest.raises(ConfigError, match="3 labels and label is None; say which is the good one"):
        HFReward(model, tokenizer)


@pytest.mark.parametrize("shares", [False, True])
def test_attention_of_the_last_token_to_spans(shares, tokenizer):
    model, rollout = (
        llama(tokenizer, kind="LlamaForSequenceClassification", num_labels=1),
        rollout_of(tokenizer, end=False),
    )
    size = len(rollout.steps[0].ids)
    spans = (Span(0, 0, 2), Span(0, 2, size), Span(0, 1, 1))
    reward = HFReward(model, tokenizer, policy_tokenizer=tokenizer, shares_tokenizer=shares)
    answer = one(reward, Attend(0, spans), rollout)
    prompt, ids = rollout.steps[0].prompt_ids.tolist(), rollout.steps[0].ids.tolist()
    assert tokenizer(tokenizer.decode([*prompt, *ids]))["input_ids"] == [*prompt, *ids]  # so both ways read the same
    eager = llama(tokenizer, kind="LlamaForSequenceClassification", num_labels=1)
    eager.set_attn_implementation("eager")
    with torch.inference_mode():
        told = eager(input_ids=torch.tensor([[*prompt, *ids]]), output_attentions=True)
    weight = told.attentions[-1][0].mean(0)[-1].double().numpy()[len(prompt) :]
    np.testing.assert_allclose(answer.one.weights, [weight[:2].sum(), weight[2:].sum(), 0.0], atol=1e-5)
    assert answer.one.score == pytest.approx(float(told.logits[0, 0]), abs=1e-5)
    assert model.config._attn_implementation != "eager"  # as it was


def test_what_cannot_be_shown(tokenizer):
    model, rollout = bert(tokenizer, num_labels=1), rollout_of(tokenizer)
    with pytest.raises(ResourceError, match="no mask token; take the filler blank or delete"):
        one(HFReward(model, tokenizer), Score(0, absent=(Span(0, 0, 1),), filler="mask_token"), rollout)
    with pytest.raises(ResourceError, match="is token ids of the policy"):
        one(HFReward(model, tokenizer), Score(0), rollout)
    with pytest.raises(ResourceError, match="give HFReward its tokenizer"):
        one(HFReward(model), Score(0), rollout)
    spoken = rollout_of(tokenizer, text=True)
    assert math.isfinite(one(HFReward(model, tokenizer), Score(0), spoken).one)  # whole steps have their text
    long = Trajectory([Step(observation="is " * 80, action="x")], group="g")
    (answer,) = Asker(HFReward(model, tokenizer))([Score(0)], [long])
    assert "more than the 64 that the reward model has places for" in answer.reason


def test_a_reward_model_scores_continuations(tokenizer):
    model, rollout = bert(tokenizer, num_labels=1), rollout_of(tokenizer)
    scorer = HFReward(model, tokenizer, policy_tokenizer=tokenizer).as_scorer()
    with torch.inference_mode():
        row = torch.tensor([tokenizer("what is 6 times 7? so it is 1")["input_ids"]])
        want = float(model(input_ids=row).logits[0, 0])
    assert scorer(rollout, " so it is 1") == pytest.approx(want, abs=1e-5)
    answer = one(
        HFPolicy(gpt2(tokenizer), tokenizer, scorer=scorer, max_tokens=3), Continue(Place(0, 0, 1), 2), rollout
    )
    assert all(math.isfinite(s.total()) and s.scored for s in answer.samples)


def test_texts_of_tokens_join_to_the_text(tokenizer):
    spell = Speller(tokenizer).text
    rng = np.random.default_rng(0)
    for text in [*TEXTS, "🦊🦊鍵ß", ""]:
        ids = tokenizer(text)["input_ids"]
        assert "".join(token_texts(ids, spell)) == text
        assert len(token_texts(ids, spell)) == len(ids)
    for _ in range(30):
        ids = rng.integers(4, len(tokenizer), 60).tolist()
        assert "".join(token_texts(ids, spell)).replace("�", "") == spell(ids).replace("�", "")


def test_spans_stand_where_their_text_stands():
    rollout = Trajectory([Step(observation="ab ", action="cd ef"), Step(observation=" gh", action=" ij kl")], group="g")
    spans = (Span(0, 1, 2), Span(1, 0, 2), Span(1, 1, 1))
    shown = shown_text(Attend(0, spans), rollout, None)
    assert shown.text == "ab cd ef gh ij kl"
    assert [shown.text[a:b] for a, b in shown.places] == [" ef", " ij kl", ""]


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(0.5, [1]), (0.500001, [1, 0]), (0.8, [1, 0]), (0.81, [1, 0, 3]), (1e-9, [1]), (0.999, [1, 0, 3, 2])],
)
def test_a_nucleus_is_the_smallest_set_with_so_much_probability(top_p, kept):
    share = torch.tensor([[0.3, 0.5, 0.05, 0.15]], dtype=torch.float64)
    left = _nucleus(share, top_p)[0]
    assert torch.nonzero(left)[:, 0].tolist() == sorted(kept)
    assert left[kept].tolist() == share[0][kept].tolist()
