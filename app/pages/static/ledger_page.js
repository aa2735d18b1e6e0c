// Verifies the whole ledger in the browser, and compares the result with the statements of the server.

import { chart, curve, element, table, tabulate } from "./chart.js";
import "./check.js";
import { Ledger } from "./ledger.js";
import { HEAD, parse, wrongSignature } from "./receipt.js";

const page = document.querySelector("[data-entries]");
const at = (name) => page.querySelector(`[data-at=${name}]`);
const percent = (share) => `${Number((100 * share).toPrecision(3))} %`;
const agree = (a, b) => Math.abs(a - b) <= 1e-6 * Math.max(Math.abs(a), Math.abs(b)) + 1e-12;

const brief = ({ sequence, hash }) => `${sequence}:${hash.slice(0, 12)}…`;

/** Return the verified ledger, and show the progress. */
async function followed() {
  const ledger = new Ledger();
  for (let cursor = "0"; cursor !== null; ) {
    const answer = await fetch(`${page.dataset.entries}?cursor=${cursor}`);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const { items, next } = parse(await answer.text());
    for (const entry of items) await ledger.add(entry);
    at("state").textContent = `${ledger.sequence} entries verified …`;
    cursor = next;
  }
  return ledger;
}

/** Return the comparison as rows: name, computed value, stated value, and whether they agree. */
async function compared(ledger, stated) {
  const { signature, ...head } = stated.head;
  const wrong = await wrongSignature(head, signature, stated.keys, HEAD);
  const [spent, isIn] = [ledger.share(ledger.spent), ledger.heads.get(head.sequence) === head.hash];
  const rows = [
    ["head", brief(ledger), brief(head), isIn],
    ["head's signature", wrong ?? "made by a key of the service", "", wrong === null],
    ["spent", percent(spent), percent(stated.budget.share), agree(spent, stated.budget.share)],
  ];
  if (!ledger.whole) {
    const epsilon = ledger.epsilon(stated.budget.delta);
    const statedEpsilon = stated.budget.spent.epsilon;
    const digits = (value) => String(Number(value.toPrecision(4)));
    rows.push(["spent epsilon", digits(epsilon), digits(statedEpsilon), agree(epsilon, statedEpsilon)]);
  }
  for (const [name, part] of ledger.shares("analyst")) {
    const share = stated.budget.analysts.find((each) => each.analyst === name)?.share;
    if (share !== undefined) rows.push([`share of ${name}`, percent(part), percent(share), agree(part, share)]);
  }
  return rows;
}

/** Draw the shares, their history, and delta against epsilon. */
function draw(ledger, budget) {
  const shares = (by) => ledger.shares(by).map(([name, share, jobs]) => [name, String(jobs), percent(share)]);
  at("analysts").replaceChildren(table(["Analyst", "Charges", "Share"], shares("analyst")));
  at("methods").replaceChildren(table(["Method", "Charges", "Share"], shares("method")));
  const { times, total, parts } = ledger.history("analyst");
  if (times.length === 0) return;
  const today = Math.max(Date.now() / 1000, times.at(-1));
  const percents = (values) => [...values, values.at(-1)].map((share) => 100 * share);
  const named = parts.length > 1 ? [["all", total], ...parts] : parts; // one analyst alone is all
  const lines = named.map(([label, values]) => ({ label, values: percents(values) }));
  const axes = ["time (UTC)", "% of the budget"];
  const history = { kind: "step", x: [...times, today], lines, axes, is_time: true, y_range: [0, 1] };
  chart(at("history"), history);
  tabulate(at("history"), history);
  if (ledger.delta(1) === null) {
    at("curve").replaceWith(element("p", `Every answer was pure: delta is 0 from epsilon ${ledger.epsilon(0)} on.`));
    return;
  }
  const largest = Math.min(2 * budget.epsilon, 4 * ledger.epsilon(budget.delta));
  curve(at("curve"), (epsilon) => ledger.delta(epsilon), largest);
}

/** Mark each listed entry as verified if the ledger has it. */
function tick(ledger) {
  for (const row of page.querySelectorAll("[data-sequence]")) {
    const is = ledger.heads.get(Number(row.dataset.sequence)) === row.dataset.hash;
    row.lastElementChild.textContent = is ? "verified" : "not verified";
  }
}

try {
  const stated = parse(page.dataset.statements);
  const ledger = await followed();
  const rows = await compared(ledger, stated);
  const grown = ledger.sequence > stated.head.sequence;
  await untilReleased();
  const bad = rows.filter(([what, , , agrees]) => !agrees && (!grown || what.startsWith("head")));
  at("state").className = bad.length === 0 ? "note" : "wrong";
  at("state").textContent =
    bad.length > 0
      ? `The ledger was verified, but the server states something else for: ${bad.map(([what]) => what).join(", ")}.`
      : `Entries 1 to ${ledger.sequence} are verified, hash by hash. No charge exceeded the budget. ` +
        (grown ? "New entries arrived since this page was loaded: reload it." : "The server states the same.");
  const results = rows.map((row) => [...row.slice(0, 3), row[3] ? "agrees" : "differs"]);
  at("compared").replaceChildren(table(["Value", "Computed here", "Stated by the server", "Result"], results));
  draw(ledger, stated.budget);
  tick(ledger);
  const form = document.querySelector("form[data-keys]");
  form.ledger = ledger;
  form.dispatchEvent(new Event("followed"));
} catch (error) {
  at("state").className = "wrong";
  at("state").textContent = `The ledger is not valid, or could not be read: ${error.message}.`;
}
