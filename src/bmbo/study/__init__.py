"""Studies: ask, tell and optimize over a ledger."""

from bmbo.study.study import Study, create_study, load_study
from bmbo.study.trial import StudyRecommendation, Trial

__all__ = ["Study", "StudyRecommendation", "Trial", "create_study", "load_study"]
