"""Batch backends: the same physics as plain MuJoCo, parameters that arrive, faults that are named."""

import warnings

import mujoco
import numpy as np
import pytest
import torch

from rle.errors import UnknownName, UserError
from rle.sim.batch import BatchScene, apply_params, make_backend

ROD = """<mujoco><option timestep="0.005"/><worldbody>
  <geom name="floor" type="plane" size="5 5 .1"/>
  <body name="base" pos="0 0 .5"><freejoint name="root"/>
    <geom name="rod" type="capsule" size=".05 .2" mass="2"/>
    <body name="tip" pos="0 0 .3"><joint name="hinge" axis="0 1 0" armature=".01"/>
      <geom name="ball" type="sphere" size=".06" mass="1"/></body>
  </body></worldbody>
  <actuator><position name="hinge" joint="hinge" kp="20" kv="1"/></actuator>
  <sensor><velocimeter name="v" site="imu"/><gyro name="w" site="imu"/>
    <framelinvel name="lb" objtype="xbody" objname="base"/><framelinvel name="lt" objtype="xbody" objname="tip"/>
    <frameangvel name="ab" objtype="xbody" objname="base"/><frameangvel name="at" objtype="xbody" objname="tip"/>
  </sensor></mujoco>""".replace(
    '<body name="tip"', '<site name="imu" pos="0 .02 0"/><body name="tip"'
)
N = 5


def rod_scene() -> BatchScene:
    model = mujoco.MjModel.from_xml_string(ROD)
    return BatchScene(
        model=model, bodies=np.array([1, 2]), imu_lin_vel=slice(0, 3), imu_ang_vel=slice(3, 6),
        body_lin_vel=slice(6, 12), body_ang_vel=slice(12, 18),
        friction_geoms=np.array([model.geom("rod").id, model.geom("ball").id]),
        com_body=1, counted_bodies=np.array([2]), contact_force_n=1.0,
    )  # fmt: skip


def starts(model: mujoco.MjModel) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(4)
    qpos = np.tile(model.qpos0, (N, 1))
    qpos[:, 2] += rng.uniform(0, 0.1, N)
    return torch.tensor(qpos), torch.tensor(rng.normal(0, 0.3, (N, model.nv)))


def controls() -> torch.Tensor:
    return torch.tensor(np.random.default_rng(9).uniform(-1, 1, (20, N, 1)))


def run(backend: str, scene: BatchScene, steps: int = 20, params: dict | None = None, **options):
    sim = make_backend(backend, scene, N, **options)
    for name, values in (params or {}).items():
        sim.set_params(name, values)
    sim.reset(torch.arange(N), *starts(scene.model))
    for ctrl in controls()[:steps]:
        sim.step(ctrl, 4)
    return sim


def test_mjc_is_plain_mujoco_bit_for_bit_on_any_number_of_threads():
    scene = rod_scene()
    qpos, qvel = (t.numpy() for t in starts(scene.model))
    expected = []
    for world in range(N):
        data = mujoco.MjData(scene.model)
        data.qpos[:], data.qvel[:] = qpos[world], qvel[world]
        for ctrl in controls():
            data.ctrl[:] = ctrl[world].numpy()
            mujoco.mj_step(scene.model, data, 4)
        expected.append(np.concatenate([data.qpos, data.qvel]).astype(np.float32))
    for threads in (1, 2):
        state = run("mjc", scene, threads=threads).state()
        assert np.array_equal(torch.cat([state.qpos, state.qvel], 1).numpy(), np.array(expected))


def test_state_is_of_the_end_of_the_step():
    scene = rod_scene()
    sim = run("mjc", scene)
    state, data = sim.state(), mujoco.MjData(scene.model)
    data.qpos[:], data.qvel[:] = state.qpos[2].numpy(), state.qvel[2].numpy()
    mujoco.mj_forward(scene.model, data)
    assert state.body_pos[2].numpy() == pytest.approx(data.xpos[1:3], abs=1e-6)
    assert state.body_quat[2].numpy() == pytest.approx(data.xquat[1:3], abs=1e-6)
    assert state.imu_lin_vel[2].numpy() == pytest.approx(data.sensor("v").data, abs=1e-5)
    assert state.body_ang_vel[2, 1].numpy() == pytest.approx(data.sensor("at").data, abs=1e-5)


