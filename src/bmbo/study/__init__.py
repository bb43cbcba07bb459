"""Run studies: ask, tell and optimize over a ledger."""

from bmbo.study.create_and_load import create_study, delete_study, load_study
from bmbo.study.run_loop import TooManyFailuresError
from bmbo.study.study import Study
from bmbo.study.trial import StudyRecommendation, Trial

__all__ = [
    "Study",
    "StudyRecommendation",
    "TooManyFailuresError",
    "Trial",
    "create_study",
    "delete_study",
    "load_study",
]
