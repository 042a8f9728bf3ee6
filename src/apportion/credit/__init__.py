"""Room 3, the result: `Credit` per unit, `TokenAdvantages` per token."""

from apportion.credit.credit import Cost, Credit
from apportion.credit.files import read_credit, write_credit
from apportion.credit.tokens import Padded, TokenAdvantages, TokenSlice

__all__ = ["Cost", "Credit", "Padded", "TokenAdvantages", "TokenSlice", "read_credit", "write_credit"]
