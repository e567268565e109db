"""Fixtures of the service's tests."""

import pytest
from broker_process import Broker


@pytest.fixture
def start(tmp_path):
    made: list[Broker] = []

    def make(kind: str, *options: str) -> Broker:
        made.append(Broker(tmp_path, kind, *options))
        return made[-1]

    yield make
    for broker in made:
        if broker.process.poll() is None:
            broker.process.kill()
            broker.process.wait()
