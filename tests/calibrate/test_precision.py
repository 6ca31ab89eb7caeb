from __future__ import annotations

from pathlib import Path

import pytest

from calibrate.artifacts import Artifact
from calibrate.plan import cells_of
from calibrate.precision import asked_options, check_precisions, with_precisions
from calibrate.provider_options import Known
from calibrate.results import OptionRecord
from profiles.errors import InputError

ARTIFACT = Artifact("m", "fp32", "embedding", Path("/m.onnx"), "sha256:m", 1000, 10)


def _known(**accepted: bool) -> Known:
    records = tuple(
        OptionRecord(kind="option", name=name, value="1", accepted=ok, reason=None if ok else "Invalid option")
        for name, ok in accepted.items()
    )
    return Known({"device_id": "0"}, records)


def test_a_conversion_is_an_artifact_of_its_own_on_its_provider() -> None:
    """fp16 on MIGraphX gives cells `fp32-as-fp16` with the option, beside `fp32` without; the CPU has only fp32."""
    known = {"migraphx": _known(migraphx_fp16_enable=True), "cpu": Known({})}
    artifacts, notes = with_precisions([ARTIFACT], ["fp16"], known)
    options = {p: k.options for p, k in known.items()}
    cells = cells_of(artifacts, ["cpu", "migraphx"], [16], [1], 1, options)
    assert [(c.artifact, c.provider, dict(c.options)) for c in cells] == [
        ("fp32", "cpu", {}),
        ("fp32", "migraphx", {"device_id": "0"}),
        ("fp32-as-fp16", "migraphx", {"device_id": "0", "migraphx_fp16_enable": "1"}),
    ]
    assert len({c.key for c in cells}) == 3
    assert notes == []


def test_a_build_that_does_not_know_it_is_told() -> None:
    """bf16 on a build without the option is left out with a note; where nothing loads, the cells are kept to say why."""
    artifacts, notes = with_precisions([ARTIFACT], ["bf16"], {"migraphx": _known(migraphx_bf16_enable=False)})
    assert artifacts == [ARTIFACT]
    assert notes == ["migraphx: bf16 was not measured: this build refuses migraphx_bf16_enable=1 (Invalid option)"]
    artifacts, _ = with_precisions([ARTIFACT], ["bf16"], {"migraphx": Known({}, fell_back="no library")})
    assert [a.artifact for a in artifacts] == ["fp32", "fp32-as-bf16"]


def test_wrong_precisions() -> None:
    """An unknown name, and one that none of the providers converts to, are wrong input."""
    with pytest.raises(InputError, match="did you mean 'fp16'"):
        check_precisions(["fp61"], ["migraphx"])
    with pytest.raises(InputError, match="only migraphx convert to it"):
        check_precisions(["bf16"], ["openvino"])
    check_precisions(["fp16", "bf16"], ["migraphx"])


def test_the_options_behind_it_are_looked_at() -> None:
    """What a conversion gives is tried for an effect, as is what the person gave."""
    asked = asked_options({"migraphx": {"migraphx_exhaustive_tune": "1"}}, ["fp16"])
    assert asked["migraphx"] == {"migraphx_fp16_enable": "1", "migraphx_exhaustive_tune": "1"}
