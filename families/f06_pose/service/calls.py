"""The count of metered evaluations, in the record format of the simulator services.

A call is charged before it runs and confirmed after: `executed` 1 when it was used, 0 when it is given back
(the copy was refused, or our side failed). A call that a crash left open is given back at the next start.
"""

import secrets
import threading
from pathlib import Path
from typing import Any

import rle
from families.f06_pose import spec
from rle.errors import UserError
from rle.service.record import Ledger, SigningKey
from rle.service.record.ledger import FORMAT

OPERATION = "evaluate"


class Calls:
    """Evaluations of one deployment. Holds the lock of its folder until closed.

    Args:
        folder: Of the record, made 0700.
        task_id: The task it belongs to.
        key: Signs the record's checkpoints.

    Raises:
        InfrastructureError: Another service owns the folder, or its record is damaged.
        UserError: The record belongs to another task.
    """

    def __init__(self, folder: Path, task_id: str, key: SigningKey) -> None:
        self._ledger = Ledger(folder, key)
        self._lock = threading.Lock()
        self.charged = self.used = 0
        self._recover(task_id, key)

    @property
    def left(self) -> int:
        """Calls that may still be made."""
        return spec.EVALUATION_CALLS - self.used

    def charge(self, request_id: str, digest: str) -> bool:
        """Writes a charge to the disk. Returns False when all calls are used."""
        with self._lock:
            if self.left <= 0:
                return False
            self.used += 1
            self.charged += 1
            payload = {"id": request_id, "op": OPERATION, "cost": 1, "body": digest}
            self._ledger.append("charge", payload)
            return True

    def confirm(self, request_id: str, executed: int) -> None:
        """Writes how a charged call ended, and signs the totals.

        Args:
            request_id: Of the charge.
            executed: 1 used, 0 given back.
        """
        with self._lock:
            self._confirm(request_id, executed)

    def _confirm(self, request_id: str, executed: int) -> None:
        self.used -= 1 - executed
        payload = {"id": request_id, "executed": executed, **self._ledger.add_actions(b"")}
        self._ledger.append("confirm", payload)
        self._ledger.checkpoint(self.charged, self.used)

    def _recover(self, task_id: str, key: SigningKey) -> None:
        pending: str | None = None
        for record in self._ledger.records:
            payload = record.p
            if record.k == "open" and payload["task"] != task_id:
                self._ledger.close()
                raise UserError(
                    f"the record in {self._ledger.folder} belongs to {payload['task']}, not {task_id}; "
                    "give another --root"
                )
            if record.k == "charge":
                pending = payload["id"]
                self.charged += payload["cost"]
                self.used += payload["cost"]
            elif record.k == "confirm":
                self.used -= 1 - payload["executed"]
                pending = None
        if not self._ledger.records:
            self._ledger.append("open", _opening(task_id, key))
        elif pending is not None:
            self._confirm(pending, 0)

    def close(self) -> None:
        """Closes the record; the count stays."""
        self._ledger.close()


def _opening(task_id: str, key: SigningKey) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "task": task_id,
        "family_version": spec.FAMILY_VERSION,
        "project_version": rle.__version__,
        "deployment_id": key.public.deployment_id,
        "public_key": key.public.raw.hex(),
        "nonce": secrets.token_hex(16),
        "session_index": 0,
        "budgets": {OPERATION: spec.EVALUATION_CALLS},
    }
