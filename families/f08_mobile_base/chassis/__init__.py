"""The submitted chassis: text -> numeric record (`record`) -> members and rules of construction (`rules`)."""

from families.f08_mobile_base.chassis.record import (
    CONTRACT,
    Record,
    canonical_text,
    read_canonical,
    read_text,
)
from families.f08_mobile_base.chassis.rules import Chassis, Check, Member, inspect, read_member

__all__ = [
    "CONTRACT", "Chassis", "Check", "Member", "Record", "canonical_text", "inspect", "read_canonical", "read_member",
    "read_text",
]  # fmt: skip
