"""The JSON Schemas in docs/reference/schema/ are those of the code, and shipped files obey them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from profiles import store
from scenarios import loader

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference" / "schema"


def schema_of(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    return content


def test_the_script_writes_the_same_schemas_again(tmp_path: Path) -> None:
    """A change of a file format that forgets its schema fails here; run tools/build_schemas.py."""
    subprocess.run(
        [sys.executable, ROOT / "tools" / "build_schemas.py", "--out", tmp_path], check=True, capture_output=True
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in FOLDER.iterdir())
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (FOLDER / path.name).read_bytes(), f"{path.name}: run tools/build_schemas.py"


@pytest.mark.parametrize("name", ["profile", "plan", "scenario", "result", "validation", "trace"])
def test_each_schema_is_a_schema(name: str) -> None:
    """What we publish is itself valid JSON Schema."""
    jsonschema.Draft202012Validator.check_schema(schema_of(name))


@pytest.mark.parametrize("name", loader.shipped_names())
def test_shipped_scenarios_obey_the_schema(name: str) -> None:
    """A tool that knows only the schema accepts the scenarios that we ship."""
    data = yaml.safe_load(loader.locate(name).read_text(encoding="utf-8"))
    jsonschema.validate(data, schema_of("scenario"), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("name", store.shipped_names())
def test_shipped_profiles_obey_the_schema(name: str) -> None:
    """A tool that knows only the schema accepts the profiles that we ship."""
    data = json.loads(store.locate(name).read_text(encoding="utf-8"))
    jsonschema.validate(data, schema_of("profile"), cls=jsonschema.Draft202012Validator)


def test_the_schema_refuses_an_unknown_key() -> None:
    """The schema is as strict as the reader about keys."""
    data = yaml.safe_load(loader.locate("longctx").read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError, match="replicas"):
        jsonschema.validate({**data, "replicas": 3}, schema_of("scenario"), cls=jsonschema.Draft202012Validator)
