"""Room: credit to look at, as one HTML file, on a local server, and in a terminal, all made from one versioned dict.

`report` writes the file, `report_model` is the dict, `text.print_trajectory` shows one trajectory in a
terminal, `serve.ReportServer` shows rollouts that are too many for a file.
"""

from apportion.report.demo import training_parts
from apportion.report.html import demo_report, page, report
from apportion.report.model import SCHEMA, Report, report_model
from apportion.report.pages import build_pages

__all__ = ["SCHEMA", "Report", "build_pages", "demo_report", "page", "report", "report_model", "training_parts"]
