"""verl and its stand-in, for the tests that run on both."""

import pytest


@pytest.fixture(scope="module")
def verl():
    from tests.adapters.hosts.verl_hosts import PRESENT, WHY, Verl

    if not PRESENT:
        pytest.skip(WHY)
    host = Verl()
    yield host
    host.close()


@pytest.fixture(params=["stand-in", "verl"])
def host(request, monkeypatch):
    if request.param == "verl":
        return request.getfixturevalue("verl")
    from tests.adapters.hosts.verl_hosts import stand_in

    return stand_in(monkeypatch)
