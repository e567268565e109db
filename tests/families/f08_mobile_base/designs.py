"""Chassis that the tests build on, and small changes to them."""

import dataclasses

import numpy as np

from families.f08_mobile_base import chassis
from train_baselines.oracles import f08_frames
from train_baselines.oracles.f08_frames import Bar, Frame

ORACLE, LIGHT, BRACED = f08_frames.ORACLE, f08_frames.LIGHT, f08_frames.BRACED
STARTER, COMPACT = f08_frames.STARTER, f08_frames.COMPACT


def built(frame: Frame) -> chassis.Chassis:
    """A frame through the reader, as a submission would come."""
    return chassis.inspect(chassis.read_text(f08_frames.to_xml(frame).encode()))


def with_bars(frame: Frame, *bars: Bar) -> Frame:
    return dataclasses.replace(frame, bars=(*frame.bars, *bars))


def moved(frame: Frame, index: int, **changes) -> Frame:
    """The frame with one bar changed."""
    bars = list(frame.bars)
    bars[index] = dataclasses.replace(bars[index], **changes)
    return dataclasses.replace(frame, bars=tuple(bars))


def failing(design: chassis.Chassis) -> list[str]:
    """Names of the broken rules."""
    return [check.name for check in design.checks if not check.ok]


class NoDraw:
    """A stream whose draws are the lower ends: shift 0, first direction."""

    def uniform(self, low=0.0, high=1.0, size=None):
        return low if size is None else np.full(size, low)

    def integers(self, high: int) -> int:
        return 0
