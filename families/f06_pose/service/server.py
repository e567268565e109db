"""The socket of the renderer service: framing, limits, queue, and the metered evaluations."""

import contextlib
import hashlib
import os
import socket
import threading
from pathlib import Path

import msgspec

from families.f06_pose import client, scene, spec
from families.f06_pose.service.calls import Calls
from families.f06_pose.service.evaluate import EvaluationFailed, evaluate
from families.f06_pose.service.pool import Job, Pool
from rle.service.frames import ProtocolError, recv_frame, send_frame
from rle.service.protocol import (
    MAX_REQUEST_BYTES,
    PROTOCOL,
    encode,
    to_array,
)
from rle.sim.render import gl_backend
from rle.spec import TaskSpec

DRAIN_S = 60.0
"""Longest time for one reply to be read."""
_requests = msgspec.msgpack.Decoder(client.Request, strict=True)


class Server:
    """Serves one task's renderer on a UNIX socket.

    Args:
        task: The task; its granted channels are the only ones that are ever drawn.
        path: Socket to make.
        workers: Renderer processes.
        calls: Counter of evaluations; None refuses them.
    """

    def __init__(self, task: TaskSpec, path: Path, workers: int, calls: Calls | None) -> None:
        self._task, self._path, self._workers = task, path, workers
        self._calls, self._evaluating = calls, threading.Lock()
        self._channels = spec.CHANNELS[task.slug]
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        os.chmod(path, 0o666)
        self._socket.listen(16)
        self.pool = Pool(workers)
        self._closing = False

    def run(self) -> None:
        """Accepts connections until `close`."""
        while not self._closing:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def start(self) -> None:
        """Runs in a thread."""
        threading.Thread(target=self.run, daemon=True).start()

    def close(self) -> None:
        """Ends the renderers and removes the socket."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._path.unlink(missing_ok=True)
        self.pool.close()

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------ inside

    def _talk(self, connection: socket.socket) -> None:
        """One connection, until it closes or breaks the protocol."""
        talk = _Talk(connection)
        hello = client.Hello(
            protocol=PROTOCOL, task=self._task.id, family_version=self._task.version
        )
        with connection, contextlib.suppress(OSError, ProtocolError, TimeoutError):
            talk.send(encode(hello))
            while (body := recv_frame(connection, MAX_REQUEST_BYTES)) is not None:
                self._answer(talk, body)

    def _answer(self, talk: "_Talk", body: bytes) -> None:
        try:
            request = _requests.decode(body)
        except msgspec.DecodeError as error:
            talk.fail("", "bad_request", str(error))
            return
        if isinstance(request, client.Info):
            talk.send(encode(self._facts(request.request_id)))
        elif isinstance(request, client.Evaluate):
            threading.Thread(target=self._evaluate, args=(talk, request), daemon=True).start()
        elif problem := _problem(request):
            talk.fail(request.request_id, "bad_request", problem)
        elif not talk.opens():
            text = f"{spec.PIPELINE_MAX} requests of this connection are open; read replies first"
            talk.fail(request.request_id, "busy", text)
        else:
            job = Job(request, self._channels, talk.send, talk.closes)
            if not self.pool.submit(job):
                talk.closes()
                text = f"{spec.QUEUE_MAX} requests are waiting; ask again later"
                talk.fail(request.request_id, "busy", text)

    def _facts(self, request_id: str) -> client.Facts:
        return client.Facts(
            request_id=request_id,
            task=self._task.id,
            channels=self._channels,
            K=to_array(scene.camera_matrix()),
            T_cam_table=to_array(scene.camera_pose()),
            image_wh_px=spec.IMAGE_WH_PX,
            frame_hz=spec.FRAME_HZ,
            label_sigma=(spec.LABEL_SIGMA_XY_M, spec.LABEL_SIGMA_XY_M, spec.LABEL_SIGMA_YAW_RAD),
            workers=self._workers,
            calls_left=self._calls.left if self._calls else 0,
            backend=gl_backend(),
        )

    def _evaluate(self, talk: "_Talk", request: client.Evaluate) -> None:
        with contextlib.suppress(OSError, TimeoutError), self._evaluating:
            digest = hashlib.sha256(encode(request)).hexdigest()
            if self._calls is None or not self._calls.charge(request.request_id, digest):
                n = spec.EVALUATION_CALLS
                text = f"{n} of {n} design-set evaluations are used"
                talk.fail(request.request_id, "budget_exhausted", text)
                return
            folder = Path(request.folder)
            try:
                result = evaluate(self._task.id, folder, request.request_id, self._calls.left)
            except EvaluationFailed as failure:
                self._calls.confirm(request.request_id, int(failure.is_used))
                talk.fail(request.request_id, failure.kind, str(failure))
                return
            self._calls.confirm(request.request_id, 1)
            talk.send(encode(result))


class _Talk:
    """One connection: whole frames from several threads, and its open requests."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._open = threading.Semaphore(spec.PIPELINE_MAX)

    def send(self, body: bytes) -> None:
        """Sends one reply; a peer that is gone or does not read loses it."""
        with self._lock, contextlib.suppress(OSError, TimeoutError):
            send_frame(self._connection, body, DRAIN_S)

    def fail(self, request_id: str, kind: client.ErrorKind, message: str) -> None:
        """Sends an error."""
        self.send(encode(client.Failed(request_id=request_id, kind=kind, message=message)))

    def opens(self) -> bool:
        """Takes one of the connection's places."""
        return self._open.acquire(blocking=False)

    def closes(self) -> None:
        """Gives the place back."""
        self._open.release()


def _problem(request: client.Render) -> str | None:
    """What is wrong with a request, or None."""
    for name, value, low, high in (
        ("seed", request.seed, 0, spec.MAX_PUBLIC_SEED),
        ("n_strokes", request.n_strokes, 1, spec.N_STROKES_MAX),
        ("max_frames", request.max_frames, 1, spec.FRAMES_MAX),
    ):
        if not low <= value <= high:
            return f"{name} is {value}; {low} to {high} is accepted"
    return None
