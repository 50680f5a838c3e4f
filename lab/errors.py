"""Errors of the lab, each with a message of one sentence."""


class LabError(Exception):
    """Something outside the lab failed: a missing tool, a broker that does not start."""


class DriverError(LabError):
    """A real client refused what the scenario asked for.

    Attributes:
        kind: simple name of the Java exception, for example ``ProducerFencedException``.
    """

    def __init__(self, operation: str, kind: str, message: str) -> None:
        super().__init__(operation, kind, message)
        self.operation = operation
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return f"{self.operation} failed with {self.kind}: {self.message}"
