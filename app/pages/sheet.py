"""The form for a job on one dataset, its request to the API, and its submission."""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fastapi.responses import HTMLResponse

from app.http.errors import ApiError
from app.http.work import in_turn
from app.pages import words
from app.pages.api import part as path_part
from app.pages.forms import MAX_OPTIONS, Field, document, missing, read_number, with_defaults
from app.pages.frame import Visit
from app.wire import MOST_CONDITIONS
from purse.wire.problems import Violation
from purse.wire.statistics import RESULTS

Kind = Literal["model", "tuning", "statistic", "evaluation"]
MAX_HISTOGRAMS = 20  # jobs of one form
_SCHEMAS: dict[Kind, str] = {
    "model": "JobRequest",
    "tuning": "TuningRequest",
    "statistic": "StatisticRequest",
    "evaluation": "EvaluationRequest",
}
_PATHS: dict[Kind, str] = {"model": "/v1/jobs", "statistic": "/v1/statistics", "tuning": "/v1/tunings"}
_COMMON_FIELDS = (
    "model",
    "target",
    "positive",
    "inference",
    "features",
    "method",
    "by",
    "columns",
    "where",
    "candidates",
    "repeats",
    "privacy",
)
_ONLY_FOR_TABLE1 = {"by", "where"}
_ONLY_FOR_INFERENCE = {"family", "reference", "level"}
_NEVER_FOR_INFERENCE = {"loss", "method", "regularizer", "domain", "preparation", "slope_limit", "row_norm"}
_CHANGES: Mapping[str, dict[str, Any]] = {
    "by": {
        "required": True,
        "hint": "One or two category columns. Each combination of their categories is a group.",
    },
    "positive": {"hint": "The category whose probability the model predicts."},
    "columns": {"hint": "If none is checked, all columns that suit the statistic are used."},
    "features": {"hint": "Columns to predict from. If none is checked, all other columns are used."},
    "family": {
        "hint": "Poisson regression with log link is for counts: a number column from 0 to the largest count.",
    },
    "level": {"hint": "The confidence of each interval."},
    "where": {"hint": "Only rows that satisfy all conditions are described."},
    "inference": {
        "options": ("true",),
        "hint": "The standard errors of a regression table include sampling error and privacy noise.",
    },
}
_FACTOR_COLUMN = re.compile(r"terms\.\d+\.factors\.\d+\.column")
_OF_NUMBERS = frozenset(name for name, result in RESULTS.items() if result.is_of_numbers)
_SEVERAL = "For one of several, write commas between them."
_TABLES = Field(
    "counts_of_several_columns",
    "choice",
    hint="A histogram counts the values of one column. Each histogram is a job of its own, with the epsilon below. A "
    "cross table counts every combination of values of the chosen columns.",
    options=("cross table",),
    default="one histogram per column",
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """The form for a job on one dataset, as far as it is filled in.

    Parameters
    ----------
    visit : the visitor's request
    dataset : the API's description of the dataset
    kind : kind of job
    fields : fields of the job's request
    forecast_fields : further fields of a forecast
    tables : for counts, the choice between histograms and a cross table
    """

    visit: Visit
    dataset: dict[str, Any]
    kind: Kind
    fields: list[Field]
    forecast_fields: list[Field]
    tables: Field | None = None

    @classmethod
    async def of(cls, visit: Visit, dataset_id: str, kind: Kind, values: dict[str, str]) -> "Sheet":
        """Return the form of the schema over the dataset's columns, with the values that were filled in."""
        dataset = await visit.api.get(f"/v1/datasets/{dataset_id}")
        return await in_turn(cls._filled, visit, dataset, kind, values)

    @classmethod
    def _filled(cls, visit: Visit, dataset: dict[str, Any], kind: Kind, values: dict[str, str]) -> "Sheet":
        statistic = values.get("method.name") if kind == "statistic" else None
        names = [column["name"] for column in dataset["columns"]]
        categories = _names_of_type(dataset, "category")
        described = _names_of_type(dataset, "number") if statistic in _OF_NUMBERS else names
        options = {"target": names, "features": names, "columns": described, "by": categories}
        options |= {f"where.{index}.column": names for index in range(MOST_CONDITIONS)}
        options |= {name: names for name in values if _FACTOR_COLUMN.fullmatch(name)}
        targets = [column for column in dataset["columns"] if column["name"] == values.get("target")]
        classes = targets[0].get("categories") if targets else None
        if classes is not None:
            options["positive"] = classes
        forms = visit.forms
        job_schema = forms.schemas["JobRequest"]["properties"]
        without = {"dataset"} | (set() if statistic == "table1" else _ONLY_FOR_TABLE1)
        without |= _NEVER_FOR_INFERENCE if values.get("inference") == "true" else _ONLY_FOR_INFERENCE
        without |= {"positive"} if classes is None else set()
        without |= {"columns"} if statistic == "profile" else set()
        fields = forms.fields(_SCHEMAS[kind], values, options, without)
        fields = [replace(each, **_CHANGES.get(each.name, {})) for each in fields]
        fields = [_with_values(each, dataset, values) if each.name == "where" else each for each in fields]
        is_counts = statistic == "counts"
        return cls(
            visit,
            dataset,
            kind,
            with_defaults(fields, _defaults(dataset, options.get("positive", ()))),
            forms.fields("ForecastRequest", values, {}, job_schema),
            replace(_TABLES, value=values.get(_TABLES.name, "")) if is_counts and len(names) > 1 else None,
        )

    @property
    def document(self) -> dict[str, Any]:
        """The request, as far as it is filled in."""
        subject = {} if self.kind == "evaluation" else {"dataset": self.dataset["id"]}
        request = subject | document(self.fields)
        groups = [group for field in self.fields if field.name == "where" for group in field.parts]
        for group, condition in zip(groups, request.get("where", ()), strict=True):
            [typed] = [part.value if part.kind == "text" else "" for part in group.parts if part.label == "value"]
            if typed:
                condition["value"] = self._condition_value(condition, typed)
        if request.get("method", {}).get("name") in _OF_NUMBERS:
            request.setdefault("columns", _names_of_type(self.dataset, "number"))
        return request

    def _condition_value(self, condition: Mapping[str, Any], text: str) -> Any:
        """Return the value of a condition. A category may be written as a number; `in` has a list."""
        is_category = condition.get("column") in _names_of_type(self.dataset, "category")
        texts = [each.strip() for each in text.split(",")] if condition.get("op") == "in" else [text.strip()]
        values = texts if is_category else [read_number(each) for each in texts]
        return values if condition.get("op") == "in" else values[0]

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The requests of all jobs of this form: one per column for histograms, otherwise one."""
        columns = self.document.get("columns") or [column["name"] for column in self.dataset["columns"]]
        if self.tables is None or self.tables.value or len(columns) == 1:
            return [self.document]
        if len(columns) > MAX_HISTOGRAMS:
            why = f"makes {len(columns)} histograms, but a form makes at most {MAX_HISTOGRAMS}: choose fewer columns"
            raise ApiError("out_of_range", violations=[Violation(where="body.columns", what=why)])
        return [self.document | {"columns": [column]} for column in columns]

    async def quote(self) -> dict[str, Any]:
        """Return the price of one job of this form. All histograms of a form have the same price."""
        priced: dict[str, Any] = (await self.visit.api.send("POST", "/v1/quotes", json=self.documents[0])).json()
        return priced

    async def submit(self, key: str) -> list[str]:
        """Submit the jobs of this form and return their ids; the same form and key again are the same jobs."""
        documents = self.documents
        keys = [key] if len(documents) == 1 else [f"{key}-{index}" for index in range(len(documents))]
        return [await self._submit_one(body, each) for body, each in zip(documents, keys, strict=True)]

    async def _submit_one(self, body: dict[str, Any], key: str) -> str:
        path = _PATHS.get(self.kind) or f"/v1/models/{path_part(str(body.pop('model', '')))}/evaluations"
        headers = {b"Idempotency-Key": key.encode()}
        return str((await self.visit.api.send("POST", path, json=body, headers=headers)).json()["id"])

    async def page(self, template: str, key: str | None = None, **context: Any) -> HTMLResponse:
        """Return the form or a part of it.

        Parameters
        ----------
        key : idempotency key of a request whose outcome is unknown; a fresh one if None
        """
        common = sorted(
            (field for field in self.fields if field.name in _COMMON_FIELDS),
            key=lambda field: _COMMON_FIELDS.index(field.name),
        )
        if self.tables is not None:
            common.insert(-1, self.tables)  # before the privacy
        return await self.visit.page(
            template,
            dataset=self.dataset,
            kind=self.kind,
            common_fields=common,
            other_fields=[field for field in self.fields if field.name not in _COMMON_FIELDS],
            forecast_fields=self.forecast_fields,
            missing=missing(self.fields),
            key=key or str(uuid.uuid4()),
            **context,
        )


def _with_values(field: Field, dataset: Mapping[str, Any], values: Mapping[str, str]) -> Field:
    """Return the list of conditions. The value of a category column is a choice among its declared categories."""
    columns = {column["name"]: column for column in dataset["columns"]}
    groups = []
    for group in field.parts:
        parts = {part.label: part for part in group.parts}
        column, comparison, value = parts["column"], replace(parts["op"], hint=""), parts["value"]
        chosen = columns.get(column.value, {})
        categories = tuple(chosen.get("categories", ()))
        if 0 < len(categories) <= MAX_OPTIONS:
            comparison = replace(comparison, options=("==", "!=", "in"))
            value = replace(value, kind="choice", options=categories, hint="A declared category.")
            if comparison.value == "in":
                checked = "\n".join(each for each in categories if f"{value.name}:{each}" in values)
                value = replace(value, kind="choices", value=checked, default="none", hint="Declared categories.")
        else:
            allowed = f"A value from {words.bounds(chosen)}." if "lower" in chosen else "A value of the column."
            value = replace(value, kind="text", hint=f"{allowed} {_SEVERAL}")
        groups.append(replace(group, parts=(column, comparison, value)))
    return replace(field, parts=tuple(groups))


def _names_of_type(dataset: Mapping[str, Any], column_type: str) -> list[str]:
    """Return the names of a dataset's columns of this type."""
    return [column["name"] for column in dataset["columns"] if column["type"] == column_type]


def _defaults(dataset: Mapping[str, Any], categories: Sequence[str]) -> dict[str, str]:
    """Return words for what applies if a field of a job stays empty."""
    defaults = {
        "privacy.delta": f"{words.number(dataset['budget']['delta'])}, the dataset's delta",
        "features": "all other columns",
        "loss": "chosen for the target",
        "preparation": "private where possible, otherwise declared",
        "slope_limit": "chosen from public facts",
        "row_norm": "no clipping",
        "positive": "none",
        "inference": "a model, for predictions",
        "family": "logistic for two classes, linear for a number",
        "by": "choose one or two columns",
    }
    if len(categories) == 2:
        defaults["positive"] = f"{categories[1]}, the second category"
    if len(categories) > 2:
        defaults["positive"] = "none: predict every category"
    return defaults
