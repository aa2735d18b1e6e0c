// Verifies a dataset's ledger entry by entry, as accounting/records/replay.py does: the chain of hashes is complete, and
// each entry has the fields of its kind, follows from the entries before it and charges no more than the filter admits.
// Sums are exact integers. The costs of events are not computed: templates/receipt_form.html lists what is not checked.

import { UNIT, checkFields } from "./entries.js";
import { canonical, gaussDelta, isSession, isSound, isStated, leastEpsilon, plannedUses, refuse } from "./receipt.js";

const GENESIS = "0".repeat(64);
const MOST = 2n ** 62n; // every charge and every sum of charges is smaller
// Steps of a job, with the steps that may precede them.
const STEPS = {
  charged: ["new"],
  refunded: ["charged"],
  started: ["charged", "started"],
  released: ["started"],
  failed: ["started"],
  cancelled: ["started"],
};
const BLOCKED = ["charged", "reserved", "started"]; // kinds of entries that a freeze does not allow
const FIXED = ["kind", "orders", "weights", "slack"]; // parameters of a filter that stay the same after a charge

const numbers = (cost) => cost.map(BigInt);
const plus = (a, b, sign = 1n) => a.map((each, i) => each + sign * b[i]);
const unitOf = ({ unit }) => canonical([unit?.name ?? "row", unit?.max_rows ?? null]);
const protection = (stated) => canonical([stated.neighbors, unitOf(stated), stated.rows ?? stated.persons]);
const ratio = (a, b) => Number(a) / Number(b); // thresholds, and charges within them, are below 2^53

/** The state of a ledger after the entries that were added. Each entry must follow from the entries before it. */
export class Ledger {
  sequence = 0;
  hash = GENESIS;
  filter = null; // {kind, epsilon, delta, orders, weights, thresholds, slack} as it was registered last
  spent = [];
  whole = false; // one job took all of the budget
  frozen = false; // nothing may be charged or started, except for outside releases
  lost = false; // whether entries were lost, and charges perhaps with them
  live = new Map(); // by job, session or the entry's number: {at, analyst, method, cost} of what is charged
  changes = []; // {at, analyst, method, cost, sign}, in order
  heads = new Map(); // by sequence number, the hash
  entries = new Map(); // by sequence number, each as it was added
  #stages = new Map(); // by job, its last step; "ended" after its end
  #sessions = new Map(); // by session, {counts, isRefundable, isOpen, share}: `counts` are the numbers of planned uses
  #datasets = new Map(); // by dataset, {rule, isStored, registered}: rule for sessions, whether it has values, facts
  #undivided = false; // a session that took the whole budget is charged, and no part of it may be returned

  /** Add the next entry; throw `Invalid` if its hash is wrong, it does not follow, or it charges too much. */
  async add(entry) {
    const { sequence, kind, body, previous_hash: previous, hash } = entry;
    if (!(await isSound(entry))) refuse(`entry ${sequence} does not hash to its hash`);
    if (sequence !== this.sequence + 1 || previous !== this.hash || (sequence === 1) !== (kind === "opened")) {
      refuse(`entry ${sequence} does not follow entry ${this.sequence}`);
    }
    checkFields(entry);
    this.#record(sequence, kind, body);
    [this.sequence, this.hash] = [sequence, hash];
    this.heads.set(sequence, hash);
    this.entries.set(sequence, entry);
  }

  #record(sequence, kind, body) {
    if (Object.hasOwn(STEPS, kind)) this.#step(sequence, kind, body.job);
    this.#followDataset(sequence, kind, body);
    this.#followFreeze(sequence, kind, body);
    if (kind === "opened" || kind === "promised") this.#promise(sequence, body.filter);
    else if (kind === "charged") this.#chargeOwn(sequence, body.job, body, body.method);
    else if (kind === "external") {
      const charge = { analyst: body.by, method: "outside release", at: body.at, cost: numbers(body.cost) };
      this.#charge(sequence, sequence, charge, body.exceeds, true);
      this.whole = false;
    } else if (kind === "refunded") this.#refund(sequence, body);
    else if (kind === "reserved") this.#reserve(sequence, body);
    else if (kind === "settled") this.#settle(sequence, body);
    else if (kind === "rolled_back") {
      this.lost = true;
      for (const job of this.#stages.keys()) this.#stages.set(job, "ended");
    }
  }

