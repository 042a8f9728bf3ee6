"""What agents and benchmarks log: SWE-agent, τ²-bench, ATIF, AgentBench, texts, Responses and Completions, spans."""

import json

import pytest

from apportion.adapters.readers import detect
from apportion.errors import FormatError
from tests.adapters.foreign import call, lines, listed, said, user
from tests.adapters.test_every_reader import read
from tests.adapters.written import (
    GAME,
    REFLEXION,
    atif_record,
    attribute,
    item,
    otlp_record,
    output_text,
    response_items,
    swe_record,
    tau2_record,
)


def one(tmp_path, record, form=None, **options):
    (trajectory,), report = read(lines(tmp_path / "one.jsonl", [record]), form, **options)
    return trajectory, report.notes


def shape(trajectory):
    return [(step.observation, step.action, step.agent) for step in trajectory.steps]


# --- SWE-agent ------------------------------------------------------------------------------------------------------


def test_swe_agent(tmp_path):
    path = listed(tmp_path / "a.traj", swe_record())
    (trajectory,), report = read(path)
    before = "[system] You edit code.\n[assistant] a demonstration\n[user] ISSUE: it fails."
    assert shape(trajectory) == [(before, "Look.\n```\nls\n```", None), ("a.py\n", "Done.\nsubmit", None)]
    assert (trajectory.id, trajectory.group, trajectory.outcome) == ("repo__issue-1", "repo__issue-1", None)
    assert trajectory.steps[-1].terminated
    assert trajectory.steps[1].extra == {"action": "submit", "state": {"open_file": "n/a"}}
    assert trajectory.final_observation == "diff"
    assert report.notes["commands that the response does not hold: put behind it, the call was sampled otherwise"] == 1
    assert report.notes["reward missing: not scored, which is not 0"] == 1


@pytest.mark.parametrize(
    ("status", "flags"),
    [
        ("submitted", (True, False, False)),
        ("submitted (exit_cost)", (False, True, False)),
        ("exit_context", (False, True, False)),
        ("exit_environment_error", (False, False, True)),
        (None, (False, False, False)),
    ],
)
def test_how_a_run_of_swe_agent_ended(tmp_path, status, flags):
    last = one(tmp_path, swe_record(status=status))[0].steps[-1]
    assert (last.terminated, last.truncated, last.failed) == flags


def test_swe_agent_attempts_are_one_group_and_a_file_names_its_instance(tmp_path):
    tried = [{k: v for k, v in swe_record().items() if k in ("trajectory", "history", "info")} for _ in range(2)]
    path = listed(tmp_path / "django__1.traj", {"environment": "main", "attempts": tried, "info": {}})
    found, report = read(path)
    assert [(t.group, t.id) for t in found] == [("django__1", "django__1"), ("django__1", "django__1#2")]
    assert report.formats == ("swe-agent",)


def test_swe_agent_without_history_shows_the_query_and_else_says_that_nothing_is_known(tmp_path):
    record = {**swe_record(), "history": []}
    record["trajectory"][0]["query"] = [user("ISSUE")]
    assert one(tmp_path, record)[0].steps[0].observation == "[user] ISSUE"
    del record["trajectory"][0]["query"]
    trajectory, notes = one(tmp_path, record)
    assert trajectory.steps[0].observation is None
    assert notes["no history and no query: what came before the first step is unknown"] == 1


def test_swe_agents_states_after_silent_commands_differ(tmp_path):
    record = swe_record()
    record["trajectory"] = [{**record["trajectory"][0], "observation": "", "response": f"rm {k}"} for k in range(3)]
    states = [step.state for step in one(tmp_path, record)[0].steps]
    assert len(set(states)) == 3


def test_swe_agents_configuration_as_a_text(tmp_path):
    record = {**swe_record(), "replay_config": json.dumps({"problem_statement": {"id": "x__1"}})}
    assert one(tmp_path, record)[0].group == "x__1"


