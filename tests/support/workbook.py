"""A small Excel workbook (ECMA-376), written by hand: no library here writes one."""

import datetime as dt
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

Rows = Sequence[Sequence[object]]
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_OF = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_STYLES = f"""<styleSheet {_MAIN}><cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/></cellXfs>
</styleSheet>"""
_DATE, _TIME = 1, 2  # places of the styles


class Fault(str):
    """An error's name, such as #DIV/0!."""

    __slots__ = ()


def workbook(file: Path, sheets: Mapping[str, Rows]) -> Path:
    """Write these sheets of texts, numbers, booleans, dates and times. None leaves a cell out."""
    numbered = list(enumerate(sheets, start=1))
    named = "".join(f'<sheet name={quoteattr(name)} sheetId="{i}" r:id="r{i}"/>' for i, name in numbered)
    places = [(f"r{i}", "worksheet", f"worksheets/sheet{i}.xml") for i, _ in numbered] + [("s", "styles", "styles.xml")]
    kinds = [("workbook.xml", "sheet.main"), ("styles.xml", "styles")]
    kinds += [(f"worksheets/sheet{i}.xml", "worksheet") for i, _ in numbered]
    types = "".join(f'<Override PartName="/xl/{part}" ContentType="{_KIND}.{kind}+xml"/>' for part, kind in kinds)
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{types}</Types>',
        "_rels/.rels": _relations([("w", "officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": f'<workbook {_MAIN} xmlns:r="{_OF}"><sheets>{named}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": _relations(places),
        "xl/styles.xml": _STYLES,
    }
    parts |= {f"xl/worksheets/sheet{i}.xml": _sheet(sheets[name]) for i, name in numbered}
    with zipfile.ZipFile(file, "w") as packed:
        for part, text in parts.items():
            packed.writestr(part, _HEAD + text)
    return file


def _relations(places: Sequence[tuple[str, str, str]]) -> str:
    each = "".join(f'<Relationship Id="{i}" Type="{_OF}/{kind}" Target="{at}"/>' for i, kind, at in places)
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{each}</Relationships>'


def _sheet(rows: Rows) -> str:
    lines = [f'<row r="{r}">{"".join(map(_cell, cells, _names(r)))}</row>' for r, cells in enumerate(rows, start=1)]
    return f"<worksheet {_MAIN}><sheetData>{''.join(lines)}</sheetData></worksheet>"


def _names(row: int) -> list[str]:
    return [f"{letter}{row}" for letter in "ABCDEFGHIJ"]


def _cell(value: object, name: str) -> str:
    match value:
        case None:
            return ""
        case Fault():
            return f'<c r="{name}" t="e"><v>{value}</v></c>'
        case bool():
            return f'<c r="{name}" t="b"><v>{int(value)}</v></c>'
        case dt.datetime() | dt.date():
            at = value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)
            days = (at - dt.datetime(1899, 12, 30)) / dt.timedelta(days=1)
            return f'<c r="{name}" s="{_TIME if isinstance(value, dt.datetime) else _DATE}"><v>{days!r}</v></c>'
        case int() | float():
            return f'<c r="{name}"><v>{value!r}</v></c>'
    return f'<c r="{name}" t="inlineStr"><is><t xml:space="preserve">{escape(str(value))}</t></is></c>'
