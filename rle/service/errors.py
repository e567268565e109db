"""What a client raises. One class per kind of refusal, named after it; part of the agent's package."""

from .protocol import Status


class ServiceError(Exception):
    """The service refused a request.

    Attributes:
        kind: Stable name of the reason.
        status: Counters when it was refused; None at connection level.
    """

    kind = "internal"

    def __init__(self, message: str, status: Status | None = None) -> None:
        super().__init__(message)
        self.status = status


class BadRequestError(ServiceError):
    kind = "bad_request"


class DuplicateRequestError(ServiceError):
    kind = "duplicate_request"


class WrongPhaseError(ServiceError):
    kind = "wrong_phase"


class TrialOverError(ServiceError):
    kind = "trial_over"


class StaleTrialError(ServiceError):
    kind = "stale_trial"


class BudgetExhaustedError(ServiceError):
    kind = "budget_exhausted"


class BusyError(ServiceError):
    kind = "busy"


class UnauthorisedError(ServiceError):
    kind = "unauthorised"


class SimError(ServiceError):
    kind = "sim_error"


class HandoffRefusedError(ServiceError):
    kind = "handoff_refused"


class LedgerFullError(ServiceError):
    kind = "ledger_full"


class ConnectionLostError(ServiceError):
    """The connection ended before the reply: ask `fetch_status()` on a new one."""

    kind = "protocol"


class ForkedClientError(RuntimeError):
    """A client object is used in a child process; connect there anew."""


ERRORS = {cls.kind: cls for cls in ServiceError.__subclasses__()}
"""Class of each kind; an unknown kind is a plain `ServiceError`."""
