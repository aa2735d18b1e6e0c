// The fields of each kind of ledger entry, as in accounting/records/events.py, and the thresholds of budgets, as in
// accounting/thresholds.py. Entries with other fields, or with values that do not fit, are refused.

import {
  COUNT, NAME, RELATION, SHA256, TEXT, between, checked, gaussDelta, isCounted, isObject, isSingle, isUnit, listOf, matches,
  only, optional, orderCover, refuse, whole,
} from "./receipt.js";

export const UNIT = 2 ** 40; // charges are integers in units of 2^-40
const TOLERANCE = 1e-9; // relative: more than the rounding errors of delta, at the largest mu of a budget

const RULE = matches(/^(refund|no_refund|refused)$/);
const BOOLEAN = (value) => typeof value === "boolean";
const DECIMAL = matches(/^(0|[1-9][0-9]{0,18})$/);
const COST = listOf(DECIMAL, 1, 4);
const EPSILON = between(1e-3, 100);
const [PURE, APPROXIMATE] = [only(0), between(1e-12, 1e-2)];
const DELTA = (value) => PURE(value) || APPROXIMATE(value);

const SELF_COMPOSED = { type: only("SelfComposedDpEvent"), event: isSingle, count: whole(1, 1e9) };
const isPart = (event) =>
  event?.type === "SelfComposedDpEvent" ? checked(event, SELF_COMPOSED, "an event") : isSingle(event);
const COMPOSED = { type: only("ComposedDpEvent"), events: listOf(isPart, 1, 64) };
const isOutside = (event) =>
  event?.type === "ComposedDpEvent" ? checked(event, COMPOSED, "an event") : isPart(event);
const isPlanned = (uses) => checked(uses, { event: isObject, count: COUNT }, "a planned event");
const isHead = (head) => matches(/^[1-9][0-9]{0,15}:[0-9a-f]{64}$/)(head) && COUNT(Number(head.split(":")[0]));

const FILTER = {
  kind: matches(/^(rdp|gdp|gdp_rdp|pure)$/), epsilon: EPSILON, delta: DELTA, slack: between(0, 1),
  orders: listOf(between(1.01, 1e9), 0, 3), weights: listOf(between(Number.MIN_VALUE, 1), 0, 3), thresholds: COST,
};

/** Return whether a filter's thresholds are positive, and at most those of its budget (docs/proofs/filter.md).
 *
 * As in Python, a threshold of Renyi divergences may be one unit larger, and one of mu^2 by 2^-36 of it. */
function isFilter(filter) {
  const { kind, epsilon, delta, slack, orders, weights, thresholds } = checked(filter, FILTER, "a filter");
  const [isMixed, hasOrders] = [kind === "gdp_rdp", kind === "rdp" || kind === "gdp_rdp"];
  const hasSlack = isMixed || slack > 0;
  const isSlack = !hasSlack || (hasOrders && slack > 0 && slack <= delta / 2);
  const areWeights = weights.length === orders.length + (isMixed ? 1 : 0) && weights.reduce((a, b) => a + b, 0) <= 1;
  if (!isSlack || !areWeights || hasOrders !== orders.length > 0 || (kind === "pure") !== (delta === 0)) return false;
  const [remainder, ofOrders] = [delta - slack, weights.slice(isMixed ? 1 : 0)];
  const isRenyi = (order, weight) => (top) =>
    top <= Math.floor((epsilon - Math.log1p(-1 / order) + Math.log(order * weight * remainder) / (order - 1)) * UNIT);
  const cover = (order, i, mu) =>
    orderCover(order, mu * mu * (1 + 1e-15) - (2 * Number(thresholds[i + 1])) / UNIT / order) *
    Math.exp((order - 1) * Math.log1p(-slack));
  const isSquare = (top) => {
    const [mu, at] = [Math.sqrt((top - 1) / UNIT / (1 + 2 ** -36)), epsilon + Math.log1p(-slack)];
    const counted = isMixed ? Math.max(0, 1 - orders.reduce((sum, order, i) => sum + cover(order, i, mu), 0)) : 1;
    const most = (isMixed ? remainder : delta) * (1 + TOLERANCE);
    return at > 0 && gaussDelta(mu, at) <= most && gaussDelta(mu, at) * counted <= most * (isMixed ? weights[0] : 1);
  };
  const isWithin = [
    ...(kind === "pure" ? [(top) => top <= epsilon * UNIT] : kind === "rdp" ? [] : [isSquare]),
    ...orders.map((order, i) => isRenyi(order, ofOrders[i])),
    ...(hasSlack ? [(top) => top <= (isMixed ? UNIT : 16)] : []),
  ];
  const tops = thresholds.map(Number);
  return tops.length === isWithin.length && tops.every((top, i) => top > 0 && isWithin[i](top));
}

const REGISTERED = {
  rows: optional(COUNT), persons: optional(COUNT),
  unit: (unit) => isUnit(unit) && Object.keys(unit).length === 2,
  declaration_sha256: optional(SHA256), session_rule: optional(RULE),
};
const ATTEMPT = { job: TEXT, attempt: COUNT };
const BY = { by: TEXT };
const OF_DATASET = { dataset: TEXT, by: TEXT };
export const KINDS = {
  opened: { dataset: TEXT, neighbors: RELATION, filter: isFilter, family: optional(TEXT), ...REGISTERED },
  joined: { ...OF_DATASET, ...REGISTERED },
  promised: { filter: isFilter, by: TEXT },
  frozen: BY,
  unfrozen: BY,
  renamed: { ...OF_DATASET, name: TEXT },
  session_rule: { ...OF_DATASET, rule: RULE },
  deleted: OF_DATASET,
  withdrawn: OF_DATASET,
  external: { ...OF_DATASET, label: TEXT, event: isOutside, cost: COST, exceeds: BOOLEAN },
  rolled_back: { reason: TEXT, lacks: optional(isHead) },
  charged: {
    job: TEXT, cost: COST, epsilon: EPSILON, delta: DELTA, whole: BOOLEAN, share: between(0, 1),
    analyst: TEXT, dataset: TEXT, method: TEXT, spec_sha256: optional(SHA256),
  },
  started: ATTEMPT,
  refunded: { job: TEXT, cost: COST, whole: BOOLEAN },
  released: { ...ATTEMPT, model_sha256: SHA256 },
  failed: ATTEMPT,
  cancelled: ATTEMPT,
  reserved: {
    session: TEXT, dataset: TEXT, analyst: TEXT, expires_at: TEXT, plan: listOf(isPlanned, 1, 64), cost: COST,
    epsilon: optional(EPSILON), delta: optional(DELTA), whole: BOOLEAN, share: between(0, 1),
  },
  settled: {
    session: TEXT, recorded: listOf(whole(0, 1e9), 1, 64), refund: COST, whole: BOOLEAN,
    reason: matches(/^(closed|expired)$/),
  },
};

/** Throw `Invalid` unless the kind of an entry is known, and its body has the fields of this kind and no others. */
export function checkFields({ sequence, kind, body }) {
  const what = `entry ${sequence}`;
  if (!Object.hasOwn(KINDS, kind)) refuse(`${what} is of an unknown kind`);
  checked(body, { ...KINDS[kind], at: NAME }, what);
  if (["opened", "joined"].includes(kind) && !isCounted(body)) {
    refuse(`${what} must state rows or persons, as the unit is named`);
  }
  if ((body.epsilon === undefined) !== (body.delta === undefined)) refuse(`${what} states half a guarantee`);
}
