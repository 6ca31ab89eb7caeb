"""Wrong scenario files, keys and flags, each with a part of the message that must answer it."""

from __future__ import annotations

from typing import Any

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)

FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "bad.yaml: the file is empty"),
    "only_a_comment": (b"# nothing\n", "bad.yaml: the file is empty"),
    "binary": (bytes(range(128, 256)) * 10, "bad.yaml: not UTF-8 text (byte 0"),
    "other_encoding": ("question: café\n".encode("latin-1"), "bad.yaml: not UTF-8 text (byte 13"),
    "nul_byte": (b"name: a\x00b\n", "bad.yaml: not YAML: unacceptable character #x0000"),
    "not_yaml": (b"name: longctx\nload: [1, 2\n", "bad.yaml:3: not YAML"),
    "tab": (
        b"node:\n\tcpu_workers: 1\n",
        "bad.yaml:2: not YAML: found character '\\t' that cannot start any token; indent",
    ),
    "a_list": (b"- 1\n- 2\n", "bad.yaml:1: expected a mapping of keys to values, found a list of 2"),
    "a_word": (b"longctx\n", "bad.yaml:1: expected a mapping of keys to values, found 'longctx'"),
    "bomb": (BOMB.encode(), "more than 200000 values once its aliases are expanded"),
    "self_alias": (b"a: &a [*a]\n", "bad.yaml:1: an alias refers to a node that contains it"),
    "deep": (b"a: " + b"[" * 3000 + b"]" * 3000, "bad.yaml: nested deeper than 64 levels"),
    "python_tag": (
        b"name: !!python/object/apply:os.getcwd []\n",
        "bad.yaml:1: not YAML: could not determine a constructor",
    ),
    "unreadable_value": (b'name: !!int ""\n', "bad.yaml: a value that YAML cannot read"),
    "impossible_date": (b"name: 2001-99-99\n", "bad.yaml: a value that YAML cannot read (month must be in 1..12)"),
    "repeated_key": (b"name: a\nnode: {cpu_workers: 1}\nname: b\n", "bad.yaml:3: key 'name' stands twice; keep one"),
    "no_schema": (b"name: a\n", "bad.yaml: key 'schema' is missing; this file should say: schema: simcap.scenario/1"),
    "newer": (b"schema: simcap.scenario/9\n", "bad.yaml:1: schema simcap.scenario/9 is newer than simcap.scenario/1"),
    "other_schema": (
        b"schema: simcap.profile/1\n",
        "bad.yaml:1: schema is 'simcap.profile/1', expected 'simcap.scenario/1'",
    ),
    "too_large": (b"#" * (4 * 1024 * 1024 + 1), "bytes is more than the 4194304 that such a file may have"),
}

KeyPath = tuple[str | int, ...]

