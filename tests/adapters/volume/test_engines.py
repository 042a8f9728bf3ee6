"""What the Ray engine makes of a cluster's answers, on a stand-in that keeps Ray's promises in one process."""

import sys
import types

import pytest

from apportion.adapters.volume import assign_files
from apportion.adapters.volume.engines import Local, engine_of
from apportion.errors import ConfigError, DataError, ResourceError
from tests.adapters.volume.folders import contents, folder_of, rollouts


class RayError(Exception):
    pass


class Reference:
    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments


class StandIn(types.ModuleType):
    """Tasks run when they are asked for; the last that was handed in is ready first."""

    def __init__(self, cpus=2, dies=()):
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=RayError)
        self.cpus, self.dies, self.started, self.most, self.waiting = cpus, dies, [], 0, 0

    def is_initialized(self):
        return self.started == ["init"]

    def init(self, **options):
        self.started.append("init")

    def shutdown(self):
        self.started.append("shutdown")

    def cluster_resources(self):
        return {"CPU": float(self.cpus)}

    def remote(self, function):
        def hand_in(*arguments):
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            return Reference(function, arguments)

        task = types.SimpleNamespace(remote=hand_in)
        return types.SimpleNamespace(options=lambda num_cpus, max_retries: task)

    def wait(self, references, num_returns):
        return [references[-1]], references[:-1]

    def get(self, reference):
        self.waiting -= 1
        job, arguments = reference.arguments
        if arguments and arguments[0] in self.dies:
            raise RayError("The worker died.\nA long story follows.")
        return reference.function(job, arguments)


@pytest.fixture
def ray(monkeypatch):
    def put(**options):
        stand_in = StandIn(**options)
        monkeypatch.setitem(sys.modules, "ray", stand_in)
        return stand_in

    return put


def double(x):
    return 2 * x


def refuse(x):
    raise DataError(f"{x} is bad")


def fill_up(x):
    raise OSError(28, "No space left on device")


def test_results_come_by_name_and_few_tasks_wait_at_a_time(ray):
    stand_in = ray(cpus=2)
    jobs = {f"job {k}": (double, (k,)) for k in range(50)}
    found = dict(engine_of("ray").run(jobs))
    assert found == dict(Local().run(jobs)) == {f"job {k}": 2 * k for k in range(50)}
    assert stand_in.most == 8
    assert stand_in.started == ["init", "shutdown"]


def test_a_cluster_that_was_there_is_left_running(ray):
    stand_in = ray()
    stand_in.init()
    assert dict(engine_of("ray").run({"a": (double, (1,))})) == {"a": 2}
    assert stand_in.started == ["init"]


@pytest.mark.parametrize(("job", "error"), [(refuse, DataError), (fill_up, OSError)])
def test_what_a_task_says_is_what_is_said(ray, job, error):
    stand_in = ray()
    with pytest.raises(error, match=r"\d is bad|No space left"):
        dict(engine_of("ray").run({"a": (job, (3,))}))
    assert stand_in.started == ["init", "shutdown"]


def test_workers_that_die_again_and_again_are_told_with_what_to_do(ray):
    ray(dies=(7,))
    sentence = (
        r"part 7: Ray could not finish it, also after 5 more tries \(The worker died\); what is done is kept, run"
    )
    with pytest.raises(ResourceError, match=sentence):
        dict(engine_of("ray").run({"part 7": (double, (7,))}))


def test_files_are_those_of_one_machine_in_whatever_order_they_are_done(ray, tmp_path):
    ray()
    big = folder_of(tmp_path / "big", rollouts(2), files=5)
    alone = assign_files([big], tmp_path / "alone", "gigpo")
    assert assign_files([big], tmp_path / "ray", "gigpo", engine="ray") == alone
    assert contents(tmp_path / "ray") == contents(tmp_path / "alone")


def test_there_is_no_other_engine():
    with pytest.raises(ConfigError, match="no engine named 'spark'; there are local and ray"):
        engine_of("spark")
