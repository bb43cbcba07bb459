from .executor_suite import check_executor
from .policy_suite import check_policy
from .surrogate_suite import check_surrogate

__all__ = [
    "check_executor",
    "check_policy",
    "check_surrogate",
]
