// Checks a receipt of a release or a session: a trusted key signed exactly RFC8785(receipt), and the stated epsilon
// covers the receipt's queries or plan. The epsilon of Gaussian and of pure answers is recomputed here. Other answers
// are reported as not recomputed; `purse receipt verify` recomputes all of them.
//
// This module has no imports and sends no requests. It runs in a page, from a saved file and in Node. The arithmetic of
// docs/proofs/gaussian.md is written here a second time on purpose: an error in one of the two shows as a difference.

export class Invalid extends Error {} // malformed, whoever made it
export class Unsupported extends Error {} // this browser lacks Ed25519, or the page was not loaded over HTTPS

export const [RECEIPT, HEAD] = ["privy-purse-receipt", "privy-purse-head"];
const MOST_KEYS = 256; // of a key set
const MOST_CHARACTERS = 200_000; // of a signature
const MOST_LEVELS = 200; // of a document's nesting
const TOLERANCE = 1e-9; // relative difference of a computed number on two processors

export const refuse = (why) => {
  throw new Invalid(why);
};
const TOKENS = /[":]|\\.|-?[0-9][0-9.eE+-]*/g; // all tokens that `parse` looks at; matching them needs no deep stack

/** Return the JSON value of a text; throw `Invalid` for a repeated key, a number beyond a double or an integer beyond
 * 2^53 - 1. */
export function parse(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    refuse("the document is not JSON");
  }
  let [isQuoted, colons] = [false, 0];
  for (const [token] of text.matchAll(TOKENS)) {
    if (token === '"') isQuoted = !isQuoted;
    if (isQuoted) continue;
    if (token === ":") colons += 1;
    if (/^-?[0-9]+$/.test(token) && !Number.isSafeInteger(Number(token))) {
      refuse("the document contains an integer beyond 2^53 - 1");
    }
  }
  if (colons !== members(value, 0)) refuse("the document repeats a key");
  return value;
}

/** Return the number of members of all objects in a value. JSON.parse keeps one member of a repeated key. */
function members(value, depth) {
  if (depth > MOST_LEVELS) refuse("the document is nested too deeply");
  if (typeof value === "number" && !Number.isFinite(value)) refuse("the document contains a number beyond a double");
  if (typeof value !== "object" || value === null) return 0;
  const inner = Object.values(value).reduce((sum, each) => sum + members(each, depth + 1), 0);
  return Array.isArray(value) ? inner : inner + Object.keys(value).length;
}

