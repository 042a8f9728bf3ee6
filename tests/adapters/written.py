"""A small file of every format, as its programs write it: what the shared tests of all readers run on.

`WRITTEN` names each registered format but our own; a test fails when one is missing. Values are written one a line, as
one list, or run together, so a reader is tried in every layout.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.adapters.foreign import call, chat_records, said, system, tau_records, tool, user, wordle_records


class Written(NamedTuple):
    """Values of a file, and how many rollouts are in them; `text` is a file that is no JSON."""

    values: list[Any]
    rollouts: int
    text: str = ""


def item(what: str, **fields: Any) -> dict[str, Any]:
    """An item of the Responses interface."""
    return {"type": what, **fields}


def output_text(text: str, **fields: Any) -> dict[str, Any]:
    return item(
        "message", role="assistant", content=[{"type": "output_text", "text": text, "annotations": []}], **fields
    )


def response_items(n: int) -> list[dict[str, Any]]:
    return [
        item("reasoning", id="rs", summary=[{"type": "summary_text", "text": f"look {n} up"}]),
        item("function_call", call_id="c1", name="look_up", arguments=f'{{"id": {n}}}', status="completed"),
        item("function_call_output", call_id="c1", output=f'{{"row": {n}}}'),
        output_text(f"The answer is {n}.", status="completed"),
    ]


def nemo_records() -> list[dict[str, Any]]:
    return [
        {
            "responses_create_params": {"input": [{"role": "user", "content": f"task {task}"}], "tools": []},
            "response": {"id": "resp", "output": response_items(task), "model": "m"},
            "reward": float(rollout),
            "terminated": True,
            "truncated": False,
            "expected_answer": str(task),
            "_ng_task_index": task,
            "_ng_rollout_index": rollout,
            "agent_ref": {"type": "responses_api_agents", "name": "simple"},
        }
        for task in range(2)
        for rollout in range(2)
    ]


def sharegpt_records() -> list[dict[str, Any]]:
    return [
        {
            "conversations": [
                {"from": "human", "value": f"find {n}"},
                {"from": "function_call", "value": json.dumps({"name": "find", "arguments": {"n": n}})},
                {"from": "observation", "value": f"found {n}"},
                {"from": "gpt", "value": "Here it is."},
            ],
            "system": "Be kind.",
            "tools": json.dumps([{"name": "find", "parameters": {}}]),
            "id": f"s{n}",
        }
        for n in range(3)
    ]


def hh_records() -> list[dict[str, Any]]:
    shared = "\n\nHuman: Hi\n\nAssistant: Hello.\n\nHuman: Name a colour."
    return [
        {"chosen": f"{shared}\n\nAssistant: Red {n}.", "rejected": f"{shared}\n\nAssistant: No {n}."} for n in range(3)
    ]


def swe_record(instance: str = "repo__issue-1", status: str = "submitted") -> dict[str, Any]:
    return {
        "environment": "main",
        "trajectory": [
            {
                "action": "ls\n",
                "observation": "a.py\n",
                "response": "Look.\n```\nls\n```",
                "thought": "Look.\n",
                "state": "{}",
            },
            {
                "action": "submit",
                "observation": "diff",
                "response": "Done.",
                "thought": "Done.",
                "state": {"open_file": "n/a"},
            },
        ],
        "history": [
            {"role": "system", "content": "You edit code.", "agent": "main", "message_type": "system_prompt"},
            {"role": "assistant", "content": "a demonstration", "is_demo": True},
            {"role": "user", "content": "ISSUE: it fails.", "agent": "main"},
            {"role": "assistant", "content": "Look.", "action": "ls\n"},
        ],
        "info": {"exit_status": status, "submission": "diff", "model_stats": {"api_calls": 2}},
        "replay_config": {"problem_statement": {"id": instance}},
    }


def tau2_record() -> dict[str, Any]:
    def simulation(task: str, trial: int) -> dict[str, Any]:
        return {
            "id": f"{task}-{trial}",
            "task_id": task,
            "trial": trial,
            "start_time": "2025-06-01T00:00:00",
            "termination_reason": "user_stop",
            "reward_info": {"reward": float(trial), "reward_breakdown": {"DB": 1.0, "COMMUNICATE": float(trial)}},
            "messages": [
                {"role": "assistant", "content": "Hi!", "tool_calls": None, "turn_idx": 0},
                {"role": "user", "content": f"Cancel {task}.", "turn_idx": 1},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c1", "name": "cancel", "arguments": {"id": task}, "requestor": "assistant"}],
                },
                {"id": "c1", "role": "tool", "content": "cancelled", "requestor": "assistant", "error": False},
                {"role": "assistant", "content": "Cancelled."},
                {"role": "user", "content": "###STOP###"},
            ],
        }

    return {
        "timestamp": "2025-06-01T00:00:00",
        "info": {"num_trials": 2, "environment_info": {"domain_name": "airline"}},
        "tasks": [{"id": task, "evaluation_criteria": {"actions": [{"name": "cancel"}]}} for task in "78"],
        "simulations": [simulation(task, trial) for task in "78" for trial in range(2)],
    }


def node(role: str, text: str, parent: int | None, ids: list[int], own: bool = False) -> dict[str, Any]:
    """A node of a verifiers trace; the first token of a sampled one is template."""
    mask = [own and k > 0 for k in range(len(ids))]
    return {
        "parent": parent,
        "message": {"role": role, "content": text},
        "sampled": own,
        "token_ids": ids,
        "mask": mask,
        "logprobs": [-0.5] * sum(mask),
    }


def trace_record(n: int = 0) -> dict[str, Any]:
    """A rollout that forks: the second and the third answer both follow the first."""
    return {
        "version": 1,
        "id": f"trace{n}",
        "task": {"type": "T", "key": "t1", "data": {"prompt": "go", "answer": "42"}},
        "agent": {"name": "solver", "config": {}},
        "nodes": [
            node("system", "Play.", None, [1, 2]),
            node("user", "Go.", 0, [3]),
            node("assistant", "left", 1, [4, 5, 6], own=True),
            node("user", "a wall", 2, [7]),
            node("assistant", "right", 3, [8, 9], own=True),
            node("user", "a hole", 2, [10]),
            node("assistant", "up", 5, [11, 12, 13], own=True),
        ],
        "rewards": {"correct": {"score": float(n), "weight": 1.0}, "short": {"score": 0.5, "weight": 0.2}},
        "metrics": {"turns": 3.0},
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
        "errors": [],
    }


def atif_record(session: str = "s1") -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.4",
        "session_id": session,
        "agent": {"name": "terminus", "version": "2", "model_name": "m"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "You use a shell."},
            {"step_id": 2, "source": "user", "message": "List the files."},
            {
                "step_id": 3,
                "source": "agent",
                "message": "I list them.",
                "reasoning_content": "ls does it",
                "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}],
                "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
                "metrics": {"prompt_token_ids": [1, 2, 3], "completion_token_ids": [4, 5], "logprobs": [-0.1, -0.2]},
            },
            {
                "step_id": 4,
                "source": "agent",
                "message": "There is a.txt.",
                "metrics": {"prompt_token_ids": [1, 2, 3, 4, 5, 6], "completion_token_ids": [7], "logprobs": [-0.3]},
            },
        ],
        "final_metrics": {"total_steps": 4},
    }


def rllm_record(n: int = 0) -> dict[str, Any]:
    first = [user(f"task {n}"), said("left")]
    second = [*first, user("a wall"), said("right")]
    return {
        "id": f"task{n // 2}:{n % 2}",
        "task": {"question": f"task {n // 2}"},
        "termination_reason": "env_done",
        "is_correct": bool(n % 2),
        "trajectories": [
            {
                "uid": f"u{n}",
                "name": "solver",
                "reward": float(n % 2),
                "steps": [
                    {
                        "prompt_ids": [1, 2],
                        "response_ids": [3],
                        "logprobs": [-0.1],
                        "chat_completions": first,
                        "model_response": "left",
                        "reward": 0.0,
                        "done": False,
                    },
                    {
                        "prompt_ids": [1, 2, 3, 4],
                        "response_ids": [5, 6],
                        "logprobs": [-0.2, -0.3],
                        "chat_completions": second,
                        "model_response": "right",
                        "reward": float(n % 2),
                        "done": True,
                    },
                ],
            }
        ],
        "metrics": {},
    }


def trl_rows() -> list[dict[str, Any]]:
    return [
        {
            "step": 3,
            "prompt": f"prompt {k // 2}",
            "completion": f"answer {k}",
            "accuracy_reward": float(k % 2),
            "format_reward": 1.0,
            "advantage": 0.5,
        }
        for k in range(4)
    ]


def verl_rows() -> list[dict[str, Any]]:
    return [
        {
            "input": f"user\nq{k // 2}\n",
            "output": f"a{k}",
            "gts": "42",
            "score": float(k % 2),
            "step": 7,
            "acc": k % 2 == 1,
        }
        for k in range(4)
    ]


def agentbench_records() -> list[dict[str, Any]]:
    return [
        {
            "index": k,
            "error": None,
            "info": None,
            "output": {
                "index": k,
                "status": "completed",
                "result": {"result": bool(k)},
                "history": [
                    {"role": "user", "content": "You use a shell."},
                    {"role": "agent", "content": "OK."},
                    {"role": "user", "content": f"count {k}"},
                    {"role": "agent", "content": f"answer({k})"},
                ],
            },
            "time": {"timestamp": 1, "str": ""},
        }
        for k in range(3)
    ]


GAME = (
    " think: I look.\nOK.\n> go to desk 1\nOn the desk 1, you see a mug 1.\n> take mug 1\nYou take it.\n>\n\n"
    " go to bed 1\nA bed.\n>\n\n"
)


def adapt_record() -> dict[str, Any]:
    return {
        "pick": {
            "trial_1": {"problem": "You see a desk 1.", "trace": GAME, "plans": ["take"], "reward": True},
            "trial_2": {"problem": "You see a bed 1.", "trace": "", "plans": [], "reward": 0},
        },
        "look": {"trial_3": {"problem": "You see a lamp 1.", "trace": GAME, "plans": [], "reward": False}},
        "overall": {"rate": 0.5, "success": [1]},
    }


REFLEXION = (
    "\n#####\n\nEnvironment #0:\nYou are in a room.\n> think: hm\nOK.\n> look\nA desk.\n\nSTATUS: OK\n\n#####\n"
    "\n#####\n\nEnvironment #1:\nYou are in a hall.\n> look\nNothing.\n\nSTATUS: FAIL\n\n#####\n"
)


def tot_records() -> list[dict[str, Any]]:
    ys = ["4 + 5 = 9\n9 + 6 = 15\n", "4 + 5 = 9\n9 - 6 = 3\n"]
    return [
        {
            "idx": idx,
            "steps": [
                {
                    "step": 0,
                    "x": "4 5 6",
                    "ys": [""],
                    "new_ys": ["4 + 5 = 9\n", "4 - 5 = -1\n"],
                    "values": [3.0, 0.1],
                    "select_new_ys": ["4 + 5 = 9\n"],
                },
                {"step": 1, "x": "4 5 6", "ys": ["4 + 5 = 9\n"], "new_ys": ys, "values": [1, 2.0], "select_new_ys": ys},
            ],
            "ys": ys,
            "infos": [{"r": 1, "r_word": 0.5}, {"r": 0, "r_word": 0.0}],
            "usage_so_far": {"cost": 0.1},
        }
        for idx in (900, 901)
    ]


def mistake_records() -> list[dict[str, Any]]:
    return [
        {
            "input": "1 + 2 * 3 =",
            "steps": ["2 * 3 = 6", "1 + 6 = 8", "So 8"],
            "target": "7",
            "answer": "8",
            "mistake_index": 1,
        },
        {"input": "2 + 2 =", "steps": ["2 + 2 = 4"], "target": "4", "answer": " 4", "mistake_index": None},
    ]


def failure_record() -> dict[str, Any]:
    return {
        "question": "How many clients?",
        "question_ID": "q1",
        "ground_truth": "8",
        "is_correct": False,
        "history": [
            {"content": "I read the file.", "role": "assistant", "name": "Excel_Expert"},
            {"content": "exitcode: 0", "role": "user", "name": "Computer_terminal"},
            {"content": "It is 4.", "role": "user", "name": "Checker"},
        ],
        "mistake_agent": "Checker",
        "mistake_step": "2",
        "mistake_reason": "did not count all",
    }


def attribute(name: str, value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value)
    return {"key": name, "value": {"stringValue": text}}


def otlp_record() -> dict[str, Any]:
    """Two calls of one agent and the tool between them, in one trace."""

    def part(text: str) -> list[dict[str, Any]]:
        return [{"type": "text", "content": text}]

    asked = [{"role": "user", "parts": part("List the files.")}]
    called = {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "."}}],
    }
    answered = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "a.txt"}]}

    def span(name: str, at: int, parent: str, *attributes: dict[str, Any]) -> dict[str, Any]:
        return {
            "traceId": "t1",
            "spanId": name,
            "parentSpanId": parent,
            "name": name,
            "startTimeUnixNano": str(at),
            "attributes": list(attributes),
        }

    spans = [
        span(
            "run", 1, "", attribute("gen_ai.operation.name", "invoke_agent"), attribute("gen_ai.agent.name", "lister")
        ),
        span(
            "two",
            4,
            "run",
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.input.messages", [*asked, called, answered]),
            attribute(
                "gen_ai.output.messages", [{"role": "assistant", "parts": part("a.txt"), "finish_reason": "stop"}]
            ),
        ),
        span(
            "one",
            2,
            "run",
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.input.messages", asked),
            attribute("gen_ai.output.messages", [called]),
        ),
        span("tool", 3, "run", attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "ls")),
    ]
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


def completion_records() -> list[dict[str, Any]]:
    return [
        {
            "request": {"model": "m", "messages": [system("Be kind."), user(f"q{k}")], "n": 2},
            "response": {
                "id": f"chatcmpl-{k}",
                "object": "chat.completion",
                "choices": [
                    {"index": 0, "message": said("a"), "finish_reason": "stop"},
                    {"index": 1, "message": said(None, call("f", "{}")), "finish_reason": "length"},
                ],
            },
            "reward": 1.0,
        }
        for k in range(2)
    ]


def solution_records() -> list[dict[str, Any]]:
    return [
        {
            "question": "How many?",
            "ground_truth": "A: 8",
            "small": {"is_correct": False, "solution": "It is 7.\nA: 7"},
            "large": {"is_correct": True, "solution": "It is 8.\nA: 8"},
        }
        for _ in range(2)
    ]


WRITTEN = {
    "agentbench": Written(agentbench_records(), 3),
    "atif": Written([atif_record("s1"), atif_record("s2")], 2),
    "failures": Written([failure_record(), {**failure_record(), "question_ID": "q2"}], 2),
    "mistakes": Written(mistake_records(), 2),
    "nemo-gym": Written(nemo_records(), 4),
    "openai-chat": Written(chat_records(), 3),
    "openai-completions": Written(completion_records(), 4),
    "openai-responses": Written(
        [{"id": f"resp_{n}", "object": "response", "input": "Go.", "output": response_items(n)} for n in range(2)], 2
    ),
    "otel-genai": Written([otlp_record()], 1),
    "preferences": Written(hh_records(), 6),
    "rllm": Written([rllm_record(n) for n in range(4)], 4),
    "sharegpt": Written(sharegpt_records(), 3),
    "solutions": Written(solution_records(), 4),
    "swe-agent": Written([swe_record(), swe_record("repo__issue-2", "submitted (exit_cost)")], 2),
    "tau-bench": Written(tau_records()[:3], 3),
    "tau2-bench": Written([tau2_record()], 4),
    "text-trace": Written([adapt_record()], 3, REFLEXION),
    "tree-of-thought": Written(tot_records(), 4),
    "trl": Written(trl_rows(), 4),
    "verifiers": Written(wordle_records()[:3], 3),
    "verifiers-v1": Written([trace_record(0), trace_record(1)], 2),
    "verl": Written(verl_rows(), 4),
}
__all__ = ["WRITTEN", "Written", "tool"]