def test_parameters_reach_the_physics():
    scene = rod_scene()
    scale = torch.tensor([[0.5], [1.0], [1.0], [1.0], [2.0]])
    sim = run("mjc", scene, steps=1, params={"mass_scale": scale, "friction": scale})
    masses = [m.body_subtreemass[1] for m in sim._models]
    assert masses == pytest.approx([1.5, 3.0, 3.0, 3.0, 6.0])
    assert [m.geom_friction[1, 0] for m in sim._models] == pytest.approx(scale[:, 0].tolist())
    assert scene.model.body_subtreemass[1] == pytest.approx(3.0)  # the nominal model is untouched


def test_applying_twice_is_applying_once():
    scene = rod_scene()
    model = mujoco.MjModel.from_xml_string(ROD)
    for _ in range(2):
        apply_params(
            model, scene.model, scene, {"mass_scale": np.array([1.1]), "kp_scale": np.array([0.9])}
        )
    assert model.body_mass[1] == pytest.approx(2.2)
    assert model.actuator_gainprm[0, 0] == pytest.approx(18.0)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("frictoin", torch.ones(N, 1), "did you mean 'friction'"),
        ("friction", torch.ones(N, 2), r"shape \(5, 1\), got \(5, 2\)"),
        ("friction", torch.full((N, 1), torch.nan), "finite"),
    ],
)
def test_wrong_parameters_are_refused(name, values, message):
    sim = make_backend("mjc", rod_scene(), N)
    with pytest.raises((UnknownName, UserError), match=message):
        sim.set_params(name, values)


def test_parameters_after_the_first_step_are_refused():
    sim = run("mjc", rod_scene(), steps=1)
    with pytest.raises(UserError, match="after the first step"):
        sim.set_params("friction", torch.ones(N, 1))


def test_pushes_add_velocity_and_keep_the_rest():
    scene = rod_scene()
    sim = run("mjc", scene, steps=3)
    before = [d.qvel.copy() for d in sim._datas]
    sim.add_velocity(torch.tensor([1, 3]), torch.ones(2, 6))
    after = [d.qvel for d in sim._datas]
    assert (after[1][:6] - before[1][:6]).tolist() == [1.0] * 6
    assert (after[0] == before[0]).all() and after[3][6] == before[3][6]


def test_lowest_point_of_a_tilted_capsule():
    # Capsule half-length .2, radius .05 at z = .5, tilted by 60 degrees: .5 - .2 cos 60 - .05 = .35.
    # The ball hangs .3 up the rod: .5 + .3 cos 60 - .06 = .59, above.
    scene = rod_scene()
    sim = make_backend("mjc", scene, N)
    qpos = torch.tensor(np.tile(scene.model.qpos0, (N, 1)))
    half = np.deg2rad(60.0) / 2
    qpos[:, 3:7] = torch.tensor([np.cos(half), 0.0, np.sin(half), 0.0])
    sim.reset(torch.arange(N), qpos, torch.zeros(N, scene.model.nv))
    assert sim.lowest_m(torch.tensor([2])).item() == pytest.approx(0.35, abs=1e-6)


def test_contacts_of_counted_bodies_are_counted():
    scene = rod_scene()
    sim = make_backend("mjc", scene, N)
    qpos = torch.tensor(np.tile(scene.model.qpos0, (N, 1)))
    qpos[:, 3:7] = torch.tensor([0.0, 1.0, 0.0, 0.0])  # upside down: the ball is below
    qpos[0, 2], qpos[1:, 2] = 0.355, 2.0
    sim.reset(torch.arange(N), qpos, torch.zeros(N, scene.model.nv))
    sim.step(torch.zeros(N, 1), 4)
    assert sim.state().contact_bodies.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_a_diverged_world_is_reported_and_a_reset_clears_it():
    scene = rod_scene()
    sim = run("mjc", scene, steps=1)
    sim.add_velocity(torch.tensor([2]), torch.full((1, 6), torch.nan))
    sim.step(torch.zeros(N, 1), 4)
    assert sim.nan_worlds().tolist() == [False, False, True, False, False]
    qpos, qvel = starts(scene.model)
    sim.reset(torch.tensor([2]), qpos[:1], qvel[:1])
    assert not sim.nan_worlds().any()


