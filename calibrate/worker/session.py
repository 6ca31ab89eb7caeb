"""Create a session as the job says, and make inputs of one shape for it.

Enters: job keys `model` (path), `provider` (ONNX Runtime's name), `provider_options`, `threads`, `max_id`, `custom_ops` (a
library to register, or None). Leaves: a session that has the provider, or a FellBackError with the library's own reason; a
feed of int arrays [batch, tokens], and of normal floats [batch, channels, height, width] for `pixel_values` where the model fixes the image's size.
An input that we cannot make up honestly is an UnsupportedInputError.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np
import onnxruntime

from .provider import captured, loader_says, reason_in

INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
IMAGE = "pixel_values"
KNOWN = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
CPU = "CPUExecutionProvider"
WARNING = 2  # above it, one build hides why its provider does not load


class UnsupportedInputError(Exception):
    """The model asks for an input that is not one of KNOWN, or not as [batch, tokens] integers."""


class FellBackError(Exception):
    """The session does not have the provider that was asked for. providers: those it has, none where creating failed."""

    def __init__(self, reason: str, providers: List[str]) -> None:
        super().__init__(reason)
        self.providers = providers


def create(job: Dict[str, Any], profile_prefix: Optional[str] = None) -> Any:
    """A fresh InferenceSession that has the provider; with `profile_prefix` one that writes ONNX Runtime's profile there."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(job["threads"])
    options.inter_op_num_threads = 1
    if job.get("custom_ops"):
        options.register_custom_ops_library(job["custom_ops"])
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    asked = [(job["provider"], job.get("provider_options", {}))]

    def make() -> Any:
        # enable_fallback=0: a provider that does not load shall say so and not hand the work to another in silence
        return onnxruntime.InferenceSession(job["model"], options, providers=asked, enable_fallback=0)

    return make() if job["provider"] == CPU else _with_provider(str(job["provider"]), make)


def _with_provider(provider: str, make: Callable[[], Any]) -> Any:
    """The session that `make` gives, if it has the provider; otherwise a FellBackError with every reason there is."""
    onnxruntime.set_default_logger_severity(WARNING)
    loader = loader_says(provider)
    session, failure = None, ""
    with captured() as told:
        try:
            session = make()
        except Exception as error:
            failure = str(error)
    held = list(session.get_providers()) if session is not None else []
    if provider in held:
        return session
    said = reason_in(failure) or reason_in(told[0])
    words = [loader] if loader else []
    if said and not (loader and said == loader):
        words.append("ONNX Runtime: " + said)
    raise FellBackError("; ".join(words) or "the library gave no reason", held)


def check_inputs(session: Any) -> None:
    """Raise UnsupportedInputError, naming the input, unless we can feed every one."""
    for item in session.get_inputs():
        if item.name == IMAGE and item.type == "tensor(float)" and _fixed_image(item.shape):
            continue
        described = f"input {item.name!r} ({item.type}, shape {list(item.shape)})"
        if item.name not in KNOWN:
            raise UnsupportedInputError(f"{described} is not one of {', '.join(KNOWN)}")
        if item.type not in INTEGERS or len(item.shape) != 2:
            raise UnsupportedInputError(f"{described} is not a [batch, tokens] tensor of int64 or int32")


def _fixed_image(shape: Any) -> bool:
    """Whether everything but the batch is a number: otherwise the size would be our invention, and time depends on it."""
    return len(shape) == 4 and all(isinstance(side, int) for side in shape[1:])


def feed(session: Any, job: Dict[str, Any]) -> Dict[str, Any]:
    """Inputs of shape [batch, tokens] without padding; token ids are uniform in [1, max_id) from the job's seed."""
    check_inputs(session)
    batch, tokens = int(job["batch"]), int(job["tokens"])
    generator = np.random.default_rng([int(job["seed"]), batch, tokens])
    values = {
        "input_ids": generator.integers(1, int(job["max_id"]), (batch, tokens)),
        "attention_mask": np.ones((batch, tokens)),
        "token_type_ids": np.zeros((batch, tokens)),
        "position_ids": np.broadcast_to(np.arange(tokens), (batch, tokens)),
    }
    made = {}
    for item in session.get_inputs():
        if item.name == IMAGE:
            made[IMAGE] = generator.standard_normal((batch, *item.shape[1:]), dtype=np.float32)
        else:
            made[item.name] = np.ascontiguousarray(values[item.name], dtype=INTEGERS[item.type])
    return made
