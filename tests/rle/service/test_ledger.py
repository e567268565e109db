"""Each rule of a record broken once: it is refused, with its own reason."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from service_fake import Point, attempt, spec

from rle.service import embedded
from rle.service.record import Expect, SigningKey, VerifyKey, verify
from rle.service.record.ledger import Ledger, LedgerDamaged, SessionOwned, SessionSealed

KEY = SigningKey.generate()
SPEC = spec(attempt(trials=1, steps=50))


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Folder of a sealed, honest session."""
    folder = tmp_path_factory.mktemp("honest")
    with embedded.open(SPEC, folder=folder, key=KEY, adapter=Point("x")) as sim:
        sim.step(np.tile([0.1, 0.0], (5, 1)))
        sim.call("nudge")
        sim.reset()
        sim.step(np.zeros((3, 2)))
        sim.finish()
    return folder


@pytest.fixture
def forged(honest, tmp_path):
    """Writes a changed copy of the honest record and verifies it."""

    def check(change, *, key=KEY.public, expect=None):
        lines = (honest / "ledger.jsonl").read_bytes().split(b"\n")[:-1]
        actions = (honest / "actions.f32").read_bytes()
        out = change(lines)
        (tmp_path / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in out))
        (tmp_path / "actions.f32").write_bytes(actions)
        expect = expect or Expect(spec=SPEC, deployment_id=KEY.public.deployment_id)
        return verify(tmp_path / "ledger.jsonl", key, expect)

    return check


def rechain(lines, resign=None):
    """Makes the chain whole again, as a forger without the key can; with `resign`, signs too."""
    from rle.service.record.keys import signed_bytes

    out, prev = [], "0" * 64
    for number, line in enumerate(lines):
        record = json.loads(line)
        record["prev"], record["i"] = prev, number
        if resign and "sig" in record["p"]:
            record["p"]["sig"] = ""
            blank = json.dumps(record["p"], separators=(",", ":")).encode()
            sig = resign.sign(signed_bytes(number, bytes.fromhex(prev), blank))
            record["p"]["sig"] = sig.hex()
        text = json.dumps(record, separators=(",", ":")).encode()
        out.append(text)
        prev = hashlib.sha256(text).hexdigest()
    return out


def edit(lines, number, **changes):
    record = json.loads(lines[number])
    record["p"] |= changes
    out = list(lines)
    out[number] = json.dumps(record, separators=(",", ":")).encode()
    return out


def index_of(lines, kind, nth=0):
    found = [i for i, line in enumerate(lines) if json.loads(line)["k"] == kind]
    return found[nth]


def test_an_honest_record_is_believed_with_the_public_key_alone(forged):
    report = forged(list)
    assert report.ok and report.reason is None
    assert report.steps_used == 5 + 1 + 1 + 3
    assert report.trials[0].ended == "finished" and report.trials[0].steps == 10


def test_believing_it_takes_neither_salt_nor_simulator(honest, tmp_path):
    """Done in a process of its own, which then says what it has loaded."""
    KEY.save(tmp_path / "broker.key", tmp_path / "broker.pub")
    code = (
        "import sys; from pathlib import Path; import service_fake as f\n"
        "from rle.service.record import Expect, VerifyKey, verify\n"
        "key = VerifyKey.load(Path(sys.argv[2]))\n"
        "expect = Expect(spec=f.spec(f.attempt(trials=1, steps=50)), deployment_id=key.deployment_id)\n"
        "print(verify(Path(sys.argv[1]), key, expect).ok)\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'mujoco', 'robosuite', 'families'}))"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *(p or os.getcwd() for p in sys.path)])
    argv = [sys.executable, "-c", code, str(honest / "ledger.jsonl"), str(tmp_path / "broker.pub")]
    run = subprocess.run(
        argv, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=True
    )
    assert run.stdout.split("\n")[:2] == ["True", "[]"]


def test_json_written_by_another_encoder_is_still_the_same_record(forged):
    assert forged(lambda lines: rechain(lines, KEY)).ok