  #step(sequence, kind, job) {
    const stage = this.#stages.get(job) ?? "new";
    if (!STEPS[kind].includes(stage)) refuse(`entry ${sequence} records an event that cannot follow those before it`);
    this.#stages.set(job, kind === "charged" || kind === "started" ? kind : "ended");
  }

  /** Follow the dataset that an entry names, by the rules of accounting.records.replay. */
  #followDataset(sequence, kind, body) {
    const { dataset } = body;
    const current = this.#datasets.get(dataset);
    const require = (isPossible) => {
      if (!isPossible) refuse(`entry ${sequence} records an event that its dataset does not allow`);
    };
    switch (kind) {
      case "opened":
      case "joined": {
        const opening = this.entries.get(1)?.body ?? body;
        require(!current && unitOf(body) === unitOf(opening));
        const registered = { ...body, neighbors: opening.neighbors };
        this.#datasets.set(dataset, { rule: body.session_rule, isStored: true, registered });
        break;
      }
      case "session_rule":
        require(current);
        this.#datasets.set(dataset, { ...current, rule: body.rule });
        break;
      case "external":
        require(current);
        break;
      case "charged":
      case "renamed":
      case "reserved":
        require(current?.isStored);
        break;
      case "deleted":
      case "withdrawn":
        require(current?.isStored && (kind === "deleted" || !this.#isCharged));
        this.#datasets.set(dataset, { ...current, isStored: false });
    }
  }

  /** Follow freezes by a steward, and those that an outside release beyond the budget or a rollback causes. */
  #followFreeze(sequence, kind, body) {
    const isChange = kind === (this.frozen ? "unfrozen" : "frozen");
    const isForbidden = ["frozen", "unfrozen"].includes(kind) ? !isChange : this.frozen && BLOCKED.includes(kind);
    if (isForbidden) refuse(`entry ${sequence} records an event that the freeze of the ledger does not allow`);
    if (isChange) this.frozen = !this.frozen;
    else if (kind === "rolled_back" || (kind === "external" && body.exceeds)) this.frozen = true;
  }

  /** Whether there is a live charge, or may have been one that was lost. */
  get #isCharged() {
    return this.live.size > 0 || this.lost;
  }

  #promise(sequence, rule) {
    const thresholds = numbers(rule.thresholds);
    if (this.#isCharged) {
      const grows = (name) => rule[name] >= this.filter[name];
      const isFixed = FIXED.every((name) => canonical(rule[name]) === canonical(this.filter[name]));
      const isLarger = rule.epsilon > this.filter.epsilon || rule.delta > this.filter.delta;
      const isRaise = isFixed && isLarger && grows("epsilon") && grows("delta");
      if (!isRaise || thresholds.some((top, i) => top < this.filter.thresholds[i])) {
        refuse(`entry ${sequence} lowers or changes the budget after a charge`);
      }
    } else [this.spent, this.changes] = [thresholds.map(() => 0n), []]; // earlier charges may be in another currency
    this.filter = { ...rule, thresholds };
    if (this.#admits(this.spent)) [this.whole, this.#undivided] = [false, false];
  }

  /** Add the charge of a job or a session. A first charge may take the whole budget if its guarantee is within it. */
  #chargeOwn(sequence, key, body, method) {
    const own = body.epsilon <= this.filter.epsilon && body.delta <= this.filter.delta;
    const mayTakeAll = own && !this.#isCharged;
    const charge = { analyst: body.analyst, method, at: body.at, cost: numbers(body.cost) };
    this.#charge(sequence, key, charge, body.whole, mayTakeAll);
    this.whole = body.whole;
    if (body.share !== this.share(charge.cost)) refuse(`entry ${sequence} states another share than it uses`);
  }

  #reserve(sequence, body) {
    const { rule, registered } = this.#datasets.get(body.dataset);
    if (rule === "refused") refuse(`entry ${sequence} reserves a session on a dataset that refuses them`);
    if (this.#sessions.has(body.session)) refuse(`entry ${sequence} reserves a session a second time`);
    const counts = plannedUses({ ...registered, plan: body.plan }).map((planned) => planned.count);
    if (numbers(body.cost).slice(this.#curved).some(Boolean)) refuse(`entry ${sequence} uses the slack`);
    this.#sessions.set(body.session, { counts, isRefundable: rule !== "no_refund", isOpen: true, share: body.share });
    this.#chargeOwn(sequence, `session ${body.session}`, body, "session");
    this.#undivided ||= body.whole;
  }

  /** End a session. Its answers stay charged, as does all of it if it expired or took the whole budget. */
  #settle(sequence, { session, recorded, refund, reason, whole, at }) {
    const key = `session ${session}`;
    const [planned, charge, returned] = [this.#sessions.get(session), this.live.get(key), numbers(refund)];
    const { counts, isOpen } = planned ?? {};
    const isPlanned = isOpen && counts.length === recorded.length && recorded.every((used, i) => used <= counts[i]);
    const isVector = returned.length === this.spent.length;
    if (!isPlanned || !charge || !isVector || whole !== this.whole) refuse(`entry ${sequence} ends no such session`);
    this.#sessions.set(session, { ...planned, isOpen: false });
    if (returned.every((each) => each === 0n)) return;
    const remaining = plus(charge.cost, returned, -1n);
    const isUnused = recorded.every((used) => used === 0);
    const isRefund = isUnused
      ? remaining.every((each) => each === 0n)
      : !this.#undivided && remaining.every((each, i) => (i < this.#curved ? each > 0n : each === 0n));
    const isAllowed = isRefund && planned.isRefundable && reason === "closed" && !this.lost;
    if (!isAllowed) refuse(`entry ${sequence} returns what stays charged`);
    if (isUnused) this.live.delete(key);
    else this.live.set(key, { ...charge, cost: remaining });
    this.changes.push({ ...charge, at, cost: returned, sign: -1n });
    [this.spent, this.whole] = [plus(this.spent, returned, -1n), false];
    if (isUnused) this.#undivided = false;
    this.#sessions.set(session, { ...planned, isOpen: false, share: this.share(remaining) });
  }

  #charge(sequence, key, charge, beyond, mayPass) {
    const isCharge = charge.cost.length === this.spent.length && this.#isCost(charge.cost) && !this.live.has(key);
    const total = isCharge ? plus(this.spent, charge.cost) : [MOST];
    if (total.some((each) => each >= MOST)) refuse(`entry ${sequence} is not a charge of this ledger`);
    const fits = !this.whole && this.#admits(total);
    if (fits === beyond || (!fits && !mayPass)) refuse(`entry ${sequence} charges what the filter does not admit`);
    this.live.set(key, charge);
    this.changes.push({ ...charge, sign: 1n });
    this.spent = total;
  }

  #refund(sequence, { job, cost, whole, at }) {
    const charge = this.live.get(job);
    const isCharged = charge && canonical(charge.cost.map(String)) === canonical(cost);
    if (!isCharged || whole !== this.whole || this.#undivided) refuse(`entry ${sequence} refunds what was not charged`);
    this.live.delete(job);
    this.changes.push({ ...charge, at, sign: -1n });
    [this.spent, this.whole] = [plus(this.spent, charge.cost, -1n), false];
  }

  /** Return how this ledger contradicts a receipt, in the words of `verify_receipt` of accounting.records.offline; null
   * if it does not contradict it. Whether the charge covers the queries is checked by `purse receipt verify`. */
  wrong(receipt) {
    const [entry, all] = [this.entries.get(receipt.sequence), [...this.entries.values()]];
    const what = isSession(receipt) ? "session" : "release";
    if (!entry) return `the ledger ends before this ${what}`;
    if (!isStated(receipt, entry)) return `the ledger's entry is not this ${what}`;
    return (isSession(receipt) ? this.#wrongSession(receipt, entry, all) : this.#wrongRelease(receipt, all))
      ?? this.#wrongDataset(receipt);
  }

  #wrongRelease(receipt, all) {
    const { sequence, body: charge } = all.find(({ kind, body }) => kind === "charged" && body.job === receipt.job);
    if (receipt.epsilon > charge.epsilon * (1 + 1e-9) || receipt.delta > charge.delta) {
      return "the ledger charged less than the receipt states";
    }
    const { analyst, dataset, method, share, profile } = receipt;
    if (charge.analyst !== analyst || charge.dataset !== dataset || charge.method !== method.name) {
      return "the ledger charged another analyst, dataset or method";
    }
    if (charge.share !== (share ?? charge.share)) return "the ledger charged another share of the budget";
    const isProfile = ({ kind, body }) =>
      kind === "released" && body.job === profile.job && body.model_sha256 === profile.sha256;
    const paid = ({ kind, body }) =>
      kind === "charged" && body.job === profile.job && body.dataset === dataset && body.method === "profile";
    const before = all.slice(0, sequence);
    if (profile && !(before.some(isProfile) && before.some(paid))) {
      return "the ledger released no such profile before this charge";
    }
    return null;
  }

  /** Return how a session's reservation contradicts its receipt. */
  #wrongSession(receipt, { body: end }, all) {
    const { body } = all.find((entry) => entry.kind === "reserved" && entry.body.session === receipt.session);
    if (body.analyst !== receipt.analyst || body.dataset !== receipt.dataset) {
      return "the ledger reserved for another analyst or dataset";
    }
    if (canonical(body.plan) !== canonical(receipt.plan.map(({ event, count }) => ({ event, count })))) {
      return "the ledger reserved another plan";
    }
    const isRefunded = numbers(end.refund).some((each) => each > 0n);
    if (isRefunded !== (receipt.charged === "recorded")) return "the ledger charged another part of the plan";
    const { share } = this.#sessions.get(receipt.session);
    return share !== (receipt.share ?? share) ? "the ledger charged another share of the budget" : null;
  }

  #wrongDataset(receipt) {
    const current = this.#datasets.get(receipt.dataset);
    const isSame = current && protection(current.registered) === protection(receipt);
    return isSame ? null : "the ledger has no such dataset, or other records or neighbors";
  }

  /** Return whether a total fits in some coordinate of the curve, and in the slack, which is the last coordinate. */
  #admits(total) {
    const tops = this.filter.thresholds;
    const within = total.map((each, i) => each <= tops[i]);
    return within.slice(0, this.#curved).some(Boolean) && within.slice(this.#curved).every(Boolean);
  }

  /** Return whether a job or session may have this cost: a unit or more of each threshold, and at most a job's slack. */
  #isCost(cost) {
    const mostSlack = this.filter.kind === "rdp" ? 1 : UNIT;
    return cost.every((each, i) => (i < this.#curved ? each > 0n : each <= mostSlack));
  }

  /** The number of coordinates of the privacy curve. */
  get #curved() {
    return this.spent.length - (this.filter.slack ? 1 : 0);
  }

  /** Return a sum of charges as a share of the budget, at the coordinate with the largest remainder now. */
  share(cost) {
    if (this.whole) return cost.some((each) => each > 0n) ? 1 : 0;
    const tops = this.filter.thresholds;
    const parts = this.spent.slice(0, this.#curved).map((each, i) => ratio(each, tops[i]));
    const widest = parts.indexOf(Math.min(...parts));
    return ratio(cost[widest], tops[widest]);
  }

  /** Return `[name, share, charges]` by `analyst` or `method`, the largest first; shares add up to the spent share. */
  shares(by) {
    const sums = new Map();
    for (const charge of this.live.values()) {
      const [sum, jobs] = sums.get(charge[by]) ?? [this.spent.map(() => 0n), 0];
      sums.set(charge[by], [plus(sum, charge.cost), jobs + 1]);
    }
    const shares = [...sums].map(([name, [sum, jobs]]) => [name, this.share(sum), jobs]);
    return shares.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  }

  /** Return `{times, total, parts: [[name, shares]]}`: the spent share of the current budget after each change. */
  history(by) {
    const names = [...new Set(this.changes.map((change) => change[by]))];
    const sums = new Map(names.map((name) => [name, this.spent.map(() => 0n)]));
    const [times, total, parts] = [[], [], names.map((name) => [name, []])];
    for (const change of this.changes) {
      sums.set(change[by], plus(sums.get(change[by]), change.cost, change.sign));
      times.push(Math.max(Date.parse(change.at) / 1000, times.at(-1) ?? 0));
      for (const [name, shares] of parts) shares.push(this.share(sums.get(name)));
      total.push(this.share([...sums.values()].reduce((a, b) => plus(a, b))));
    }
    return { times, total, parts };
  }

  /** Return delta at an epsilon for all charges, as if they had been fixed in advance; null under `pure`. */
  delta(epsilon) {
    const { kind, orders, weights, slack } = this.filter;
    if (this.live.size === 0 || kind === "pure") return null;
    const spent = this.spent.map((each) => Number(each) / UNIT);
    const renyi = (rho, a, weight, at) => Math.exp((a - 1) * (rho + Math.log1p(-1 / a) - at)) / (a * weight);
    if (kind === "gdp") return gaussDelta(Math.sqrt(spent[0]), epsilon);
    if (kind === "rdp") return slack + Math.min(...orders.map((a, k) => renyi(spent[k], a, weights[k], epsilon)), 1);
    const off = slack * spent.at(-1);
    const at = Math.max(0, epsilon + Math.log1p(-off));
    const gaussian = gaussDelta(Math.sqrt(spent[0]), at);
    return off + Math.min(gaussian, ...orders.map((a, k) => renyi(spent[k + 1], a, 1, at)), 1);
  }

  /** Return the smallest epsilon of all charges at a delta; null as for `delta`. */
  epsilon(delta) {
    if (this.filter.kind === "pure") return Number(this.spent[0]) / UNIT;
    return this.live.size === 0 ? 0 : leastEpsilon((epsilon) => this.delta(epsilon), delta);
  }
}

/** Return the ledger of these entries; throw `Invalid` as `Ledger.add` does. */
export async function follow(entries) {
  const ledger = new Ledger();
  for (const entry of entries) await ledger.add(entry);
  return ledger;
}

/** Return how the ledger of these entries contradicts a receipt; null if it does not. */
export async function wrong(entries, receipt) {
  return (await follow(entries)).wrong(receipt);
}

/** Return the facts about the ledger of these entries as JSON, for programs outside a page. */
export async function summary(entries, epsilons = [], delta = 1e-6) {
  const ledger = await follow(entries);
  return {
    head: `${ledger.sequence}:${ledger.hash}`,
    share: ledger.share(ledger.spent),
    analysts: ledger.shares("analyst"),
    methods: ledger.shares("method"),
    history: ledger.history("analyst"),
    deltas: epsilons.map((epsilon) => ledger.delta(epsilon)),
    epsilon: ledger.epsilon(delta),
  };
}
