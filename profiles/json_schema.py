"""The JSON Schema of a file format of ours, generated from its pydantic model.

Enters: a model whose field `schema` names the format. Leaves: a dict in draft 2020-12. The schema says types, ranges and
required keys; rules that join several keys (weights that sum to 1, names that must exist) live in the model only.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema, with the dialect and the format's own name first."""
    body = model.model_json_schema(by_alias=True)
    name = body["properties"]["schema"]["const"]
    return {"$schema": DIALECT, "title": name, **{key: value for key, value in body.items() if key != "title"}}


def dumps(model: type[BaseModel]) -> str:
    """The schema as the text that we print and commit."""
    return json.dumps(json_schema(model), indent=2, ensure_ascii=False) + "\n"
