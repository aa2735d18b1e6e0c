"""The price of running an e-DP mechanism on n records drawn from n with replacement."""

from math import comb

import mpmath


def bootstrap_epsilon(e: float, n: int, smallest: float = -1.0, largest: float = 0.0) -> float:
    """Return ln max (p_0 + sum p_j e^(je) Y_j) / (p_0 + sum p_j Y_j) over Y_j in [e^(-je), 1].

    Here p_j = P(Binomial(n, 1/n) = j). The method is Dinkelbach's: at ratio r the best Y_j is the largest if
    e^(je) >= r, and otherwise the smallest. Other ends of the interval are given as multiples of j e.
    """
    with mpmath.workdps(40):
        largest_count = min(n, 100)  # j = 100 has probability 1e-158 and a factor of e^300 at most
        share = mpmath.mpf(1) / n
        p = [comb(n, j) * share**j * (1 - share) ** (n - j) for j in range(largest_count + 1)]
        growth = [mpmath.exp(j * mpmath.mpf(e)) for j in range(largest_count + 1)]
        ratio, previous_ratio = mpmath.mpf(1), mpmath.mpf(0)
        while ratio > previous_ratio:
            y = [g**largest if g >= ratio else g**smallest for g in growth]
            above = sum(chance * g * best for chance, g, best in zip(p, growth, y, strict=True))
            previous_ratio, ratio = ratio, above / sum(chance * best for chance, best in zip(p, y, strict=True))
        return float(mpmath.log(ratio))
