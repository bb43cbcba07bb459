"""A proxy in front of a server of PostgreSQL, which cuts connections when a COMMIT has been sent."""

import contextlib
import random
import socket
import threading


class CuttingProxy:
    """Passes everything on, and cuts a connection at some of its commits.

    Half of the cuts come after the server has answered, so that only the answer is lost, and half before it has heard.
    """

    def __init__(self, port, seed=0):
        self._port = port
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._left = 0
        self._share = 0.0
        self._lock = threading.Lock()
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self):
        return self._listener.getsockname()[1]

    def lose_answers(self, num):
        """The next so many commits arrive, and their answers do not."""
        self._left = num

    def cut(self, share):
        """A share of all commits is cut, half of them before the server has heard of it."""
        self._share = share

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            client.close()
            return
        muted = threading.Event()
        threading.Thread(target=self._answers, args=(server, client, muted), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                fate = self._fate(data)
                if fate == "before":
                    break
                if fate == "after":
                    muted.set()
                server.sendall(data)
        for each in (client, server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _answers(self, server, client, muted):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if muted.is_set():
                    break
                client.sendall(data)
        for each in (client, server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _fate(self, data):
        if b"COMMIT" not in data:
            return None
        with self._lock:
            if self._left:
                self._left -= 1
                self.cuts += 1
                return "after"
            if self._random.random() < self._share:
                self.cuts += 1
                return self._random.choice(["before", "after"])
        return None
