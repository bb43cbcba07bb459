"""Show a study in optuna-dashboard, with the figures of bmbo's report in it. It needs `pip install bmbo[dashboard]`."""

from bmbo.dashboard.server import DashboardServer as DashboardServer
from bmbo.dashboard.server import check_libraries as check_libraries