# --- tau2-bench -----------------------------------------------------------------------------------------------------


def test_tau2(tmp_path):
    found, report = read(listed(tmp_path / "results.json", tau2_record()))
    assert [(t.group, t.id, t.outcome) for t in found] == [
        ("airline/7", "7/0", 0.0),
        ("airline/7", "7/1", 1.0),
        ("airline/8", "8/0", 0.0),
        ("airline/8", "8/1", 1.0),
    ]
    first = found[0]
    assert [step.action for step in first.steps] == ["Hi!", 'cancel({"id": "7"})', "Cancelled."]
    assert first.steps[2].observation == "[tool cancel] cancelled"
    assert first.steps[-1].terminated
    assert first.final_observation == "[user] ###STOP###"
    assert found[1].outcomes == {"DB": 1.0, "COMMUNICATE": 1.0}
    assert json.loads(first.reference) == {"actions": [{"name": "cancel"}]}
    assert not any("###" in step.action for step in first.steps)
    assert report.formats == ("tau2-bench",)


def test_parts_of_a_reward_that_are_no_numbers_are_left_out(tmp_path):
    record = tau2_record()["simulations"][0]
    record["reward_info"]["reward_breakdown"] = {"DB": 1.0, "NL": float("nan"), "ENV": None, "A-B": 10**30, "C D": True}
    trajectory, notes = one(tmp_path, record)
    assert trajectory.outcomes == {"DB": 1.0, "C_D": 1.0}
    assert notes["parts of the reward that are no numbers: left out of outcomes"] == 3


def test_the_greeting_of_tau2_was_not_sampled(tmp_path):
    record = tau2_record()
    record["simulations"] = record["simulations"][:1]
    record["simulations"][0]["messages"][0]["content"] = "Hi! How can I help you today?"
    trajectory, notes = one(tmp_path, record)
    assert trajectory.steps[0].observation == "[assistant] Hi! How can I help you today?\n[user] Cancel 7."
    assert notes["the agent's greeting, a fixed text: context, not sampled"] == 1


@pytest.mark.parametrize(
    ("reason", "outcome", "flags"),
    [
        ("user_stop", 0.0, (True, False, False)),
        ("max_steps", 0.0, (False, True, False)),
        ("infrastructure_error", None, (False, False, True)),
        ("user_error", None, (False, False, True)),
        ("agent_error", 0.0, (True, False, False)),
    ],
)
def test_how_a_simulation_of_tau2_ended(tmp_path, reason, outcome, flags):
    record = tau2_record()["simulations"][0] | {"termination_reason": reason}
    trajectory, _ = one(tmp_path, record)
    last = trajectory.steps[-1]
    assert trajectory.outcome == outcome
    assert (last.terminated, last.truncated, last.failed) == flags
    assert trajectory.group == "7"


def test_what_the_customer_of_tau2_calls_is_observed(tmp_path):
    record = tau2_record()["simulations"][0]
    record["messages"][1:2] = [
        {"role": "user", "content": None, "tool_calls": [{"id": "u1", "name": "reboot", "requestor": "user"}]},
        {"role": "tool", "tool_messages": [{"id": "u1", "role": "tool", "content": "on", "requestor": "user"}]},
        {"role": "user", "content": "It is on.", "tool_calls": None},
    ]
    trajectory, _ = one(tmp_path, record)
    assert trajectory.steps[1].observation == "[user] (calls reboot)\n[tool of the user] on\n[user] It is on."
    assert not any("reboot" in step.action for step in trajectory.steps)


def test_tau2_by_voice_and_an_index_are_refused(tmp_path):
    voice = tau2_record()["simulations"][0] | {"messages": None, "ticks": []}
    with pytest.raises(FormatError, match="a simulation by voice, which has ticks and no messages"):
        one(tmp_path, voice)
    index = {**tau2_record(), "simulations": [], "simulation_index": [{"id": "7-0"}]}
    with pytest.raises(FormatError, match="an index; the simulations lie in the folder beside it, so read that folder"):
        one(tmp_path, index)
    with pytest.raises(FormatError, match="no rollout in it"):
        one(tmp_path, {**tau2_record(), "simulations": []})


