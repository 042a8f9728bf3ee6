"""What no line of the package may do with what comes from outside, read off the syntax tree.

`tests/test_architecture.py` holds the coarse rules (no eval, exec, pickle, shell, `torch.load` of whole objects); these
are the finer ones. Each has planted violations that it must find and lookalikes that it must leave alone.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "apportion"

# Folders that belong to somebody else's run, or to measurements of our own games, which hold nobody's data.
MAY_MAKE_OPEN_FOLDERS = ("adapters/verl/", "adapters/listening.py", "adapters/memory.py", "bench/")
# Programs of the package that start an interpreter on themselves.
MAY_START_PROGRAMS = ("envs/second_process.py", "bench/speed/")
UNPACKS = {"extractall", "extract", "unpack_archive"}
XML = ("xml.", "lxml", "defusedxml")


def name_of(node):
    if isinstance(node, ast.Name):
        return node.id
    return f"{name_of(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def given(call):
    return {k.arg: k.value for k in call.keywords}


def constant(node):
    return node.value if isinstance(node, ast.Constant) else None


def code_of_a_model_is_not_run(call, path):
    """A model's folder may name code of its own; the libraries ask at the terminal unless they are told."""
    name = name_of(call.func)
    if (
        name.endswith(".from_pretrained")
        and "Auto" in name
        and constant(given(call).get("trust_remote_code")) is not False
    ):
        return "loads a model or tokenizer without trust_remote_code=False"
    if constant(given(call).get("trust_remote_code")) is True:
        return "runs code that a model brings"
    return None


def weights_are_safetensors(call, path):
    """Older formats of weights are pickles. gguf is none."""
    told = given(call)
    name = name_of(call.func)
    if name.endswith(".from_pretrained") and "AutoModel" in name and "gguf_file" not in told:
        return None if constant(told.get("use_safetensors")) is True else "loads weights without use_safetensors=True"
    return None


def folders_are_private(call, path):
    """A run holds rollouts, which hold what people wrote."""
    name = name_of(call.func) or getattr(call.func, "attr", "")
    if name.split(".")[-1] in ("mkdir", "makedirs") and not path.startswith(MAY_MAKE_OPEN_FOLDERS):
        return None if constant(given(call).get("mode")) == 0o700 else "makes a folder that others can read; mode=0o700"
    return None


def programs_are_not_started(call, path):
    """No path from outside leads to a command line."""
    name = name_of(call.func)
    starts = name.startswith(("subprocess.", "os.exec", "os.spawn", "os.posix_spawn", "pty.")) or name == "os.startfile"
    return "starts a program" if starts and not path.startswith(MAY_START_PROGRAMS) else None


def archives_are_not_unpacked(call, path):
    """A name inside an archive may lead out of the folder that it is unpacked in."""
    return (
        "unpacks an archive"
        if name_of(call.func).split(".")[-1] in UNPACKS and not isinstance(call.func, ast.Name)
        else None
    )


def templates_escape(call, path):
    """jinja2's default does not."""
    name = name_of(call.func)
    if name.split(".")[-1] == "Environment" and constant(given(call).get("autoescape")) is not True:
        return "makes a template environment without autoescape"
    return "makes a template without autoescape" if name == "jinja2.Template" else None


def certificates_are_checked(call, path):
    """An https server that nobody checked may be anybody."""
    unchecked = constant(given(call).get("verify")) is False or name_of(call.func).endswith(
        "_create_unverified_context"
    )
    return "does not check a server's certificate" if unchecked else None


def temporary_names_are_made_with_their_files(call, path):
    """A name alone may be taken by somebody else before it is opened."""
    return "names a temporary file without making it" if name_of(call.func) == "tempfile.mktemp" else None


def servers_listen_on_loopback(call, path):
    """What listens on every address is open to the network."""
    texts = {constant(n) for n in ast.walk(call) if isinstance(n, ast.Constant)}
    return "listens on every address" if texts & {"0.0.0.0", "::"} and "Server" in name_of(call.func) else None


RULES = (
    code_of_a_model_is_not_run,
    weights_are_safetensors,
    folders_are_private,
    programs_are_not_started,
    archives_are_not_unpacked,
    templates_escape,
    certificates_are_checked,
    temporary_names_are_made_with_their_files,
    servers_listen_on_loopback,
)


@cache
def calls_of(package):
    """Every call of every file, with the file's name below the package."""
    out = []
    for file in sorted(package.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        out += [(file.relative_to(package).as_posix(), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return out


def broken(rule, package):
    return [f"{path}:{call.lineno} {said}" for path, call in calls_of(package) if (said := rule(call, path))]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule):
    assert broken(rule, PACKAGE) == []


def test_no_xml_is_read():
    """The parsers of the standard library unfold what they read: a kilobyte becomes gigabytes."""
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [f"{node.module}."] if isinstance(node, ast.ImportFrom) else []
            assert not any(f"{name}.".startswith(XML) for name in names), file


PLANTED = {
    code_of_a_model_is_not_run: ["AutoTokenizer.from_pretrained(x)", "f(x, trust_remote_code=True)"],
    weights_are_safetensors: ["transformers.AutoModel.from_pretrained(x, trust_remote_code=False)"],
    folders_are_private: ["p.mkdir()", "(a / b).mkdir(parents=True)", "os.makedirs(p)", "p.mkdir(mode=0o755)"],
    programs_are_not_started: ["subprocess.run(['ls'])", "os.execve(a, b, c)"],
    archives_are_not_unpacked: ["tar.extractall(p)", "shutil.unpack_archive(p)"],
    templates_escape: ["jinja2.Environment()", "Environment(autoescape=False)", "jinja2.Template(x)"],
    certificates_are_checked: ["httpx.Client(verify=False)", "ssl._create_unverified_context()"],
    temporary_names_are_made_with_their_files: ["tempfile.mktemp()"],
    servers_listen_on_loopback: ["ThreadingHTTPServer(('0.0.0.0', 8000), H)"],
}
LOOKALIKES = """
AutoModel.from_pretrained(x, use_safetensors=True, trust_remote_code=False)
AutoModelForCausalLM.from_pretrained(x, gguf_file=f, trust_remote_code=False)
p.mkdir(mode=0o700, parents=True)
Policy.from_pretrained(x)
extract(text)
jinja2.Environment(autoescape=True)
httpx.Client(verify=url.startswith("https:"))
tempfile.mkdtemp()
ReportServer(("127.0.0.1", 0), H)
Template(name="ours")
"""


@pytest.mark.parametrize(("rule", "line"), [(rule, line) for rule in RULES for line in PLANTED[rule]])
def test_the_rule_can_be_broken(tmp_path, rule, line):
    (tmp_path / "m.py").write_text(f"def f():\n    {line}\n")
    (said,) = broken(rule, tmp_path)
    assert said.startswith("m.py:2 ")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rule_leaves_lookalikes_alone(tmp_path, rule):
    (tmp_path / "m.py").write_text(LOOKALIKES)
    assert broken(rule, tmp_path) == []
