// The names in the first line of the file that was chosen become columns: read here, and nothing but they is sent.
"use strict";
document.addEventListener("change", async ({ target }) => {
  if (!target.dataset.header || !target.files.length) return;
  const head = new Uint8Array(await target.files[0].slice(0, 65536).arrayBuffer());
  const value = (id, otherwise) => document.getElementById(id)?.value || otherwise;
  const line = new TextDecoder(value("dialect-encoding", "utf-8")).decode(head).split(/\r?\n/)[0];
  if (!/^[\p{L}\p{N}]/u.test(line.replace(/^["'\uFEFF]+/, "")) || line.includes("\0") || line.startsWith("PAR1")) return;
  const names = line.replace(/^\uFEFF/, "").split(value("dialect-delimiter", ","));
  const header = names.map((name) => name.trim().replace(/^"(.*)"$/, "$1")).join("\n");
  htmx.ajax("POST", target.dataset.header, { source: "#editor", target: "#editor", swap: "innerMorph", values: { step: "header", header } });
});
