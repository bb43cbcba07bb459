"""Make one page with figures from the record of a study and from what its method's model says."""

from bmbo.report.report_data import LastBatch, ReportData
from bmbo.report.written_report import check_report, report_path, write_report

__all__ = ["LastBatch", "ReportData", "check_report", "report_path", "write_report"]
