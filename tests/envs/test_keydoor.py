import pytest

from apportion.envs import make


def play(env, *actions):
    return [env.step(action) for action in actions]


def test_a_played_game():
    env = make("keydoor", n=2, apples=1, noise=(0.5,), show_time=True)
    text, _ = env.reset(seed=0)
    assert text == "You are in the key room, square 0 of 2. You hold nothing. 0 apples here. 14 steps left."
    assert env.actions() == ("forward", "back", "leave room")
    env.step("forward")
    assert env.actions() == ("forward", "back", "take key", "leave room")
    env.step("take key")
    assert env.actions() == ("forward", "back", "leave room")
    text, *_ = env.step("leave room")
    assert text == "You are in the apple room, square 0 of 2. You hold the key. 1 apples here. 11 steps left."
    moments = play(env, "eat apple", "leave room", "forward", "open door")
    assert [reward for _, reward, *_ in moments] == [0.5, 0.0, 0.0, 5.0]
    assert moments[-1][2:] == (True, False, {"invalid": False, "steps_left": 7, "success": True})


def test_without_the_key_the_door_pays_nothing():
    env = make("keydoor", n=1)
    env.reset(seed=0)
    play(env, "leave room", "leave room")
    assert "take key" not in env.actions()
    _, reward, terminated, _, info = env.step("open door")
    assert (reward, terminated, info["success"]) == (0.0, True, False)


def test_the_expert_takes_the_key_and_every_apple_it_has_time_for():
    env = make("keydoor")
    env.reset(seed=0)
    plan = env.expert()
    assert (len(plan), plan.count("eat apple"), plan[3]) == (13, 3, "take key")
    short = make("keydoor", horizon=11)
    short.reset(seed=0)
    assert short.expert().count("eat apple") == 1


def test_an_apple_pays_each_of_its_noise_equally_often():
    env, counts = make("keydoor", n=1, noise=(-1.0, 0.0, 2.0)), {-1.0: 0, 0.0: 0, 2.0: 0}
    for seed in range(900):
        env.reset(seed=seed)
        env.step("leave room")
        counts[env.step("eat apple")[1]] += 1
    assert all(count == pytest.approx(300, abs=57) for count in counts.values())  # 4 standard deviations
    assert env.spec.return_range == (-3.0, 11.0)
