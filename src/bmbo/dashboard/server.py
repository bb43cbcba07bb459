"""Serve the dashboard of one study."""

import ipaddress
from collections.abc import Callable, Iterable
from importlib import import_module
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from bmbo.dashboard.live_figures import LiveFigures
from bmbo.ledger import Ledger
from bmbo.protocols import Policy

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class DashboardServer:
    """Serve the dashboard of a study until `close` or an interrupt.

    On an address of this machine alone, requests that name another host are refused: a web page elsewhere could
    otherwise read the study through the user's browser.

    Args:
        ledger: of the study.
        policy: its method, which the figures ask.
        host: the address to listen at.
        port: the port to listen at; 0 for a free one.
        model: whether the figures show what a model says.

    Raises:
        ImportError: optuna-dashboard or plotly is not installed.
        ValueError: The address or the port cannot be used.
    """

    def __init__(self, ledger: Ledger, policy: Policy, *, host: str, port: int, model: bool) -> None:
        check_libraries()
        # Imported here: they need the extra.
        import optuna_dashboard  # noqa: PLC0415

        from bmbo.dashboard.figures import study_attributes  # noqa: PLC0415
        from bmbo.dashboard.shown_storage import ShownStorage  # noqa: PLC0415

        figures = LiveFigures(
            lambda: study_attributes(ledger, policy, model=model),
            lambda: [entry.state for entry in ledger.read().entries],
        )
        self.shown = ShownStorage(ledger, figures.attributes)
        app: Any = optuna_dashboard.wsgi(self.shown)
        self.is_local = is_local(host)
        if self.is_local:
            app = only_for_local_names(app)
        try:
            self._server = make_server(host, port, app, server_class=_Server, handler_class=_Quiet)
        except (OSError, OverflowError) as error:
            raise ValueError(
                f"the dashboard cannot listen at {host}:{port}: {error}; --port 0 takes a free port"
            ) from None

    @property
    def address(self) -> str:
        """Return where a browser finds the study."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/dashboard/studies/{self.shown.study_id}"

    def serve(self) -> None:
        """Answer requests until `close` is called from another thread, or an interrupt comes."""
        with self._server:
            self._server.serve_forever()

    def close(self) -> None:
        """End `serve`."""
        self._server.shutdown()


def check_libraries() -> None:
    """Raise ImportError with what to install if the dashboard or the library of its figures is missing."""
    for name, package in (("optuna_dashboard", "optuna-dashboard"), ("plotly", "plotly")):
        try:
            import_module(name)
        except ImportError:
            raise ImportError(
                f"the dashboard needs {package}, which is not installed: pip install bmbo[dashboard]"
            ) from None


def is_local(host: str) -> bool:
    """Return whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def only_for_local_names(app: Application) -> Application:
    """Return an application that answers only requests to a name of this machine."""

    def checked(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        name = str(environment.get("HTTP_HOST", ""))
        name = name.rpartition(":")[0] if not name.endswith("]") and ":" in name else name
        if name in LOCAL_NAMES or is_local(name):
            return app(environment, start)
        start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"this dashboard answers at localhost alone; --host gives it another address\n"]

    return checked


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        del format, args
