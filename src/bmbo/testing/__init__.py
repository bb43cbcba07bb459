"""Check in a test, with one call, that your own policy, surrogate or executor does what bmbo expects.

A failed check raises an AssertionError with a sentence.
"""

from bmbo.testing.executor_suite import check_executor
from bmbo.testing.policy_and_surrogate_suites import check_policy, check_surrogate

__all__ = ["check_executor", "check_policy", "check_surrogate"]