def test_a_solver_that_gives_up_spoils_its_own_world_only(monkeypatch):
    sim, whole = run("mjc", rod_scene(), steps=1), mujoco.mj_step
    given_up = []

    def give_up_once(model, data, nstep):
        if not given_up:
            given_up.append(data)
            raise mujoco.FatalError("the solver gave up")
        whole(model, data, nstep)

    monkeypatch.setattr(mujoco, "mj_step", give_up_once)
    sim.step(torch.zeros(N, 1), 4)
    assert sim.nan_worlds().tolist().count(True) == 1


def test_saved_state_resumes_bit_for_bit():
    scene, friction = rod_scene(), torch.rand(N, 1, generator=torch.Generator().manual_seed(1))
    whole = run("mjc", scene, params={"friction": friction})
    half = run("mjc", scene, steps=10, params={"friction": friction})
    resumed = make_backend("mjc", scene, N)
    resumed.restore(half.simulator_state())
    for ctrl in controls()[10:]:
        resumed.step(ctrl, 4)
    for a, b in zip(whole.state(), resumed.state(), strict=True):
        assert torch.equal(a, b)


def test_unknown_and_impossible_backends():
    with pytest.raises(UnknownName, match="did you mean 'mjc'"):
        make_backend("mjx", rod_scene(), N)
    with pytest.raises(UserError, match="at least one world"):
        make_backend("mjc", rod_scene(), 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_cuda_backend_without_a_device_names_the_alternative():
    pytest.importorskip("mujoco_warp")
    with pytest.raises(UserError, match="needs a CUDA device.*--backend mjc"):
        make_backend("warp-cuda", rod_scene(), N)


@pytest.mark.parametrize(("driver", "captures"), [((12, 3), False), ((12, 4), True)])
def test_an_old_driver_is_one_loud_warning_and_no_graph(monkeypatch, driver, captures):
    pytest.importorskip("mujoco_warp")
    from rle.sim import batch_warp

    monkeypatch.setattr(batch_warp.wp, "get_cuda_driver_version", lambda: driver, raising=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert batch_warp._driver_has_graphs() is captures
    texts = [str(w.message) for w in told]
    assert len(texts) == (0 if captures else 1)
    assert all("(12, 3) is older than (12, 4)" in t and "update the driver" in t for t in texts)


def test_a_deterministic_mode_that_is_not_there_is_refused():
    mjw = pytest.importorskip("mujoco_warp")
    if hasattr(mjw.Option, "deterministic"):
        pytest.skip("this mujoco-warp has it")
    with pytest.raises(UserError, match="unsupported_option: .*leave it out"):
        make_backend("warp-cpu", rod_scene(), 1, deterministic=True)


def test_warp_cpu_is_limited():
    pytest.importorskip("mujoco_warp")
    with pytest.raises(UserError, match="at most 16 worlds, got 17"):
        make_backend("warp-cpu", rod_scene(), 17)


@pytest.mark.slow
def test_warp_cpu_agrees_with_mujoco_and_names_an_overflow():
    pytest.importorskip("mujoco_warp")
    scene = rod_scene()
    params = {"mass_scale": torch.tensor([[0.9], [1.0], [1.1], [1.05], [0.95]])}
    a, b = (run(k, scene, steps=5, params=params).state() for k in ("mjc", "warp-cpu"))
    for x, y in zip(a, b, strict=True):
        assert torch.allclose(x, y, atol=1e-4)
    small = make_backend("warp-cpu", scene, N, njmax=2)
    qpos, qvel = starts(scene.model)
    qpos[:, 2] = 0.2
    small.reset(torch.arange(N), qpos, qvel)
    small.step(torch.zeros(N, 1), 4)
    found = small.overflow()
    assert found is not None and found.buffer == "njmax" and found.needed > 2
    assert small.overflow() is None
