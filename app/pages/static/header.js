// Reads the first lines of the chosen CSV file. The header's names become columns. The format and the columns' types are
// guessed, shown in the form, and sent only from there. If the format is changed by hand, the header is read again.
"use strict";
const HEAD_BYTES = 65536;
const LINES_READ = 50;
const DELIMITERS = [",", ";", "\t", "|"];
const BINARY = [[0x50, 0x41, 0x52, 0x31], [0x1f, 0x8b], [0x28, 0xb5, 0x2f, 0xfd]]; // Parquet, gzip, Zstandard
const ISO = "%Y-%m-%d";
const DATES = { [ISO]: /^\d{4}-\d{2}-\d{2}$/, "%d.%m.%Y": /^\d{1,2}\.\d{1,2}\.\d{4}$/ };
const NULL = /^(|na|n\/a|nan|null|none|nil)$/i; // values that stand for a missing one
const DIALECT = ["dialect-delimiter", "dialect-quote", "dialect-encoding"];
const guesses = new Map(); // by the id of a control
let former = [];

const declared = (id, otherwise) => document.getElementById(id)?.value || otherwise;

/** Return the encoding of a file's first bytes. */
function guessEncoding(head) {
  if ((head[0] === 0xff && head[1] === 0xfe) || (head[0] === 0xfe && head[1] === 0xff)) return "utf-16";
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true }); // a character may be cut at the end
    return "utf-8";
  } catch {
    return "latin-1";
  }
}

/** Return what browsers call an encoding. The byte order mark of UTF-16 states its order. */
function label(encoding, head) {
  if (encoding === "utf-16") return head[0] === 0xfe ? "utf-16be" : "utf-16le";
  return encoding === "latin-1" ? "windows-1252" : encoding;
}

/** Return the fields of a line; a delimiter inside quotes separates nothing. */
function split(line, delimiter, quote) {
  const fields = [""];
  let isQuoted = false;
  for (const character of line) {
    if (character === quote) isQuoted = !isQuoted;
    else if (character === delimiter && !isQuoted) fields.push("");
    else fields[fields.length - 1] += character;
  }
  return fields.map((field) => field.trim());
}

/** Return the delimiter that splits the header into most fields. */
function guessDelimiter(header, quote) {
  const count = (delimiter) => split(header, delimiter, quote).length;
  return DELIMITERS.reduce((best, each) => (count(each) > count(best) ? each : best));
}

/** Return the decimal mark: a comma if fields are numbers with one, and none is a number with a point. */
function guessDecimal(fields, delimiter) {
  const some = (pattern) => fields.some((field) => pattern.test(field));
  return delimiter !== "," && some(/^[-+]?[\d.]*\d,\d+$/) && !some(/^[-+]?\d+\.(?!\d{3}$)\d+$/) ? "," : ".";
}

/** Return the mark between groups of three digits: a point or a comma if a number has one before its decimals. */
function guessThousands(fields, decimal) {
  const grouped = decimal === "," ? /^[-+]?\d{1,3}(\.\d{3})+,\d+$/ : /^[-+]?\d{1,3}(,\d{3})+\.\d+$/;
  if (!fields.some((field) => grouped.test(field))) return "";
  return decimal === "," ? "." : ",";
}

/** Return the format of the dates in a file: the first one that all values of a column have, otherwise ISO dates. */
function guessDateFormat(rows) {
  const columns = rows[0]?.map((_, index) => rows.map((row) => row[index])) ?? [];
  return Object.keys(DATES).find((format) => columns.some((values) => areDates(values, format))) ?? ISO;
}

/** Return whether the values that are present are dates in a format, and there is one. */
function areDates(values, format) {
  const present = values.filter((value) => !NULL.test(value));
  return present.length > 0 && present.every((value) => DATES[format]?.test(value));
}