# --- ATIF -----------------------------------------------------------------------------------------------------------


def test_atif(tmp_path):
    trajectory, notes = one(tmp_path, atif_record())
    assert shape(trajectory) == [
        (
            "[system] You use a shell.\n[user] List the files.",
            '<think>ls does it</think>\nI list them.\nbash({"cmd": "ls"})',
            "terminus",
        ),
        ("[tool bash] a.txt", "There is a.txt.", "terminus"),
    ]
    first, second = trajectory.steps
    assert (first.prompt_ids.tolist(), first.ids.tolist(), first.logp.tolist()) == ([1, 2, 3], [4, 5], [-0.1, -0.2])
    assert (second.prompt_ids.tolist(), second.ids.tolist(), second.fresh) == ([6], [7], False)
    assert (trajectory.id, trajectory.group, trajectory.outcome) == ("s1", None, None)
    assert notes["reward missing: not scored, which is not 0"] == 1


def test_the_reward_of_atif_lies_in_harbors_result(tmp_path):
    agent = tmp_path / "trial" / "agent"
    agent.mkdir(parents=True)
    path = listed(agent / "trajectory.json", atif_record(), indent=2)
    result = {
        "task_name": "hello",
        "trial_name": "hello__1",
        "verifier_result": {"rewards": {"reward": 1.0, "speed": 0.5}},
    }
    (tmp_path / "trial" / "result.json").write_text(json.dumps(result))
    (trajectory,), report = read(path)
    assert (trajectory.group, trajectory.id, trajectory.outcome) == ("hello", "hello__1", 1.0)
    assert trajectory.outcomes == {"reward": 1.0, "speed": 0.5}
    assert report.notes["reward from verifier_result in result.json"] == 1
    (tmp_path / "trial" / "result.json").write_text("{broken")
    assert read(path)[0][0].outcome is None


def test_copied_context_of_atif_is_context(tmp_path):
    record = atif_record()
    record["steps"][2]["is_copied_context"] = True
    trajectory, _ = one(tmp_path, record)
    assert [step.action for step in trajectory.steps] == ["There is a.txt."]
    assert trajectory.steps[0].ids.tolist() == [7]


def test_a_step_of_atif_from_nobody_is_refused(tmp_path):
    record = atif_record()
    record["steps"][2]["source"] = "robot"
    with pytest.raises(FormatError, match="line 1, step 2: source is 'robot'; give agent, user or system"):
        one(tmp_path, record)


# --- AgentBench -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "outcome", "flags"),
    [
        ({"status": "completed", "result": {"result": True}}, 1.0, (True, False, False)),
        ({"status": "completed", "result": {"reward": 0.25}}, 0.25, (True, False, False)),
        ({"status": "completed", "result": {"answer": "x"}}, None, (True, False, False)),
        ({"status": "task limit reached", "result": {"result": False}}, 0.0, (False, True, False)),
        ({"status": "task error", "result": None}, None, (False, False, True)),
    ],
)
def test_agentbench(tmp_path, output, outcome, flags):
    history = [{"role": "user", "content": "count"}, {"role": "agent", "content": "answer(3)"}]
    trajectory, _ = one(tmp_path, {"index": 5, "error": None, "output": {**output, "history": history}})
    last = trajectory.steps[-1]
    assert (trajectory.group, trajectory.id, trajectory.outcome) == ("5", "5", outcome)
    assert (last.terminated, last.truncated, last.failed) == flags
    assert shape(trajectory) == [("[user] count", "answer(3)", None)]


# --- texts ----------------------------------------------------------------------------------------------------------


