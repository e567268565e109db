"""Renderer processes: one request each at a time; one that dies is replaced, its request fails."""

import multiprocessing
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from families.f06_pose import client, spec


class Order(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A request as a worker gets it."""

    request: client.Render
    channels: tuple[str, ...]


Send = Callable[[bytes], None]
"""Takes one encoded reply; called from any thread."""


@dataclass(frozen=True)
class Job:
    """A request and where its replies go."""

    request: client.Render
    channels: tuple[str, ...]
    send: Send
    done: Callable[[], None] = field(default=lambda: None)
    """Called once, before the last reply is sent: who reads it may ask again at once."""


class Pool:
    """A bounded queue before N processes.

    Args:
        workers: Processes; they start at once.
    """

    def __init__(self, workers: int) -> None:
        self._queue: queue.Queue[Job | None] = queue.Queue(spec.QUEUE_MAX)
        self._workers = [_Worker() for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), daemon=True)
            for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.pid for worker in self._workers]

    def submit(self, job: Job) -> bool:
        """Queues a request. Returns False when the queue is full."""
        try:
            self._queue.put_nowait(job)
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """Ends the processes; what still waits is dropped."""
        while not self._queue.empty():
            try:
                self._queue.get_nowait()
            except queue.Empty:
                break
        for _ in self._threads:
            self._queue.put(None)
        for worker in self._workers:
            worker.kill()
        for thread in self._threads:
            thread.join(timeout=5.0)

    def _serve(self, worker: "_Worker") -> None:
        while (job := self._queue.get()) is not None:
            worker.run(job)


class _Worker:
    """One process and its pipe."""

    def __init__(self) -> None:
        self._closed = False
        self._start()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def run(self, job: Job) -> None:
        """Passes a request on and its replies back."""
        last = b""
        try:
            self._pipe.send_bytes(client.encode(Order(request=job.request, channels=job.channels)))
            while body := self._pipe.recv_bytes():
                if last:
                    job.send(last)
                last = body
        except (EOFError, OSError):
            if self._closed:
                return
            self.kill()
            self._closed = False
            self._start()  # before the reply: who reads it may ask again at once
            text = "the renderer process died; ask again, or another seed"
            last = client.encode(
                client.Failed(request_id=job.request.request_id, kind="sim_error", message=text)
            )
        job.done()
        if last:
            job.send(last)

    def kill(self) -> None:
        """Ends the process."""
        self._closed = True
        self._process.kill()
        self._process.join()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: Any = context.Process(target=_work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()


def _work(pipe: Connection) -> None:
    """A renderer process: answers requests until its pipe closes. An empty message ends each answer."""
    from families.f06_pose.service import render

    studio = render.Studio()
    orders = msgspec.msgpack.Decoder(Order)
    while True:
        try:
            order = orders.decode(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        for reply in render.replies(studio, order):
            pipe.send_bytes(client.encode(reply))
        pipe.send_bytes(b"")
