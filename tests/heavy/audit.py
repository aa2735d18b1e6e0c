"""The audits of tests/privacy with many more runs: `python -m tests.heavy.audit [--runs N]`.

Prints, per method, the promise, the lower bound that the best distinguisher of the whole transcript reaches, and the
same bound with half the noise, which must break the promise: that is the audit's power.
"""

import argparse
import sys

from accounting.calibration import certify
from accounting.lattice import Lattice
from tests.privacy.test_audit import FAR, FARTHER, GD, NEAR, PROBLEM, WIDE, half_noise, mutated, planned, rows
from tests.support.audit import DELTAS, epsilon_lower_bound, scores

CASES = (("dp_gd", GD, GD, PROBLEM), ("dp_svrg far", FAR, FARTHER, WIDE), ("dp_svrg near", NEAR, None, WIDE))


def main() -> None:
    """Run all cases; exit 1 if a promise is broken or a mutant goes unseen."""
    parser = argparse.ArgumentParser(prog="python -m tests.heavy.audit")
    parser.add_argument("--runs", type=int, default=20_000, help="runs on each of the two neighbors")
    runs, failed = parser.parse_args().runs, False
    for name, method, mutant, problem in CASES:
        plan = planned(method, problem)
        one, two = scores(method, problem, plan, *rows(problem), runs, 11)
        for delta in DELTAS:
            promise, bound = certify(plan, delta)[0], epsilon_lower_bound(one, two, delta)
            print(f"{name:<13} delta {delta:<6g} promised epsilon {promise:.3f}, lower bound {bound:.3f}")
            failed |= bound > promise
        if mutant is not None:
            plan = planned(mutant, problem)
            with mutated(Lattice, "perturb", half_noise):
                one, two = scores(mutant, problem, plan, *rows(problem), runs, 12)
            excess = max(epsilon_lower_bound(one, two, d) - certify(plan, d)[0] for d in DELTAS)
            print(f"{name:<13} half the noise: lower bound above the promise by {excess:.3f}")
            failed |= excess <= 0
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