KEYS: dict[str, tuple[KeyPath, Any, str]] = {
    "wrong_type": (("node", "cpu_workers"), "many", "node.cpu_workers: should be a whole number (found 'many')"),
    "true_for_a_number": (("signals", "pii", "sessions"), True, "signals.pii.sessions: expected no true or false"),
    "text_for_a_mapping": (("slo",), "fast", "slo: should be a mapping of keys to values (found 'fast')"),
    "unknown_key": (("lock_domian",), {}, "lock_domian: unknown key 'lock_domian'; did you mean 'lock_domains'?"),
    "unknown_inner_key": (("slo", "latency"), 5, "slo.latency: unknown key 'latency'; did you mean 'latency_ms'?"),
    "unknown_model": (
        ("signals", "pii", "model"),
        "mmbert32k-pij",
        "no model 'mmbert32k-pij'; did you mean 'mmbert32k-pii'?",
    ),
    "unknown_artifact": (
        ("signals", "pii", "artifact"),
        "ck_fa",
        "not as 'ck_fa' on 'rocm'; did you mean 'ck_fa_fp16 on rocm'?",
    ),
    "unknown_provider": (
        ("signals", "pii", "provider"),
        "rcom",
        "signals.pii.provider: not one of the values for this key; did you mean 'rocm'?",
    ),
    "too_short_text": (
        ("classes", "document", "tokens", "min"),
        100,
        "100 tokens is outside the calibrated range of 512 to 32768",
    ),
    "too_long_text": (
        ("classes", "document", "tokens", "max"),
        40000,
        "40000 tokens is outside the calibrated range of 512 to 32768",
    ),
    "min_above_max": (("classes", "document", "tokens", "min"), 40000, "min 40000 is above max 32768"),
    "negative_rate": (("load", "rps"), [-1, 2], "load.rps.0: should be greater than 0 (found -1)"),
    "falling_load": (("load", "rps"), [3, 2], "load points must increase without repeats, found [3.0, 2.0]"),
    "no_load": (("load",), {}, "load: give exactly one of"),
    "two_loads": (("load",), {"rps": [1], "clients": [2]}, "found rps, clients"),
    "load_of_another_process": (
        ("load",),
        {"clients": [2]},
        "load: arrivals.process 'poisson' takes load.rps, found load.clients",
    ),
    "unknown_process": (("arrivals", "process"), "possion", "arrivals: process is 'possion'; did you mean 'poisson'?"),
    "no_process": (("arrivals",), {}, "arrivals: key 'process' is required here and is missing"),
    "weights": (
        ("classes", "document", "weight"),
        0.5,
        "classes: the weights of classes sum to 0.5; they must sum to 1",
    ),
    "unknown_lock_domain": (
        ("signals", "pii", "lock_domain"),
        "tokne",
        "signals.pii.lock_domain: 'tokne' is not in lock_domains; did you mean 'token'?",
    ),
    "unknown_signal_in_a_stage": (
        ("stages",),
        [["intent", "jailbreak", "pij"]],
        "stages.0: 'pij' is not in signals; did you mean 'pii'?",
    ),
    "signal_twice": (("stages",), [["intent", "jailbreak", "pii", "pii"]], "'pii' stands twice"),
    "signal_in_no_stage": (("stages",), [["intent", "jailbreak"]], "signals.pii: this signal is in no stage"),
    "unknown_signal_of_a_class": (
        ("classes", "document", "signals"),
        ["pij"],
        "classes.document.signals: 'pij' is not in signals; did you mean 'pii'?",
    ),
    "unknown_law": (
        ("classes", "document", "tokens", "law"),
        "lognorm",
        "tokens: law is 'lognorm'; did you mean 'lognormal'?",
    ),
    "not_a_number": (("slo", "latency_ms"), float("nan"), "slo.latency_ms: should be a finite number (found nan)"),
    "infinite": (("slo", "latency_ms"), float("inf"), "slo.latency_ms: should be a finite number (found inf)"),
    "attainment_of_one": (("slo", "attainment"), 1.0, "slo.attainment: should be less than 1 (found 1.0)"),
    "too_few_replications": (
        ("measurement", "replications"),
        2,
        "measurement.replications: should be greater than or equal to 5 (found 2)",
    ),
    "falling_buckets": (("signals", "pii", "buckets"), [4096, 1024], "buckets must increase, found [4096, 1024]"),
    "bad_router": (
        ("router", "cpu"),
        "fast",
        "router.cpu: not one of the values for this key; valid: from_profile (found 'fast')",
    ),
    "unknown_profile": (
        ("profile",),
        "mi300x-publshed",
        "no profile 'mi300x-publshed' here and none shipped under that name; did you mean 'mi300x-published'?",
    ),
}

FLAGS: dict[str, tuple[list[str], str]] = {
    "set_without_value": (["--set", "measurement"], "--set 'measurement': expected key=value"),
    "set_unknown_key": (["--set", "measurement.replicas=9"], "--set measurement.replicas=9: measurement.replicas: unknown key 'replicas'; did you mean 'replications'?"),
    "set_below_text": (["--set", "name.x=1"], "name is 'longctx' and has no key 'x'"),
    "set_index_out_of_range": (["--set", "stages.3=x"], "stages is a list of 1; '3' is not one of its places"),
    "set_list_by_name": (["--set", "stages.0.x=y"], "stages.0 is a list of 3; 'x' is not one of its places"),
    "set_not_yaml": (["--set", "slo.latency_ms=[1"], "--set 'slo.latency_ms=[1':1: not YAML"),
    "set_bad_date": (["--set", "slo.latency_ms=2001-99-99"], "--set 'slo.latency_ms=2001-99-99': a value that YAML cannot read"),
    "set_bad_inner_value": (["--set", "classes.document.tokens={law: fixed, tokens: -3}"], "--set classes.document.tokens={law: fixed, tokens: -3}: classes.document.tokens.tokens: should be greater"),
    "negative_seed": (["--seed", "-1"], "Invalid value for '--seed'"),
    "seed_is_a_word": (["--seed", "x"], "Invalid value for '--seed'"),
    "missing_profile_file": (["--profile", "nope.json"], "profile nope.json: no such file"),
    "unknown_flag": (["--sed", "1"], "No such option"),
}  # fmt: skip
