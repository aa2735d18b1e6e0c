"""A file as a hospital has it: semicolons, latin-1, decimal commas, dates with points, several rows of a patient."""

from typing import Any

DIALECT: dict[str, Any] = {
    "delimiter": ";",
    "encoding": "windows-1252",
    "decimal": ",",
    "thousands": ".",
    "date_format": "%d.%m.%Y",
    "nulls": ["NA"],
}
COLUMNS: list[dict[str, Any]] = [
    {"name": "aufnahme", "type": "number", "lower": 18262, "upper": 20453, "date": "days"},
    {"name": "alter", "type": "number", "lower": 0, "upper": 110},
    {"name": "kosten", "type": "number", "lower": 0, "upper": 5000},
    {"name": "station", "type": "category", "categories": ["Chirurgie", "Geriatrie", "Säuglinge"]},
    {"name": "intensiv", "type": "category", "categories": ["0", "1"]},
]
UNIT: dict[str, Any] = {"column": "patient", "max_rows": 3}


def stays(patients: int = 300, intensive: str = "{}") -> bytes:
    """Return a file with two stays of each patient. One stay in fifty has no cost."""
    lines = ["patient;name;aufnahme;alter;kosten;station;intensiv"]
    for i in range(2 * patients):
        station = COLUMNS[3]["categories"][i % 3]
        cost = "NA" if i % 50 == 0 else f"{1000 + 7 * (i % 500):,},{i % 100:02d}".replace(",", ".", 1)
        day = f"{1 + i % 28:02d}.{1 + i % 12:02d}.202{i % 6}"
        name = f'"Müller; {i // 2}"'
        lines.append(f"P{i // 2};{name};{day};{20 + i // 2 % 70};{cost};{station};{intensive.format(int(i % 9 > 5))}")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")
