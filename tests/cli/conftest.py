"""The command line as tests call it."""

import pytest

from apportion.cli.run import run


@pytest.fixture
def cli(capsys):
    def call(*arguments):
        code = run([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, out, " ".join(err.split())

    return call