def test_a_trace_behind_a_prompt_sign(tmp_path):
    record = {"task_id": "g", "problem": "You see a desk 1.", "trace": GAME, "reward": True}
    trajectory, _ = one(tmp_path, record)
    assert shape(trajectory) == [
        ("You see a desk 1.", "think: I look.", None),
        ("OK.", "go to desk 1", None),
        ("On the desk 1, you see a mug 1.", "take mug 1", None),
        ("You take it.", "go to bed 1", None),
    ]
    assert [step.fresh for step in trajectory.steps] == [False, False, False, True]
    assert trajectory.steps[1].state == "You see a desk 1."  # a thought leaves the world as it was
    assert (trajectory.final_observation, trajectory.outcome) == ("A bed.", 1.0)


def test_a_react_text(tmp_path):
    text = (
        "Question: Who?\nThought 1: I search.\nAction 1: Search[x]\nObservation 1: Found y.\n"
        "Thought 2: So y.\nAction 2: Finish[y]\nObservation 2: Episode finished\n"
    )
    trajectory, _ = one(tmp_path, {"id": "q", "trajectory": text, "reward": 1})
    assert shape(trajectory) == [
        ("Question: Who?", "Thought 1: I search.\nAction 1: Search[x]", None),
        ("Found y.", "Thought 2: So y.\nAction 2: Finish[y]", None),
    ]
    assert trajectory.final_observation == "Episode finished"


def test_a_corpus_of_texts_is_no_trace(tmp_path):
    with pytest.raises(FormatError, match="no format fits"):
        detect(lines(tmp_path / "c.jsonl", [{"text": "> quoted\nAction: film\nObservation: none"}]))


def test_actions_in_a_row_are_steps_of_their_own(tmp_path):
    text = "Thought: hm\nAction: a\nAction: b\nObservation: seen\nThought: one\nThought: two\nAction: c"
    trajectory, _ = one(tmp_path, {"trajectory": text, "reward": 0})
    assert [step.action for step in trajectory.steps] == [
        "Thought: hm\nAction: a",
        "Action: b",
        "Thought: one\nThought: two\nAction: c",
    ]


def test_a_log_of_reflexion(tmp_path):
    path = tmp_path / "trial_0.log"
    path.write_text(REFLEXION + "\n#####\n\nEnvironment #2: Success\n\n#####\n")
    assert detect(path).format == "text-trace"
    found, report = read(path)
    assert [(t.id, t.group, t.outcome) for t in found] == [("0", "0", 1.0), ("1", "1", 0.0)]
    assert [step.action for step in found[0].steps] == ["think: hm", "look"]
    assert found[0].final_observation == "A desk."
    assert report.notes["environments that an earlier trial solved: not played again, left out"] == 1


def test_a_plain_text_with_prompt_signs_is_read_when_asked_for(tmp_path):
    path = tmp_path / "shell.txt"
    path.write_text("Welcome.\n> look\nA desk.\n")
    with pytest.raises(FormatError, match="the file is not JSON"):
        detect(path)
    (trajectory,), _ = read(path, "text-trace")
    assert shape(trajectory) == [("Welcome.", "look", None)]
    path.write_text("Thought: hm\nAction: look\nObservation: A desk.\n")
    assert detect(path).format == "text-trace"


