"""From a run back to a request."""

import json
from dataclasses import asdict
from typing import Annotated

from pydantic import Field, TypeAdapter

from solvers.methods import Method, Run

_METHOD: TypeAdapter[Method] = TypeAdapter(Annotated[Method, Field(discriminator="name")])


def as_method(run: Run) -> Method:
    """Return the method with all fields given, as a request may state it; its JSON is that of the run."""
    return _METHOD.validate_json(json.dumps(asdict(run)))
