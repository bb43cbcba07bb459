"""What a policy, a surrogate or an executor of your own must keep to: one call in a test of yours checks it.

Breaches raise an AssertionError with a sentence.
"""

from bmbo.testing.executor_suite import check_executor
from bmbo.testing.learner_suites import check_policy, check_surrogate

__all__ = ["check_executor", "check_policy", "check_surrogate"]
