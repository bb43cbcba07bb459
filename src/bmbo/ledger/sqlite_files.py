"""Make files of SQLite safe: tables are made at once or not at all, and transactions of many processes do not mix."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text

from bmbo.ledger.optuna_private import table_definitions

READS, DURABLE = "bmbo_reads", "bmbo_durable"
"""Options of a connection: its transaction writes nothing; its transaction must outlive a loss of power."""

BUSY_SECONDS = 5.0
"""How long SQLite itself waits for a lock; nothing can interrupt it meanwhile. Then the call is repeated."""


def make_atomic(engine: Any) -> None:
    """Make every transaction take SQLite's lock at its start, and let readers read while a process writes.

    Optuna reads the state of a trial and then writes it. SQLite cannot lock single rows, and Python's driver begins the
    transaction only at the write. Without this function two processes could both claim the same trial. Transactions
    that say that they only read wait for nobody.

    In WAL mode only those transactions wait for the disk that say so, which are those with results. A loss of power may
    take back the last others: plans and claims, which the next run makes again. What was written earlier is never lost
    without what was written later, and the death of a process loses nothing.
    """
    if getattr(engine, "_bmbo_atomic", False):
        return

    def connected(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        # First: the change of the mode, too, has to wait for other processes.
        connection.execute(f"PRAGMA busy_timeout={int(1000 * BUSY_SECONDS)}").close()
        # On file systems that do not support this mode, SQLite keeps its old mode.
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        record.info["wal"] = mode == "wal"

    def begun(connection: Any) -> None:
        options = connection.get_execution_options()
        if options.get(READS, False):
            connection.exec_driver_sql("BEGIN")
            return
        waits = options.get(DURABLE, False) or not connection.info["wal"]
        if connection.info.get("waits") != waits:
            connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if waits else 'NORMAL'}")
            connection.info["waits"] = waits
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    engine._bmbo_atomic = True
    # Connections that were opened earlier do not have these settings.
    engine.dispose()


def make_tables(url: str) -> None:
    """Make what Optuna needs in a database, in one transaction, unless it is there; see `complete_tables`."""
    engine = create_engine(url)
    make_atomic(engine)
    try:
        complete_tables(engine)
    finally:
        engine.dispose()


def complete_tables(engine: Engine) -> None:
    """Make the tables and indexes that are missing in a database, in one transaction.

    Optuna makes each table and each index in a transaction of its own, and later adds no index to a table that exists.
    A process that was killed in between left a database without the rule that names of studies are unique, and the
    next one could add a second study of one name. Such a second study, which is always empty, is removed.

    Raises:
        ValueError: Two studies of the same name have trials.
    """
    definitions = table_definitions()
    needed = set(definitions.tables) | {
        str(index.name) for table in definitions.tables.values() for index in table.indexes
    }
    with engine.connect().execution_options(**{READS: True}) as connection:
        found = set(connection.execute(text("SELECT name FROM sqlite_master")).scalars())
    if needed <= found:
        return
    with engine.begin() as connection:
        definitions.create_all(connection)
        _remove_empty_twins(connection)
        for table in definitions.tables.values():
            for index in table.indexes:
                index.create(connection, checkfirst=True)


def _remove_empty_twins(connection: Connection) -> None:
    """Remove studies without trials that have the name of another study."""
    studies = connection.execute(
        text(
            "SELECT study_id, study_name, (SELECT count(*) FROM trials WHERE trials.study_id = studies.study_id)"
            " FROM studies ORDER BY 3 DESC, study_id"
        )
    )
    kept: set[str] = set()
    for study_id, name, trials in studies.all():
        if name not in kept:
            kept.add(name)
            continue
        if trials:
            raise ValueError(
                f"two studies of the name {name!r} have trials, because a process was killed while the tables were "
                "made; export one with Optuna, delete it there, and open the storage again"
            )
        for table in table_definitions().tables.values():
            if "study_id" in table.columns:
                connection.execute(table.delete().where(table.c.study_id == study_id))


def database_file(engine_or_url: Any) -> Path | None:
    """Return the file of a database of SQLite; None for other databases."""
    url = getattr(engine_or_url, "url", engine_or_url)
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
