// Checks the files that a person drops on the page. A receipt is checked against keys from elsewhere. No request is made.

import { curve, element, minute, table } from "./chart.js";
import { follow } from "./ledger.js";
import { Invalid, gaussDelta, isSession, parse, verify } from "./receipt.js";

const VERDICTS = new Map([[true, "valid"], [false, "not valid"], [null, "not computed here"]]);

/** Return a number without rounding errors such as 0.4999999999. */
const readable = (value) => String(Number(value.toPrecision(6)));
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const read = async (file) => {
  const bytes = await file.arrayBuffer();
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new Invalid(`${file.name} is not text in UTF-8`);
  }
};

/** Return the files by their content: a receipt, keys, an exported ledger, or a released document. */
export function sorted(texts) {
  const files = {};
  for (const text of texts) {
    let value = null;
    try {
      value = parse(text);
    } catch {
      // a ledger: one JSON document per line
    }
    const has = (key) => value !== null && typeof value === "object" && Object.hasOwn(value, key);
    if (value === null || (has("sequence") && has("body"))) files.ledger = text;
    else files[has("receipt") ? "receipt" : has("keys") ? "keys" : "model"] = text;
  }
  return files;
}

/** Return the check whether a verified ledger contains the release of the receipt. */
function inLedger(receipt, ledger) {
  const wrong = ledger.wrong(receipt);
  const kind = isSession(receipt) ? "end" : "release";
  const says = wrong ?? `entry ${receipt.sequence} of this ledger is its ${kind}, and its charge is as stated`;
  return { what: "ledger", holds: wrong === null, says };
}

/** Return the results of all checks; throw `Invalid` if a text is malformed or there is no receipt. */
export async function results(texts, keys, ledger = null) {
  const files = sorted(texts);
  if (files.receipt === undefined) {
    throw new Invalid("none of these files is a receipt. A job's page saves it under Save the receipt");
  }
  const result = await verify(files.receipt, files.keys ?? keys, { model: files.model ?? null });
  const lines = files.ledger?.split("\n").filter((line) => line.trim() !== "");
  const followed = lines ? await follow(lines.map(parse)) : ledger;
  if (followed) result.checks.push(inLedger(result.receipt, followed));
  const holds = result.checks.some((check) => check.holds === false) ? false : result.holds;
  return { ...result, holds, own: files.keys !== undefined };
}

/** Return rows of facts about the release or the session. */
function about(receipt) {
  if (!isSession(receipt)) return [["job", receipt.job], ["method", receipt.method.name]];
  const uses = receipt.plan.map((each) => `${each.recorded} of ${each.count} ${each.event.type}`);
  return [
    ["session", `${receipt.session}, ${receipt.state}`],
    ["recorded", `${uses.join(", ")}: ${receipt.asserted}`],
    ["charged", `${receipt.charged}, epsilon ${readable(receipt.charged_epsilon)}`],
  ];
}

const OUTCOMES = { // the class and the words of a verdict
  true: ["note valid", "The receipt is valid."],
  null: ["note", "All checks that this page can make are valid. Some values are not computed here."],
  false: ["wrong", "The receipt is not valid."],
};

function show(output, { receipt, checks, holds, mu, own }) {
  const [kind, verdict] = OUTCOMES[holds];
  const rows = checks.map((check) => [check.what, VERDICTS.get(check.holds), check.says]);
  const facts = [
    ["dataset", receipt.dataset_name],
    ["analyst", receipt.analyst],
    ...about(receipt),
    ["stated", `epsilon ${readable(receipt.epsilon)} at delta ${receipt.delta}, ${receipt.neighbors}`],
    ["issued", `${minute(Date.parse(receipt.issued_at) / 1000)} UTC`],
    ["keys", own ? "from your file" : "as this service publishes them now"],
  ];
  output.replaceChildren(
    element("p", verdict, [], { class: kind }),
    table([], rows, { "aria-label": "Checks" }),
    table([], facts, { "aria-label": "Receipt" }),
  );
  if (holds === false || mu === null) return;
  const container = element("div", "", [], { class: "chart", role: "img" });
  container.setAttribute("aria-label", `Delta against epsilon of this release alone, mu ${mu.toPrecision(4)}`);
  output.append(element("p", "Delta against epsilon, for this release alone:"), container);
  curve(container, (epsilon) => gaussDelta(mu, epsilon), Math.max(2 * receipt.epsilon, 1e-3));
}

/** Check the latest files, and write the result into the form's output. */
async function check(form, texts) {
  form.texts = texts;
  const output = form.querySelector("output");
  const turn = (form.turn = (form.turn ?? 0) + 1);
  let write;
  try {
    const result = await results(await Promise.all(texts), form.dataset.keys, form.ledger);
    write = () => show(output, result);
  } catch (error) {
    const reason = `The files cannot be checked: ${error.message}.`;
    write = () => output.replaceChildren(element("p", reason, [], { class: "wrong" }));
  }
  await untilReleased();
  if (turn === form.turn) write();
}

for (const form of document.querySelectorAll("form[data-keys]")) {
  const files = (list) => check(form, Array.from(list, read));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("input[type=file]").addEventListener("change", (event) => files(event.target.files));
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    files(event.dataTransfer.files);
  });
  form.addEventListener("followed", () => form.texts && check(form, form.texts)); // the ledger can be compared now
  const pageReceipt = document.querySelector("[data-receipt]"); // the receipt of this page
  const chosen = form.querySelector("input[type=file]").files; // chosen before this script was loaded
  if (chosen.length) files(chosen);
  else if (pageReceipt) check(form, [pageReceipt.textContent]);
}