def test_a_plain_text_without_an_action_is_none(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Nothing happened.\n")
    with pytest.raises(FormatError, match="the file is not JSON"):
        detect(path)
    with pytest.raises(FormatError, match="no action in this text; lines of them begin with > or with Action:"):
        read(path, "text-trace")


# --- Responses and Completions --------------------------------------------------------------------------------------


def test_items_of_one_call_are_one_turn(tmp_path):
    record = {"object": "response", "input": "Go.", "output": [*response_items(1), *response_items(2)], "reward": 1}
    trajectory, _ = one(tmp_path, record)
    assert shape(trajectory) == [
        ("[user] Go.", '<think>look 1 up</think>\nlook_up({"id": 1})', None),
        ('[tool look_up] {"row": 1}', "The answer is 1.", None),
        (None, '<think>look 2 up</think>\nlook_up({"id": 2})', None),
        ('[tool look_up] {"row": 2}', "The answer is 2.", None),
    ]


def test_two_calls_of_one_answer_are_two_steps_of_one_turn(tmp_path):
    calls = [item("function_call", call_id=f"c{k}", name="f", arguments="{}") for k in range(2)]
    answers = [item("function_call_output", call_id=f"c{k}", output=f"r{k}") for k in range(2)]
    trajectory, _ = one(tmp_path, {"output": [output_text("Both."), *calls, *answers, output_text("Done.")]})
    assert [(step.action, step.turn) for step in trajectory.steps] == [("Both.\nf({})", 0), ("f({})", 0), ("Done.", 1)]
    assert trajectory.steps[2].observation == "[tool f] r0\n[tool f] r1"


def test_answers_in_a_row_are_turns_of_their_own(tmp_path):
    thought = item("reasoning", summary=[{"type": "summary_text", "text": "hm"}])
    output = [output_text("a"), output_text("b"), thought, thought, output_text("c"), thought, output_text("d")]
    trajectory, _ = one(tmp_path, {"output": output})
    actions = [(step.action, step.turn) for step in trajectory.steps]
    assert actions == [("a", 0), ("b", 1), ("<think>hm\nhm</think>\nc", 2), ("<think>hm</think>\nd", 3)]


def test_hosted_tools_encrypted_reasoning_and_what_else_a_response_holds(tmp_path):
    output = [
        item("reasoning", summary=[], encrypted_content="gAAAA"),
        item("web_search_call", id="ws", action={"type": "search", "query": "cats"}, status="completed"),
        item("code_interpreter_call", id="ci", code="1+1", outputs=[{"type": "logs", "logs": "2"}]),
        item("computer_call", call_id="cc", action={"type": "click", "x": 1}),
        item(
            "computer_call_output",
            call_id="cc",
            output={"type": "computer_screenshot", "image_url": "https://a.b/c.png"},
        ),
        item("mcp_list_tools", tools=[]),
        output_text("Two.", status="incomplete"),
    ]
    record = {"output": output, "instructions": "Be short.", "input": [{"role": "user", "content": "1+1?"}]}
    trajectory, notes = one(tmp_path, record)
    actions = [step.action for step in trajectory.steps]
    assert actions == [
        'web_search({"action": {"type": "search", "query": "cats"}})',
        'code_interpreter({"code": "1+1"})',
        'computer({"action": {"type": "click", "x": 1}})',
        "Two.",
    ]
    assert trajectory.steps[0].observation == "[system] Be short.\n[user] 1+1?"
    assert "[image https://a.b/c.png]" in trajectory.steps[3].observation
    assert trajectory.steps[-1].truncated
    assert notes["reasoning that is encrypted or not logged: left out"] == 1
    assert notes["items of type 'mcp_list_tools' left out"] == 1


def test_a_response_whose_history_is_elsewhere_says_so(tmp_path):
    _, notes = one(tmp_path, {"output": [output_text("a")], "previous_response_id": "resp_0"})
    assert notes["responses whose history is behind previous_response_id: not in the file"] == 1


def test_choices_are_one_group(tmp_path):
    choices = [{"message": said(text), "finish_reason": reason} for text, reason in (("a", "stop"), ("b", "length"))]
    record = {"request": {"messages": [user("q")]}, "response": {"id": "r1", "choices": choices}}
    found, _ = read(lines(tmp_path / "c.jsonl", [record]))
    assert [(t.group, t.id) for t in found] == [("r1", "r1/0"), ("r1", "r1/1")]
    assert [shape(t) for t in found] == [[("[user] q", "a", None)], [("[user] q", "b", None)]]
    assert [t.steps[0].truncated for t in found] == [False, True]


def test_ids_of_a_completion_are_kept(tmp_path):
    told = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]}
    choice = {"message": said("ab"), "finish_reason": "stop", "token_ids": [7, 8], "logprobs": told}
    record = {"custom_id": "c", "response": {"body": {"choices": [choice], "prompt_token_ids": [1, 2]}}}
    step = one(tmp_path, record)[0].steps[0]
    assert (step.prompt_ids.tolist(), step.ids.tolist(), step.logp.tolist()) == ([1, 2], [7, 8], [-0.5, -0.25])


