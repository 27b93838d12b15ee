"""The first lines of a host: the supervisor hears that the process runs before it imports gRPC and SQLAlchemy.

Promises: on a slow host, imports that take minutes do not look like a process that never started.
"""

from typing import NoReturn

from tutti.platform.heartbeatpipe import first_word


def run(service: str | None = None) -> NoReturn:
    """Be the host of one service, or of those that the command line names; exits."""
    first_word()
    from tutti.platform.main import main

    main(service)


if __name__ == "__main__":
    run()