CASES = {
    "edited cost": (lambda ls: edit(ls, index_of(ls, "charge"), cost=1), "ledger.chain"),
    "edited evidence": (
        lambda ls: edit(ls, index_of(ls, "trial_close"), evidence={"x": 99.0}),
        "ledger.chain",
    ),
    "edited and rechained": (
        lambda ls: rechain(edit(ls, index_of(ls, "trial_close"), evidence={"x": 99.0})),
        "ledger.signature",
    ),
    "dropped line": (lambda ls: ls[:3] + ls[4:], "ledger.sequence"),
    "swapped lines": (lambda ls: [ls[0], ls[2], ls[1], *ls[3:]], "ledger.sequence"),
    "duplicated line": (lambda ls: [*ls[:3], ls[2], *ls[3:]], "ledger.sequence"),
    "cut tail": (lambda ls: ls[:-1], "ledger.unsealed"),
    "data after the seal": (lambda ls: [*ls, ls[-1]], "ledger.sequence"),
    "rechained data after the seal": (
        lambda ls: rechain([*ls, ls[1]], KEY),
        "ledger.sequence",
    ),
    "not json": (lambda ls: [*ls[:2], b"{", *ls[3:]], "ledger.chain"),
    "empty": (lambda ls: [], "ledger.unsealed"),
    "flipped signature": (
        lambda ls: [*ls[:-1], ls[-1].replace(b'"sig":"', b'"sig":"00', 1)],
        "ledger.signature",
    ),
    "own key": (lambda ls: rechain(ls, SigningKey.generate()), "ledger.signature"),
    "other task": (lambda ls: rechain(edit(ls, 0, task="f03/balance"), KEY), "ledger.foreign"),
    "older version": (
        lambda ls: rechain(edit(ls, 0, family_version="0.9.0"), KEY),
        "ledger.foreign",
    ),
    "other deployment": (
        lambda ls: rechain(edit(ls, 0, deployment_id="0" * 16), KEY),
        "ledger.foreign",
    ),
    "other rules": (lambda ls: rechain(edit(ls, 0, rules="0" * 64), KEY), "ledger.foreign"),
    "over budget": (
        lambda ls: rechain(edit(ls, index_of(ls, "charge"), cost=51), KEY),
        "ledger.budget",
    ),
    "cheaper nudge": (
        lambda ls: rechain(edit(ls, index_of(ls, "charge", 1), cost=0), KEY),
        "ledger.sequence",
    ),
    "more executed than charged": (
        lambda ls: rechain(edit(ls, index_of(ls, "confirm"), executed=6), KEY),
        "ledger.sequence",
    ),
    "id used twice": (
        lambda ls: rechain(
            edit(
                ls, index_of(ls, "charge", 1), id=json.loads(ls[index_of(ls, "charge")])["p"]["id"]
            ),
            KEY,
        ),
        "ledger.sequence",
    ),
    "steps of the trial": (
        lambda ls: rechain(edit(ls, index_of(ls, "trial_close"), steps=3), KEY),
        "ledger.sequence",
    ),
    "wrong count in the seal": (lambda ls: rechain(edit(ls, -1, count=3), KEY), "ledger.sequence"),
}


@pytest.mark.parametrize("case", CASES, ids=CASES)
def test_a_forged_record_is_refused_with_its_reason(forged, case):
    change, code = CASES[case]
    report = forged(change)
    assert not report.ok
    assert report.code == code, report.reason
    expected = "budget_exceeded" if code == "ledger.budget" else "invalid_submission"
    assert report.outcome == expected


def test_other_actions_are_refused(honest, tmp_path):
    (tmp_path / "ledger.jsonl").write_bytes((honest / "ledger.jsonl").read_bytes())
    data = bytearray((honest / "actions.f32").read_bytes())
    data[5] ^= 1
    (tmp_path / "actions.f32").write_bytes(data)
    expect = Expect(spec=SPEC, deployment_id=KEY.public.deployment_id)
    assert verify(tmp_path / "ledger.jsonl", KEY.public, expect).code == "ledger.chain"
    (tmp_path / "actions.f32").unlink()
    assert verify(tmp_path / "ledger.jsonl", KEY.public, expect).code == "ledger.files"


def test_links_and_missing_files_have_their_reason(honest, tmp_path):
    expect = Expect(spec=SPEC)
    assert verify(tmp_path / "ledger.jsonl", KEY.public, expect).code == "ledger.missing"
    (tmp_path / "ledger.jsonl").symlink_to(honest / "ledger.jsonl")
    assert verify(tmp_path / "ledger.jsonl", KEY.public, expect).code == "ledger.files"


def test_a_partial_record_needs_to_be_asked_for(forged):
    def change(lines):
        return lines[: index_of(lines, "checkpoint") + 1]

    assert forged(change).code == "ledger.unsealed"
    partial = Expect(spec=SPEC, partial=True)
    assert forged(change, expect=partial).ok


def test_one_writer_at_a_time_and_a_sealed_folder_stays_sealed(honest, tmp_path):
    first = Ledger(tmp_path, KEY)
    with pytest.raises(SessionOwned):
        Ledger(tmp_path, KEY)
    first.close()
    with pytest.raises(SessionSealed, match="only the first sealed session"):
        Ledger(honest, KEY)


def test_a_torn_last_line_is_dropped_and_other_damage_is_not(tmp_path):
    ledger = Ledger(tmp_path, KEY)
    ledger.append("open", {"n": 1})
    ledger.append("lease", {"n": 2})
    ledger.close()
    path = tmp_path / "ledger.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"i":2,"k":"charge"')
    again = Ledger(tmp_path, KEY)
    assert again.dropped_bytes == 19 and again.count == 2 and path.read_bytes() == whole
    again.close()
    path.write_bytes(whole.replace(b'"n":1', b'"n":7'))
    with pytest.raises(LedgerDamaged, match="ledger record 1: chain broken"):
        Ledger(tmp_path, KEY)


def test_keys_are_private_files(tmp_path):
    KEY.save(tmp_path / "broker.key", tmp_path / "broker.pub")
    assert (tmp_path / "broker.key").stat().st_mode & 0o777 == 0o600
    assert VerifyKey.load(tmp_path / "broker.pub").deployment_id == KEY.public.deployment_id
    (tmp_path / "broker.key").chmod(0o644)
    with pytest.raises(Exception, match="chmod 600"):
        SigningKey.load(tmp_path / "broker.key")