def test_anthropics_blocks(tmp_path):
    chat = [
        user([{"type": "text", "text": "List."}]),
        said(
            [
                {"type": "thinking", "thinking": "ls", "signature": "x"},
                {"type": "text", "text": "I list."},
                {"type": "tool_use", "id": "t1", "name": "bash", "input": {"cmd": "ls"}},
            ]
        ),
        user([{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a.txt"}]}]),
        said([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}]),
    ]
    trajectory, _ = one(tmp_path, {"messages": chat, "reward": 1})
    assert trajectory.steps[0].action == '<think>ls</think>\nI list.\nbash({"cmd": "ls"})'
    assert trajectory.steps[1].observation == "[tool bash] a.txt"
    assert trajectory.steps[1].action.startswith("[image data:image/png;base64 #")


def test_an_image_written_into_a_field_is_a_digest(tmp_path):
    one_image, other = ({"type": "image", "image": "iVBO" + letter * 5000} for letter in "ab")
    chat = [user([one_image]), said("a"), user([other]), said("b")]
    first, second = (step.observation for step in one(tmp_path, {"messages": chat, "reward": 1})[0].steps)
    assert len(first) < 100
    assert first.partition("#")[2] != second.partition("#")[2]


def test_chats_under_the_names_of_other_things(tmp_path):
    for name in ("conversations", "trajectory", "history", "turns"):
        record = {name: [user("q"), said("a")], "reward": 1}
        assert shape(one(tmp_path, record, "openai-chat")[0]) == [("[user] q", "a", None)]
        assert detect(lines(tmp_path / "x.jsonl", [record])).format == "openai-chat"


# --- spans ----------------------------------------------------------------------------------------------------------


def spans(record):
    return record["resourceSpans"][0]["scopeSpans"][0]["spans"]


def test_spans_of_one_trace_are_one_rollout_in_time_order(tmp_path):
    trajectory, notes = one(tmp_path, otlp_record())
    assert shape(trajectory) == [
        ("[user] List the files.", 'ls({"path": "."})', "lister"),
        ("[tool ls] a.txt", "a.txt", "lister"),
    ]
    assert (trajectory.id, trajectory.outcome) == ("t1", None)
    assert not any(step.fresh for step in trajectory.steps)
    assert notes["reward missing: not scored, which is not 0"] == 1


def test_spans_may_be_spread_over_lines_and_traces_mixed(tmp_path):
    first, second = otlp_record(), otlp_record()
    for span in spans(second):
        span["traceId"] = "t2"
    exports = []
    for k in range(4):
        for record in (first, second):
            exports.append({"resourceSpans": [{"scopeSpans": [{"spans": [spans(record)[k]]}]}]})
    found, report = read(lines(tmp_path / "spans.jsonl", exports))
    assert [t.id for t in found] == ["t1", "t2"]
    assert [len(t.steps) for t in found] == [2, 2]
    assert report.records == 2


def test_a_rewritten_history_is_told_whole(tmp_path):
    record = otlp_record()
    later = next(span for span in spans(record) if span["name"] == "two")
    rewritten = [{"role": "user", "parts": [{"type": "text", "content": "Summary: files were listed."}]}]
    later["attributes"][1] = attribute("gen_ai.input.messages", rewritten)
    trajectory, notes = one(tmp_path, record)
    assert [step.fresh for step in trajectory.steps] == [False, True]
    assert trajectory.steps[1].observation == "[user] Summary: files were listed."
    assert notes["histories that do not extend what the agent saw before: told whole, fresh"] == 1


def test_what_the_last_tool_returned_is_the_final_observation(tmp_path):
    record = otlp_record()
    last = next(span for span in spans(record) if span["name"] == "tool")
    last["attributes"].append(attribute("gen_ai.tool.call.result", "b.txt"))
    assert one(tmp_path, record)[0].final_observation is None  # a later call shows it
    last["startTimeUnixNano"] = "9"
    assert one(tmp_path, record)[0].final_observation == "[tool ls] b.txt"


def test_evaluations_are_the_outcome(tmp_path):
    record = otlp_record()
    score = {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.75}}
    event = {
        "name": "gen_ai.evaluation.result",
        "attributes": [attribute("gen_ai.evaluation.name", "Relevance"), score],
    }
    spans(record)[1]["events"] = [event]
    assert one(tmp_path, record)[0].outcome == 0.75
    other = {"name": event["name"], "attributes": [attribute("gen_ai.evaluation.name", "is-safe"), score]}
    spans(record)[1]["events"] = [event, other]
    trajectory, _ = one(tmp_path, record)
    assert (trajectory.outcome, trajectory.outcomes) == (None, {"Relevance": 0.75, "is_safe": 0.75})


def test_content_that_was_not_captured_is_told(tmp_path):
    record = otlp_record()
    for span in spans(record):
        span["attributes"] = [a for a in span["attributes"] if not a["key"].endswith("messages")]
    with pytest.raises(FormatError, match="trace t1: no message content: it was not captured; turn content capture on"):
        one(tmp_path, record)


def test_an_agent_logged_from_outside_alone_is_a_turn(tmp_path):
    record = otlp_record()
    outside = spans(record)[0]
    outside["attributes"] += [
        attribute("gen_ai.input.messages", "hello?"),
        attribute("gen_ai.output.messages", "hi there"),
    ]
    record["resourceSpans"][0]["scopeSpans"][0]["spans"] = [outside]
    trajectory, notes = one(tmp_path, record)
    assert shape(trajectory) == [("[user] hello?", "hi there", "lister")]
    assert notes["agents logged without their calls of models: one turn per invocation"] == 1


DIALECTS = {
    "numbered": {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "List.",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "ok",
        "gen_ai.completion.0.tool_calls.0.name": "ls",
        "gen_ai.completion.0.tool_calls.0.arguments": "{}",
        "llm.request.type": "chat",
    },
    "texts": {"gen_ai.operation.name": "chat", "gen_ai.prompt": "List.", "gen_ai.completion": "ok"},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_older_conventions_on_the_consoles_spans(tmp_path, dialect):
    span = {
        "name": "chat m",
        "context": {"trace_id": "0xabc", "span_id": "0x1"},
        "parent_id": None,
        "start_time": "2025-01-01T00:00:00Z",
        "attributes": DIALECTS[dialect],
        "events": [],
    }
    trajectory, _ = one(tmp_path, span)
    action = "ok\nls({})" if dialect == "numbered" else "ok"
    assert shape(trajectory) == [("[user] List.", action, None)]
    assert trajectory.id == "abc"


def test_messages_as_events(tmp_path):
    span = {
        "name": "chat",
        "context": {"trace_id": "0xabc", "span_id": "0x1"},
        "parent_id": None,
        "start_time": "2025-01-01T00:00:00Z",
        "attributes": {"gen_ai.operation.name": "chat"},
        "events": [
            {"name": "gen_ai.system.message", "attributes": {"content": "Be kind."}},
            {"name": "gen_ai.user.message", "attributes": {"content": "List."}},
            {"name": "gen_ai.tool.message", "attributes": {"content": "a.txt", "id": "c1"}},
            {
                "name": "gen_ai.choice",
                "attributes": {"finish_reason": "stop", "message": json.dumps(said("ok", call("ls", "{}")))},
            },
        ],
    }
    seen = "[system] Be kind.\n[user] List.\n[tool] a.txt"
    assert shape(one(tmp_path, span)[0]) == [(seen, "ok\nls({})", None)]