/** Return the RFC 8785 text of a JSON value: keys by UTF-16 code units, numbers and strings as in ECMAScript. */
export function canonical(value) {
  if (typeof value === "string" && !value.isWellFormed()) refuse("the document contains a lone surrogate");
  if (typeof value === "string") return JSON.stringify(value);
  if (value === null || typeof value === "boolean" || Number.isFinite(value)) return String(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isObject(value)) refuse("the document has no canonical JSON form");
  const member = (key) => `${canonical(key)}:${canonical(value[key])}`;
  return `{${Object.keys(value).sort().map(member).join(",")}}`;
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Mark the check of a field that may be absent. */
export const optional = (holds) => Object.assign((value) => holds(value), { isOptional: true });

/** Return `value`; throw `Invalid` unless it is an object with a valid value for each of these fields, and no others.
 *
 * `checks` has a predicate for each field. */
export function checked(value, checks, what) {
  if (!isObject(value)) refuse(`${what} must be an object`);
  for (const key of Object.keys(value)) if (!Object.hasOwn(checks, key)) refuse(`${what} has an unknown key`);
  for (const [name, holds] of Object.entries(checks)) {
    const isStated = Object.hasOwn(value, name);
    if (!isStated && !holds.isOptional) refuse(`${what} lacks '${name}'`);
    if (isStated && !holds(value[name])) refuse(`${what} has a '${name}' that is not valid`);
  }
  return value;
}

const utf8 = (text) => new TextEncoder().encode(text);
const subtle = () => {
  const available = globalThis.crypto?.subtle;
  if (available) return available;
  throw new Unsupported("browsers offer cryptography only to pages loaded over HTTPS");
};

function encode64(bytes) {
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Return the bytes of base64url; null for a text that no encoder writes. */
function decode64(text) {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return null;
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return encode64(bytes) === text ? bytes : null;
}

const digest = async (text) => new Uint8Array(await subtle().digest("SHA-256", utf8(text)));

/** Return the SHA-256 of a text's UTF-8, as lower-case hexadecimal. */
export const sha256 = async (text) =>
  Array.from(await digest(text), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Return the RFC 7638 name of a key, which is computed because a key set may state another one. */
const thumbprint = async (x) => encode64(await digest(canonical({ crv: "Ed25519", kty: "OKP", x })));

/** Return the Ed25519 keys of a JWK Set. */
function keyList(trusted) {
  const keys = isObject(trusted) ? trusted.keys : undefined;
  const isSet = Array.isArray(keys) && keys.length <= MOST_KEYS && keys.every(isObject);
  if (!isSet) refuse('the trusted keys must be a JWK Set: {"keys": [...]}');
  return keys.filter((key) => key.kty === "OKP" && key.crv === "Ed25519" && typeof key.x === "string");
}

/** Return the public key with these bytes in base64url; null if they are not a key. */
async function imported(x) {
  const raw = decode64(x);
  if (raw?.length !== 32) return null;
  try {
    return await subtle().importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if (error.name === "NotSupportedError") throw new Unsupported("this browser does not support Ed25519");
    return null;
  }
}

/** Return the `kid` of a signature's header. Throw `Invalid` unless the header states Ed25519, this kind of document and
 * nothing else. */
function keyName(header, kind) {
  let fields;
  try {
    fields = parse(new TextDecoder("utf-8", { fatal: true }).decode(decode64(header)));
  } catch {
    refuse("the signature's header is not JSON");
  }
  const checks = { alg: (alg) => alg === "Ed25519", typ: (typ) => typ === kind, kid: (kid) => typeof kid === "string" };
  return checked(fields, checks, "the signature's header").kid;
}

/** Return null if a trusted key signed exactly RFC8785(document), otherwise the reason why it does not hold. */
export async function wrongSignature(document, signature, trusted, kind = RECEIPT) {
  const parts = typeof signature === "string" && signature.length <= MOST_CHARACTERS ? signature.split(".") : [];
  if (parts.length !== 3) refuse("the signature must be a compact JWS");
  const kid = keyName(parts[0], kind);
  const payload = encode64(utf8(canonical(document)));
  const bytes = decode64(parts[2]);
  for (const { x } of keyList(trusted)) {
    const key = bytes !== null && (await thumbprint(x)) === kid ? await imported(x) : null;
    if (key && (await subtle().verify({ name: "Ed25519" }, key, bytes, utf8(`${parts[0]}.${parts[1]}`)))) {
      return parts[1] === payload ? null : "the document was changed after it was signed";
    }
  }
  return "no trusted key made this signature";
}

export const matches = (pattern) => (value) => typeof value === "string" && pattern.test(value);
export const between = (min, max) => (value) => typeof value === "number" && value >= min && value <= max;
export const whole = (min, max) => (value) => Number.isSafeInteger(value) && value >= min && value <= max;
export const listOf = (holds, min, max) => (value) =>
  Array.isArray(value) && value.length >= min && value.length <= max && value.every((each) => holds(each));
export const only = (stated) => (value) => value === stated;
const nullable = (holds) => optional((value) => value === null || holds(value));
export const TEXT = matches(/^[^\x00-\x1f\x7f]{1,256}$/u);
export const NAME = matches(/^[^\x00-\x1f\x7f]{1,64}$/u);
export const SHA256 = matches(/^[0-9a-f]{64}$/);
export const COUNT = whole(1, Number.MAX_SAFE_INTEGER);
export const RELATION = matches(/^(replace_one|zero_out)$/);
const UNIT = { name: optional(matches(/^(row|person)$/)), max_rows: nullable(whole(1, 4096)) };
export const isUnit = (unit) => {
  const { name = "row", max_rows: maxRows = null } = checked(unit, UNIT, "unit");
  return (name === "person") === (maxRows !== null);
};
/** Return whether the number of records is stated once: as `persons` if the unit is a person, otherwise as `rows`. */
export const isCounted = ({ unit, rows = null, persons = null }) =>
  (unit?.name === "person") === (persons !== null) && (persons === null) === (rows !== null);
const isProfile = (profile) => checked(profile, { job: TEXT, sha256: SHA256 }, "profile");

// The fields of a receipt, of a release or of a session, and their checks, as in accounting/records/statement.py
const COMMON = {
  id: TEXT, dataset: TEXT, dataset_name: TEXT, analyst: TEXT,
  neighbors: RELATION, delta: between(0, 1e-2), accountant: TEXT, accountant_version: TEXT,
  sequence: COUNT, previous_hash: SHA256, hash: SHA256,
  issued_at: matches(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|\+00:00)$/),
  share: nullable(between(0, 1)), unit: optional(isUnit), rows: nullable(COUNT), persons: nullable(COUNT),
};
const STATEMENT = {
  ...COMMON,
  job: TEXT, epsilon: between(0, 100), numerics: only("exactly rounded"),
  method: (value) => isObject(value) && NAME(value.name), event: isObject, queries: listOf(() => true, 1, Infinity),
  model_sha256: SHA256, profile: nullable(isProfile),
};
const PLANNED = { event: isObject, count: COUNT, recorded: whole(0, Number.MAX_SAFE_INTEGER) };
const isPlanned = (uses) => checked(uses, PLANNED, "a planned event").recorded <= uses.count;
const SESSION_STATEMENT = {
  ...COMMON,
  kind: only("session"), session: TEXT, title: nullable(TEXT), state: matches(/^(closed|expired)$/),
  plan: listOf(isPlanned, 1, 64), asserted: only("asserted by the analyst's program, not observed by this service"),
  epsilon: between(0, 1e9), charged_epsilon: between(0, 1e9), charged: matches(/^(plan|recorded)$/),
};

/** Return whether a receipt is that of a session, and not of a release. */
export const isSession = (receipt) => isObject(receipt) && receipt.kind === "session";

/** Return `receipt`; throw `Invalid` unless it has every field of its kind, with a valid value, and no others. */
export function statement(receipt) {
  checked(receipt, isSession(receipt) ? SESSION_STATEMENT : STATEMENT, "the receipt");
  if (receipt.state === "expired" && receipt.charged !== "plan") refuse("an expired session stays charged as planned");
  return isCounted(receipt) ? receipt : refuse("the receipt must state persons if the unit is a person, otherwise rows");
}

const density = (x) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);

/** Return Mills' ratio (1 - Phi(x)) / phi(x), x >= 0, by a series of positive terms or by a continued fraction. */
function mills(x) {
  if (x >= 2) {
    let denominator = x;
    for (let k = 150; k > 0; k -= 1) denominator = x + k / denominator;
    return 1 / denominator;
  }
  let [sum, term] = [0, x];
  for (let k = 3; term > 0 && k < 150; k += 2) {
    sum += term;
    term *= (x * x) / k;
  }
  return 0.5 / density(x) - sum;
}

/** Return delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), of N(0, 1) against N(mu, 1).
 *
 * Let x = epsilon/mu - mu/2 and y = x + mu. Because e^epsilon phi(y) = phi(x), delta is phi(x) (mills(x) - mills(y)).
 * In this form no exponential overflows, and small deltas keep their digits. */
export function gaussDelta(mu, epsilon) {
  if (mu === 0) return 0;
  const [x, y] = [epsilon / mu - mu / 2, epsilon / mu + mu / 2];
  return x >= 0 ? density(x) * (mills(x) - mills(y)) : 1 - density(x) * (mills(-x) + mills(y));
}

/** Return the share of Gaussian jobs' loss that an order has paid for (`order_cover` in docs/proofs/filter.md). */
export function orderCover(order, time) {
  if (order > 1e6 || order * (order - 1) * time > 50) return 0; // at most 1e-10, or not resolved in floats
  if (time <= 0) return 1;
  const [m, tangent] = [Math.sqrt(time), -Math.log1p(-1 / order)];
  const logPhi = (z) =>
    z > 0 ? Math.log1p(-density(z) * mills(z)) : Math.log(mills(-z)) - (z * z) / 2 - Math.log(2 * Math.PI) / 2;
  const slope = (x) => tangent - x + logPhi(x / m - m / 2) - logPhi(x / m + m / 2);
  let [low, high] = [-order * time, 2 * tangent];
  while (slope(low) <= 0) low *= 2;
  for (let middle = (low + high) / 2; middle > low && middle < high; middle = (low + high) / 2) {
    [low, high] = slope(middle) > 0 ? [middle, high] : [low, middle];
  }
  return Math.exp((order - 1) * (low - tangent) - logPhi(low / m + m / 2));
}

/** Return the smallest epsilon >= 0 with deltaAt(epsilon) <= delta, for a decreasing function.
 *
 * The search for an upper bound begins at `start` and ends above 1e6. */
export function leastEpsilon(deltaAt, delta, start = 1) {
  if (deltaAt(0) <= delta) return 0;
  let [low, high] = [0, start];
  while (deltaAt(high) > delta && high < 1e6) high *= 2;
  for (let middle = high / 2; middle > low && middle < high; middle = (low + high) / 2) {
    [low, high] = deltaAt(middle) > delta ? [middle, high] : [low, middle];
  }
  return high;
}

/** Return the smallest epsilon >= 0 at which mu-GDP is (epsilon, delta)-DP, rounded up by 1e-9 as on the server. */
export function gaussEpsilon(mu, delta) {
  if (!(mu <= 1e6) || !(delta >= 1e-12)) return Infinity;
  const safeMu = Math.max(mu, 1e-5);
  const bound = (safeMu * safeMu) / 2 + 40 * safeMu + TOLERANCE;
  return leastEpsilon((epsilon) => gaussDelta(safeMu, epsilon), delta, bound) * (1 + TOLERANCE);
}

/** Return T_eff = (1 + c + .. + c^(T-1))^2 / (1 + c^2 + .. + c^(2(T-1))), rounded up, for a released last iterate. */
function effectiveSteps({ steps, contraction }) {
  const powers = (c) => {
    let [total, power] = [1, c];
    for (const bit of steps.toString(2).slice(1)) {
      [total, power] = [total * (1 + power), power * power];
      if (bit === "1") [total, power] = [1 + c * total, power * c];
    }
    return total;
  };
  return (powers(contraction) ** 2 / powers(contraction * contraction)) * (1 + (8 * steps + 400) * 2 ** -53);
}

// For each mechanism of a query:
//   own            the checks of its own fields, besides those of all queries
//   fits           whether it suits n records of up to k rows
//   event          the event of one use; left out if it is not recomputed here
//   mu, epsilon    the cost of one use, if it is Gaussian or pure; neighbors are k bounds apart
const anyRecords = () => true;
const gaussian = (z) => ({ type: "GaussianDpEvent", noise_multiplier: z });
const sampled = (rate, event) => ({ type: "PoissonSampledDpEvent", sampling_probability: rate, event });
const best = (runs, event) => ({ type: "SelectionDpEvent", runs, event });
const pure = (event) => ({ own: {}, fits: anyRecords, epsilon: (q, k) => k / q.noise_multiplier, event });
const [RATE, SLOTS, ROWS] = [between(1e-9, 1), whole(1, 100_000), whole(1, 1e10)];
const FORM = matches(/^(independent|ordered)$/);
const perturbed = { own: { curvature_ratio: between(1e-12, 1e6) }, fits: anyRecords };
const withBatch = { own: { batch: ROWS, rows: ROWS }, fits: (q, n) => q.batch <= q.rows && q.rows <= n };
const isEach = (names) => (each) => checked(each, { name: matches(names) }, "one answer");
const PARTS = { parts: SLOTS, each: isEach(/^(gaussian|laplace)$/) };
const isResampled = (each) =>
  each?.name === "parallel"
    ? checked(each, { name: NAME, parts: SLOTS, each: isEach(/^laplace$/) }, "one answer")
    : isEach(/^laplace$/)(each);
export const MECHANISMS = {
  gaussian: {
    own: {},
    fits: anyRecords,
    mu: (q, k) => k / q.noise_multiplier,
    event: (q) => gaussian(q.noise_multiplier),
  },
  laplace: pure((q) => ({ type: "LaplaceDpEvent", noise_multiplier: q.noise_multiplier })),
  exponential: pure((q) => ({ type: "ExponentialMechanismDpEvent", epsilon: 2 / q.noise_multiplier })),
  last_iterate: {
    own: { steps: whole(1, 1e6), contraction: between(0, 1) },
    fits: anyRecords,
    mu: (q, k) => k / (q.noise_multiplier / Math.sqrt(effectiveSteps(q))),
    event: (q) => gaussian(q.noise_multiplier / Math.sqrt(effectiveSteps(q))),
  },
  poisson_gaussian: {
    own: { rate: RATE },
    fits: (q, n) => q.rate * n >= 1 - TOLERANCE,
    mu: (q, k) => q.rate === 1 && k / q.noise_multiplier,
    event: (q) => sampled(q.rate, gaussian(q.noise_multiplier)),
  },
  parallel: {
    own: PARTS,
    fits: (q, n) => q.parts <= n,
    mu: (q, k) => MECHANISMS[q.each.name].mu?.(q, k),
    epsilon: (q, k) => MECHANISMS[q.each.name].epsilon?.(q, k),
    event: (q) => MECHANISMS[q.each.name].event(q),
  },
  selection: {
    own: { runs: whole(2, 256) },
    fits: anyRecords,
    event: (q) => best(q.runs, gaussian(q.noise_multiplier)),
  },
  random_iterate: { own: { steps: whole(2, 100_000) }, fits: anyRecords },
  objective_perturbation: perturbed,
  row_objective_perturbation: { ...perturbed, fits: (q, n, k) => k === 1 },
  svrg_step: withBatch,
  without_replacement: withBatch,
  random_allocation: {
    own: { rate: RATE, slots: SLOTS, form: FORM },
    fits: (q, n) => (q.rate * n) / q.slots >= 1 - TOLERANCE,
  },
  resampled: {
    own: { rows: whole(2, 1e10), each: isResampled },
    fits: (q, n, k) => q.rows === n && MECHANISMS[q.each.name].fits(q.each, n, k),
  },
};
const OF_A_QUERY = { name: NAME, count: whole(1, 1e9), mechanism: NAME, noise_multiplier: between(1e-3, 1e12) };

function query(stated, { rows, persons, unit = {} }) {
  if (!Object.hasOwn(MECHANISMS, stated?.mechanism)) refuse("a query has an unknown mechanism");
  const { own, fits } = MECHANISMS[stated.mechanism];
  checked(stated, { ...OF_A_QUERY, ...own }, "a query");
  const isFit = fits !== undefined && fits(stated, rows ?? persons, unit.max_rows ?? 1);
  return isFit ? stated : refuse("a query does not suit the number of records that the receipt states");
}

/** Return the queries of a plan; throw `Invalid` unless they are valid and fit the receipt's records. */
function planned(queries, receipt) {
  const names = new Set(Array.isArray(queries) ? queries.map((q) => q?.name) : []);
  if (names.size < 1 || names.size > 64 || names.size < queries.length) {
    refuse("a plan must have 1 to 64 queries with distinct names");
  }
  return queries.map((stated) => query(stated, receipt));
}

const isKnown = (q) => MECHANISMS[q.mechanism].event !== undefined;
const cost = (currency, q, k) => MECHANISMS[q.mechanism][currency]?.(q, k) || NaN;
/** Return the root of mu^2 = sum of count * mu_i^2; NaN if not all answers are Gaussian. */
const muOf = (plan, k) => Math.sqrt(plan.reduce((sum, q) => sum + q.count * cost("mu", q, k) ** 2, 0));

const RUN = { queries: () => true, neighbors: optional(RELATION) };
/** Check the runs of a tuning, which releases the best of several: the method lists all of them, and none costs more
 * than the selection's query states for one run. Return `[holds, says]`; null if the receipt is not of a tuning. */
function checkedRuns(receipt, plan, k) {
  const choices = plan.filter((q) => q.mechanism === "selection");
  if (choices.length === 0 && !Object.hasOwn(receipt.method, "trials")) return null;
  const [{ runs, noise_multiplier: z } = {}, { trials, repeats }] = [choices[0], receipt.method];
  const isStated = choices.length === 1 && Array.isArray(trials) && Number.isSafeInteger(repeats);
  if (!isStated || runs !== repeats * trials.length) refuse("the receipt does not list all runs of the tuning");
  const plans = trials.map((trial) => {
    const { queries, neighbors: own } = checked(trial?.plan, RUN, "a run's plan");
    if (own !== (k === 1 ? "zero_out" : undefined)) refuse("a run states other neighbors than the receipt");
    return planned(queries, receipt);
  });
  const knownPlans = plans.filter((each) => each.every((q) => isKnown(q) && !(cost("epsilon", q, k) > 0)));
  const largestMu = (k / z) * (1 + TOLERANCE);
  if (knownPlans.some((each) => !(muOf(each, k) <= largestMu))) refuse("a run costs more than the selection query states");
  if (knownPlans.length < plans.length) return [null, "not recomputed here: a run needs `purse receipt verify`"];
  return [true, `none of the ${runs} runs costs more than the selection query states`];
}

/** Return the cost of a receipt's queries in the form of `summed`, and as `runs` the result of `checkedRuns`.
 *
 * Throw `Invalid` if the event tree is not that of the queries. */
export function recompute(receipt) {
  const { event, neighbors, delta } = receipt;
  const [plan, k] = [planned(receipt.queries, receipt), neighbors === "zero_out" ? 1 : 2];
  if (plan.every(isKnown)) {
    const uses = plan.map((q) => [q.count, MECHANISMS[q.mechanism].event(q)]);
    const events = uses.map(([count, one]) => (count === 1 ? one : { type: "SelfComposedDpEvent", count, event: one }));
    const tree = events.length === 1 ? events[0] : { type: "ComposedDpEvent", events };
    if (!isSame(event, tree)) refuse("the queries and the event tree differ");
  }
  const runs = checkedRuns(receipt, plan, k);
  const parts = plan.map((q) => {
    return { count: q.count, name: q.mechanism, mu: cost("mu", q, k), epsilon: cost("epsilon", q, k) };
  });
  return { ...summed(parts, delta), runs };
}

/** Return the cost of parts `{count, name, mu, epsilon}` together at a delta: `{epsilon, accountant, mu}`, or
 * `{mechanisms}`, the names of mechanisms whose cost is not computed here.
 *
 * The epsilon is exact if all parts are Gaussian, and the sum of epsilons if all are pure. */
function summed(parts, delta) {
  const mu = Math.sqrt(parts.reduce((sum, part) => sum + part.count * part.mu ** 2, 0));
  if (delta >= 1e-12 && mu > 0) return { epsilon: gaussEpsilon(mu, delta), accountant: "exact_gaussian", mu };
  const epsilon = parts.reduce((sum, part) => sum + part.count * part.epsilon, 0);
  if (epsilon > 0 || parts.length === 0) return { epsilon: epsilon * (1 + 1e-14), accountant: "pure", mu: null };
  if (delta < 1e-12 && parts.some((part) => part.mu > 0)) refuse("no accountant covers these queries at this delta");
  const isOpen = (part) => !(part.mu > 0) && !(part.epsilon > 0);
  const open = parts.some(isOpen) ? parts.filter(isOpen) : parts; // Gaussian and pure ones together
  return { mechanisms: [...new Set(open.map((part) => part.name))] };
}

// For each type of event outside of this service: the checks of its fields, the `mu` or `epsilon` of one use, and
// whether it fits n records, as in accounting/records/outside.py
const MULTIPLIER = OF_A_QUERY.noise_multiplier;
const isGaussianEvent = (event) =>
  checked(event, { type: only("GaussianDpEvent"), noise_multiplier: MULTIPLIER }, "an event");
const EVENTS = {
  GaussianDpEvent: { own: { noise_multiplier: MULTIPLIER }, mu: (e, k) => k / e.noise_multiplier },
  LaplaceDpEvent: { own: { noise_multiplier: MULTIPLIER }, epsilon: (e, k) => k / e.noise_multiplier },
  EpsilonDeltaDpEvent: { own: { epsilon: between(1e-6, 100), delta: only(0) }, epsilon: (e) => e.epsilon },
  PoissonSampledDpEvent: {
    own: { sampling_probability: RATE, event: isGaussianEvent },
    mu: (e, k) => (e.sampling_probability === 1 ? k / e.event.noise_multiplier : NaN),
    fits: (e, n) => e.sampling_probability * n >= 1 - TOLERANCE,
  },
  SampledWithoutReplacementDpEvent: {
    own: { source_dataset_size: ROWS, sample_size: ROWS, event: isGaussianEvent },
    mu: (e, k) => (e.sample_size === e.source_dataset_size ? k / e.event.noise_multiplier : NaN),
    fits: (e, n) => e.source_dataset_size <= n,
  },
  RandomAllocationDpEvent: {
    own: { rate: RATE, slots: SLOTS, form: FORM, event: isGaussianEvent },
    fits: (e, n) => (e.rate * n) / e.slots >= 1 - TOLERANCE,
  },
};

/** Return whether a value is an event of one kind of answer; throw `Invalid` if it is another value. */
export function isSingle(event) {
  if (!Object.hasOwn(EVENTS, event?.type)) refuse("an event is of an unknown type");
  checked(event, { type: TEXT, ...EVENTS[event.type].own }, "an event");
  return event.sample_size > event.source_dataset_size ? refuse("a batch has more records than the dataset") : true;
}

/** Return the parts of a session's plan for `summed`; throw `Invalid` if an event is unknown or does not fit. */
export function plannedUses({ plan, neighbors, rows, persons }) {
  const k = neighbors === "zero_out" ? 1 : 2;
  return plan.map(({ event, count, recorded }) => {
    isSingle(event);
    const { mu, epsilon, fits } = EVENTS[event.type];
    if (!OF_A_QUERY.count(count)) refuse("a planned event has a 'count' that is not valid");
    if (fits && !fits(event, rows ?? persons)) refuse("a planned event does not suit the number of records of the dataset");
    return { count, recorded, name: event.type, mu: mu?.(event, k) ?? NaN, epsilon: epsilon?.(event, k) ?? NaN };
  });
}

/** Return the cost of a session's plan, and as `part` the cost of its charged part, each in the form of `summed`. */
export function recomputeSession(receipt) {
  const uses = plannedUses(receipt);
  const whole = summed(uses, receipt.delta);
  if (receipt.charged === "plan") return { ...whole, part: whole };
  const recorded = uses.filter((part) => part.recorded > 0).map((part) => ({ ...part, count: part.recorded }));
  return { ...whole, part: summed(recorded, receipt.delta) };
}

const EXACT = ["count", "runs"];
/** Return whether both are the same JSON value, except for the last digits of computed numbers. */
function isSame(stated, derived, key = "") {
  if (Array.isArray(derived)) {
    const isAlike = (each, i) => isSame(stated[i], each, key);
    return Array.isArray(stated) && stated.length === derived.length && derived.every(isAlike);
  }
  if (isObject(derived)) {
    const keys = Object.keys(derived);
    const alike = isObject(stated) && Object.keys(stated).length === keys.length;
    return alike && keys.every((name) => Object.hasOwn(stated, name) && isSame(stated[name], derived[name], name));
  }
  if (typeof derived !== "number" || EXACT.includes(key)) return stated === derived;
  const scale = Math.max(Math.abs(stated), Math.abs(derived));
  return typeof stated === "number" && Math.abs(stated - derived) <= TOLERANCE * scale;
}

const ENTRY = { sequence: COUNT, kind: NAME, body: isObject, previous_hash: SHA256, hash: SHA256 };
/** Return whether an entry hashes to its hash: SHA-256 of the canonical JSON of its other fields. */
export async function isSound(entry) {
  const { hash, ...content } = checked(entry, ENTRY, "an entry");
  return (await sha256(canonical(content))) === hash;
}

/** Return whether an entry states the release, or the end of the session, that a receipt is for. */
export function isStated(receipt, { kind, body, ...position }) {
  const says = (part, names) => names.every((name) => part[name] === receipt[name]);
  if (!says(position, ["sequence", "previous_hash", "hash"]) || body.at !== receipt.issued_at) return false;
  if (!isSession(receipt)) return kind === "released" && says(body, ["job", "model_sha256"]);
  const isEnd = kind === "settled" && body.session === receipt.session && body.reason === receipt.state;
  return isEnd && isSame(body.recorded, receipt.plan.map((uses) => uses.recorded), "count");
}

const isRelease = async (receipt, entry) => (await isSound(entry)) && isStated(receipt, entry);

/** Return the result of all checks of a receipt.
 *
 * `holds` is false if a check fails, and `reason` is then the first failure. `holds` is null if a check could not be
 * made, and otherwise true. `checks` lists the checks as `{what, holds, says}`.
 *
 * Parameters are the texts of files: the receipt `{receipt, signature}`; the trusted JWK Set, from another source than
 * the receipt; optionally the ledger's entry of its release, and the model, profile or statistic that it is for. */
export async function verify(receiptText, keysText, { entry = null, model = null } = {}) {
  const any = () => true;
  const document = checked(parse(receiptText), { receipt: any, signature: any }, "the document");
  const receipt = statement(document.receipt);
  const checks = [];
  const result = { receipt, checks, recomputed: null, mu: null };
  const note = (what, holds, says) => checks.push({ what, holds, says });
  const wrong = await wrongSignature(receipt, document.signature, parse(keysText));
  note("signature", wrong === null, wrong ?? "it fits a public key of the service, and covers exactly this receipt");
  const spent = wrong === null && (isSession(receipt) ? recomputeSession(receipt) : recompute(receipt));
  if (spent) note("epsilon", ...within(receipt, spent, result));
  if (spent?.runs) note("runs", ...spent.runs);
  if (spent?.part) note("charge", ...within({ ...receipt, epsilon: receipt.charged_epsilon }, spent.part));
  if (entry !== null) {
    const [is, what] = [await isRelease(receipt, parse(entry)), isSession(receipt) ? "session" : "release"];
    note("ledger", is, is ? `the entry is this ${what} and hashes to its hash` : `the entry is not this ${what}`);
  }
  if (model !== null) {
    const is = (await sha256(canonical(parse(model)))) === receipt.model_sha256;
    note("model", is, is ? "it is the one that was released" : "the receipt is for another model");
  }
  const failed = checks.find((check) => check.holds === false);
  const holds = failed ? false : checks.some((check) => check.holds === null) ? null : true;
  return { ...result, holds, reason: failed?.says ?? null };
}

/** Return whether the queries cost at most the stated epsilon, as `[holds, says]`; null if the sum is not tight. */
function within(receipt, { mechanisms, epsilon, accountant, mu }, result = {}) {
  const open = (what) => [null, `not recomputed here: ${what} needs \`purse receipt verify\``];
  if (mechanisms) return open(mechanisms.join(", "));
  Object.assign(result, { recomputed: epsilon, mu });
  const says = `the queries cost epsilon ${Number(epsilon.toPrecision(6))} at delta ${receipt.delta}, by ${accountant}`;
  if (epsilon <= receipt.epsilon * (1 + TOLERANCE)) return [true, says];
  if (accountant === "pure" && receipt.delta > 0) return open(`less than the sum ${epsilon}`);
  return [false, "the events cost more than the stated epsilon"];
}
