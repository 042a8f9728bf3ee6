"""What the author of a plug-in writes."""

import pytest

from apportion.testing import check_method, checks_for, run_check


@pytest.mark.parametrize("name", ["acme/margin", "acme/sign", "acme_late/last_unit"])
def test_contract(name):
    check_method(name, seeds=range(6))


@pytest.mark.parametrize("check", checks_for("acme/margin"))
def test_each_check(check):
    run_check(check, "acme/margin", seeds=range(3))
