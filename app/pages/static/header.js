// The names in the first line of the file that was chosen become columns: read here, and nothing but they is sent.
// Where its dialect is declared only then they are read again, and take the place of what was read before.
"use strict";
const DIALECT = ["dialect-delimiter", "dialect-quote", "dialect-encoding"];
const declared = (id, otherwise) => document.getElementById(id)?.value || otherwise;
let former = [];

/** What browsers call an encoding; of UTF-16 its byte order mark tells which. */
function label(encoding, head) {
  if (encoding === "utf-16") return head[0] === 0xfe ? "utf-16be" : "utf-16le";
  return encoding === "latin-1" ? "windows-1252" : encoding;
}

/** Read the first line of the chosen file, and ask for its columns if the control that was changed can change them. */
async function readHeader(chosen, target) {
  const head = new Uint8Array(await chosen.files[0].slice(0, 65536).arrayBuffer());
  const text = new TextDecoder(label(declared("dialect-encoding", "utf-8"), head)).decode(head);
  const line = text.replace(/^\uFEFF/, "").split(/\r?\n/)[0];
  if (!/^["']?[\p{L}\p{N}]/u.test(line) || line.includes("\0") || line.startsWith("PAR1")) return;
  const quote = declared("dialect-quote", '"');
  const bare = (name) => (name.length > 1 && name.startsWith(quote) && name.endsWith(quote) ? name.slice(1, -1) : name);
  const names = line.split(declared("dialect-delimiter", ",").replace("\\t", "\t")).map((name) => bare(name.trim()));
  // who has removed a column does not want it back
  if (DIALECT.includes(target.id) && names.join("\n") === former.join("\n")) return;
  const values = { step: "header", header: names.join("\n"), former: former.join("\n") };
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
      taken(reading);
    }
  };
  document.addEventListener("change", ({ target }) => {
    if (target === chosen || DIALECT.includes(target.id)) read(target);
  });
  read(chosen);
}));
