"""The signed record of a session: keys, the append-only ledger, its replay and its verification."""

from rle.service.record.check import Expect, LedgerReport, TrialRecord, verify
from rle.service.record.keys import SigningKey, VerifyKey
from rle.service.record.ledger import Ledger

__all__ = ["Expect", "Ledger", "LedgerReport", "SigningKey", "TrialRecord", "VerifyKey", "verify"]
