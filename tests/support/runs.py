"""From a run back to a request."""

import json
from dataclasses import asdict
from typing import Annotated

from pydantic import Field, TypeAdapter

from solvers.methods import Method, Run

_METHOD: TypeAdapter[Method] = TypeAdapter(Annotated[Method, Field(discriminator="name")])


def asked(run: Run) -> Method:
    """The method with every field given, as a request may name it: its JSON is the run's."""
    return _METHOD.validate_json(json.dumps(asdict(run)))
