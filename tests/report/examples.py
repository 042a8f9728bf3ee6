"""Reports that several tests look at."""

import base64
import gzip
import json
import re

import numpy as np

from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.report import Report, build_pages, page
from apportion.units import by_step

HOSTILE = [
    "</script><script>document.title='pwned'</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "<svg/onload=document.title='pwned'>",
    "<iframe srcdoc=\"<script>parent.document.title='pwned'</script>\"></iframe>",
    "<style>*{display:none}</style><link rel=stylesheet href=//evil.test/x.css>",
    "<b class=x>bold</b> & &lt;i&gt; &amp;",
    "'\" onmouseover=document.title='pwned' x='",
    "a\u2028b\u2029c",
    "\x00\x01\x1b[31m\x7f\x85",
    "\u202egnp.exe \u2066isolate",
    "half \ud83d, other half \udc00",
    "{{blocks}} {{script}} {{csp}}",
    "${alert(1)} `x` \\u003cscript\\u003e \\",
    "javascript:alert(1)",
    "\ufffe\uffff\ufeff",
    "__proto__",
    "constructor",
    "a\r\nb\rc",
    "x" * 30_000,
]


def html_of(credits, title=None, **more):
    """The page as `apportion.report.report` writes it; ``more`` goes into the index."""
    report = Report(credits, title=title)
    return page(*build_pages(report, report.header() | more))


def block_of(text, name):
    """The JSON of one block of a page."""
    (block,) = re.findall(f'<script type="application/gzip" id="{name}">([A-Za-z0-9+/=]*)</script>', text)
    return json.loads(gzip.decompress(base64.b64decode(block)))


def hostile_credit():
    steps = [Step(observation=text, action=text, state=text, agent=text, reward=0.0) for text in HOSTILE]
    rollouts = [Trajectory(steps, id=HOSTILE[0] + str(k), group=HOSTILE[2], outcome=float(k)) for k in range(2)]
    units = by_step(Batch.from_trajectories(rollouts))
    values = np.linspace(-1, 1, len(units))
    return Credit(
        values,
        units,
        parts={HOSTILE[2]: values / 2, "__proto__": values / 2},
        notes={HOSTILE[0]: HOSTILE[2]},
        method=HOSTILE[2],
        params={HOSTILE[0]: HOSTILE[3]},
    )


def three_rollouts():
    """Two credits of three rollouts with three steps each, in one group; every room is seen by all."""

    def rollout(name, *rewards):
        steps = [Step(observation=f"room {k}", action=f"act {name}{k}", reward=r) for k, r in enumerate(rewards)]
        return Trajectory(steps, id=name, group="g")

    batch = Batch.from_trajectories([rollout("a", 0, 0, 1), rollout("b", 0, 0, 0), rollout("c", 0, 1, 0)])
    units = by_step(batch)
    values = np.array([0.1, 0.2, 0.9, -0.1, -0.6, 0.0, 0.3, 0.2, 0.1])
    one = Credit(values, units, parts={"x": values / 2, "y": values / 2}, method="one")
    return [one, Credit(-values, units, method="two")]


def crossroads(members=12):
    """Rollouts of one group that all begin at one crossroads: who goes left wins, who goes right does not."""
    rollouts = [
        Trajectory(
            [
                Step(observation="the crossroads", action="left" if n % 2 else "right", reward=0.0, agent="scout"),
                Step(
                    observation="a hall" if n % 2 else "a cellar",
                    action=f"walk {n}",
                    reward=float(n % 2),
                    agent="walker",
                ),
            ],
            id=f"run {n}",
            group="maze",
        )
        for n in range(members)
    ]
    units = by_step(Batch.from_trajectories(rollouts))
    values = np.array([x for n in range(members) for x in ((0.8, 0.1) if n % 2 else (-0.8, -0.1))])
    return Credit(values, units, method="left is right")