/** Return `date` if every value of a column that is present is a date, `number` if it is a number, or `category`. */
function guessType(values, decimal, dateFormat) {
  if (areDates(values, dateFormat)) return "date";
  const number = decimal === "," ? /^[-+]?\d[\d. ]*(,\d+)?$/ : /^[-+]?(\d[\d,]*)?\.?\d+(e[-+]?\d+)?$/i;
  return values.every((value) => NULL.test(value) || number.test(value)) ? "number" : "category";
}

/** Write a guess into its control, unless somebody has chosen otherwise there; return the control's value. */
function fill(id, guess, usual) {
  const control = document.getElementById(id);
  const written = guess === usual ? "" : guess.replace("\t", "\\t");
  if (control.value === "" || control.value === guesses.get(id)) {
    control.value = written;
    guesses.set(id, written);
  }
  return (control.value || usual).replace("\\t", "\t");
}

function showGuesses(delimiter, encoding, decimal, thousands, dateFormat) {
  const names = { ",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars" };
  const note = document.getElementById("guesses");
  note.textContent =
    `Format of the file: fields separated by ${names[delimiter] ?? delimiter}, encoding ${encoding}, ` +
    `decimal mark “${decimal}”${thousands && `, thousands separator “${thousands}”`}` +
    `${dateFormat === ISO ? "" : `, dates as ${dateFormat}`}. If this is wrong, correct it under “File format”. ` +
    "The types of the columns are guessed from the first lines: check each of them.";
  note.hidden = false;
}

/** Read the chosen file's first lines, and request its columns if the control that was changed can change them. */
async function readHeader(chosen, target) {
  const head = new Uint8Array(await chosen.files[0].slice(0, HEAD_BYTES).arrayBuffer());
  if (BINARY.some((magic) => magic.every((byte, index) => head[index] === byte))) return;
  const quote = declared("dialect-quote", '"');
  const encoding = fill("dialect-encoding", guessEncoding(head), "utf-8");
  const text = new TextDecoder(label(encoding, head)).decode(head).replace(/^\uFEFF/, "");
  const [header, ...lines] = text.split(/\r?\n/).slice(0, LINES_READ + 1);
  if (!/^["']?[\p{L}\p{N}]/u.test(header) || header.includes("\0")) return;
  const delimiter = fill("dialect-delimiter", guessDelimiter(header, quote), ",");
  const names = split(header, delimiter, quote);
  const rows = lines.map((line) => split(line, delimiter, quote)).filter((row) => row.length === names.length);
  const fields = rows.flat();
  const decimal = fill("dialect-decimal", guessDecimal(fields, delimiter), ".");
  const thousands = fill("dialect-thousands", guessThousands(fields, decimal), "");
  fill("dialect-nulls", [...new Set(fields)].filter((field) => field && NULL.test(field)).join("\n"), "");
  const dateFormat = fill("dialect-date_format", guessDateFormat(rows), ISO);
  showGuesses(delimiter, encoding, decimal, thousands, dateFormat);
  // a column that was removed by hand is not added again
  if (DIALECT.includes(target.id) && names.join("\n") === former.join("\n")) return;
  const types = names.map((_, index) => guessType(rows.map((row) => row[index]), decimal, dateFormat));
  const values = { step: "header", header: names.join("\n"), types: types.join("\n"), former: former.join("\n") };
  former = names;
  htmx.ajax("POST", chosen.dataset.header, { source: "#editor", target: "#editor", swap: "innerMorph", values });
}

document.addEventListener("DOMContentLoaded", () => setTimeout(() => { // every script is there by then
  const chosen = document.querySelector("[data-header]");
  const read = async (target) => {
    if (chosen.files.length === 0) return;
    const reading = {};
    taking.add(reading); // a click on the button to send waits until the columns are there
    try {
      await readHeader(chosen, target);
    } finally {
      finish(reading);
    }
  };
  document.addEventListener("change", ({ target }) => {
    if (target === chosen || DIALECT.includes(target.id)) read(target);
  });
  read(chosen);
}));
