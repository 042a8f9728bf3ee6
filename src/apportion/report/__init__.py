"""Room: credit to look at, as one HTML file and in a terminal, both made from one versioned dict.

`report` writes the file, `report_model` is the dict, `print_trajectory` shows one trajectory in a terminal.
"""

from apportion.report.demo import demo_model
from apportion.report.html import demo_report, page, report
from apportion.report.model import SCHEMA, report_model

__all__ = ["SCHEMA", "demo_model", "demo_report", "page", "report", "report_model"]
