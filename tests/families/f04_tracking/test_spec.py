"""The numbers of f04: what is derived equals the card's table and arrives in the compiled model."""

import pytest

from families.f04_tracking import scene, spec

TABLE = {
    # joint: (armature kg m^2, kp N m/rad, kd N m s/rad, effort N m, scale rad), as printed in the card
    "left_hip_pitch_joint": (0.010177520, 40.179, 2.558, 88, 0.5475),
    "waist_yaw_joint": (0.010177520, 40.179, 2.558, 88, 0.5475),
    "right_hip_roll_joint": (0.025101925, 99.098, 6.309, 139, 0.3507),
    "left_knee_joint": (0.025101925, 99.098, 6.309, 139, 0.3507),
    "left_ankle_roll_joint": (0.007219450, 28.501, 1.814, 50, 0.4386),
    "waist_pitch_joint": (0.007219450, 28.501, 1.814, 50, 0.4386),
    "right_wrist_roll_joint": (0.003609725, 14.251, 0.907, 25, 0.4386),
    "left_wrist_yaw_joint": (0.004250000, 16.778, 1.068, 5, 0.0745),
}


@pytest.mark.parametrize("name", TABLE)
def test_gains_follow_from_the_motor(name):
    armature, kp, kd, effort, scale = TABLE[name]
    i = spec.JOINT_NAMES.index(name)
    assert spec.ARMATURE_KG_M2[i] == pytest.approx(armature, abs=5e-10)
    assert spec.KP_N_M_PER_RAD[i] == pytest.approx(kp, abs=5e-4)
    assert spec.KD_N_M_S_PER_RAD[i] == pytest.approx(kd, abs=5e-4)
    assert spec.EFFORT_N_M[i] == effort
    assert spec.ACTION_SCALE_RAD[i] == pytest.approx(scale, abs=5e-5)


def test_the_model_has_the_gains():
    g1 = scene.build(spec.EVAL_TIMESTEP_S)
    model = g1.model
    for i, name in enumerate(spec.JOINT_NAMES):
        servo, joint = model.actuator(name), model.joint(name)
        assert servo.gainprm[0] == pytest.approx(spec.KP_N_M_PER_RAD[i])
        assert servo.biasprm[1] == pytest.approx(-spec.KP_N_M_PER_RAD[i])
        assert servo.biasprm[2] == pytest.approx(-spec.KD_N_M_S_PER_RAD[i])
        assert servo.forcerange == pytest.approx((-spec.EFFORT_N_M[i], spec.EFFORT_N_M[i]))
        assert servo.ctrlrange == pytest.approx(joint.range)
        assert model.dof_armature[joint.dofadr[0]] == pytest.approx(spec.ARMATURE_KG_M2[i])
        assert model.dof_frictionloss[joint.dofadr[0]] == spec.SCENE.frictionloss_n_m
        assert model.dof_damping[joint.dofadr[0]] == model.jnt_stiffness[joint.id] == 0.0


def test_rates_divide():
    assert pytest.approx(spec.CONTROL_PERIOD_S) == spec.EVAL_SUBSTEPS * spec.EVAL_TIMESTEP_S
    assert pytest.approx(spec.CONTROL_PERIOD_S) == spec.TRAIN_SUBSTEPS * spec.TRAIN_TIMESTEP_S
    assert (spec.EVAL_SUBSTEPS, spec.TRAIN_SUBSTEPS, spec.STEPS) == (10, 4, 1000)


def test_names_and_indices():
    assert (spec.N_JOINTS, len(spec.BODY_NAMES), spec.N_TRACKED) == (29, 30, 14)
    assert spec.TRACKED_BODIES[spec.ANCHOR_INDEX] == "torso_link"
    ends = [spec.TRACKED_BODIES[i] for i in spec.END_EFFECTOR_INDEX]
    assert spec.END_EFFECTOR_INDEX == (3, 6, 10, 13)
    assert ends == [
        "left_ankle_roll_link",
        "right_ankle_roll_link",
        "left_wrist_yaw_link",
        "right_wrist_yaw_link",
    ]


def test_observation_blocks_tile_the_frame():
    stops = [0, *(block.stop for block in spec.OBS_BLOCKS)]
    assert [block.start for block in spec.OBS_BLOCKS] == stops[:-1]
    assert (spec.OBS_DIM, spec.CRITIC_DIM) == (160, 286)


def test_default_pose_is_mirrored():
    pose = dict(zip(spec.JOINT_NAMES, spec.DEFAULT_POSE_RAD, strict=True))
    for name, angle in pose.items():
        if name.startswith("left_"):
            sign = -1.0 if "roll" in name or "yaw" in name else 1.0
            assert pose[name.replace("left_", "right_")] == pytest.approx(sign * angle)


def test_a_bar_stands_above_its_floor():
    for task in spec.TASKS:
        assert task.bar >= task.floor + 0.015, task.id
        assert spec.NO_PUSH_BARS[task.slug] >= task.bar
