"""What a renderer process does with a request: public scenes, their frames, noisy labels."""

from collections.abc import Iterator

from families.f06_pose import client, task
from families.f06_pose.service.pool import Order
from families.f06_pose.world.frames import Shot, Studio, noisy_label
from families.f06_pose.world.pushes import Streams
from rle.errors import SimulationError
from rle.service.protocol import to_array

__all__ = ["Studio", "replies"]


def replies(studio: Studio, order: Order) -> Iterator[client.Shown | client.Failed]:
    """Every reply to a request, in order."""
    request = order.request
    channels = order.channels if request.render else ()
    streams = task.open_streams("public", request.kind, request.seed)
    try:
        if request.kind == "single":
            yield _shown(request, task.single_frame(studio, streams, channels), 1, streams)
            return
        push = task.plan_push(streams)
        total = task.n_frames(push, request.n_strokes, request.max_frames)
        for shot in task.push_frames(studio, streams, push, range(total), channels):
            yield _shown(request, shot, total, streams)
    except SimulationError as error:
        yield client.Failed(request_id=request.request_id, kind="sim_error", message=error.message)


def _shown(request: client.Render, shot: Shot, total: int, streams: Streams) -> client.Shown:
    """A frame as it crosses the wire: pictures, noisy label, occlusion; never the shape id."""
    pictures = {n: to_array(shot.obs[n]) for n in ("rgb", "depth") if n in shot.obs}
    return client.Shown(
        request_id=request.request_id,
        number=shot.frame,
        total=total,
        obs=pictures,
        t=shot.obs["t"],
        label=noisy_label(shot.pose, streams("label", shot.frame)),
        occluded=shot.is_occluded,
    )
