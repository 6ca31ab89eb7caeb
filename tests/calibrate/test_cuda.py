from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

from calibrate.doctor import remedy_for
from calibrate.environments import REQUIREMENTS
from calibrate.worker import provider

CUDA = "CUDAExecutionProvider"


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build of ONNX Runtime whose CUDA library is there and no library at all."""
    library = tmp_path / "onnxruntime" / "capi" / "libonnxruntime_providers_cuda.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"nothing that a loader takes")
    monkeypatch.setattr(onnxruntime, "__file__", str(tmp_path / "onnxruntime" / "__init__.py"))
    monkeypatch.setattr(provider, "_SAID", {})
    return library


def test_cuda_of_the_wheels_is_loaded_first(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA and cuDNN that lie in wheels are loaded before the provider's library is tried, whose words are then told."""
    calls: list[str] = []
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: calls.append("preload"), raising=False)
    assert build.name in (provider.loader_says(CUDA) or "")
    assert calls == ["preload"]
    provider.loader_says(CUDA)
    assert calls == ["preload"]  # asked once a process


def test_a_preload_that_fails_hides_nothing(
    build: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is not in wheels may be the system's: a failing preload is no error, and the loader has the last word."""

    def fails() -> None:
        raise RuntimeError("no nvidia wheels here")

    monkeypatch.setattr(onnxruntime, "preload_dlls", fails, raising=False)
    assert build.name in (provider.loader_says(CUDA) or "")
    monkeypatch.delattr(onnxruntime, "preload_dlls")
    monkeypatch.setattr(provider, "_SAID", {})
    assert build.name in (provider.loader_says(CUDA) or "")  # versions before 1.21 have none


def test_what_to_do_about_cuda() -> None:
    """A missing CUDA library is answered with both ways to get it, and the runtime brings what reads device memory."""
    said = remedy_for("libcublasLt.so.12: cannot open shared object file")
    assert "CUDA and cuDNN" in said
    assert "onnxruntime-gpu[cuda,cudnn]" in said
    assert any(wheel.startswith("nvidia-ml-py==") for wheel in REQUIREMENTS["cuda"])
