"""Every rollout of a small game, one by one, with its probability: slow truth that shares no code with the fast one."""


def rollouts(rules, prob):
    """Yields (probability, [(time, state, action, reward), …]) for every way that an episode can go.

    prob(t, x) lists the probability of each action of x after t steps.
    """
    stack = [(p, x, ()) for p, x in rules.starts()]
    while stack:
        p, x, path = stack.pop()
        t = len(path)
        for weight, action in zip(prob(t, x), rules.actions(x), strict=True):
            for chance, y, reward, done in rules.step(x, action):
                q, longer = p * weight * chance, (*path, (t, x, action, reward))
                if q == 0.0:
                    continue
                if done or t + 1 == rules.horizon:
                    yield q, longer
                else:
                    stack.append((q, y, longer))


def truth(rules, prob, gamma=1.0):
    """J, and V, Q and visit probabilities as plain averages over the rollouts that pass."""
    total, mass, paid = 0.0, {}, {}
    for p, path in rollouts(rules, prob):
        to_go = 0.0
        for t, x, action, reward in reversed(path):
            to_go = reward + gamma * to_go
            for key in ((t, x), (t, x, action)):
                mass[key] = mass.get(key, 0.0) + p
                paid[key] = paid.get(key, 0.0) + p * to_go
        total += p * to_go
    return total, {key: paid[key] / mass[key] for key in mass}, mass
