"""A relation between a twin's columns and its target, planted by a public seed: twins have none of their own.

    s_k = sum over features of an effect, scaled to variance 1, for each class k;  g Gumbel, e normal
    class    y = argmax_k (b_k + a s_k + g_k),  so that P(y = k) is a softmax of linear scores
    number   y = the target's own law at the rank of sqrt(signal) s + sqrt(1 - signal) e

A number's effect is its standardised code times a normal draw, a category's one normal draw. b keeps the classes as
frequent as the target's law has them. `signal` says how far the best answer to these scores gets from a constant one
(0) to a perfect one (1): for classes in accuracy, for numbers in variance explained, about.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, softmax

from accounting.errors import OutOfRange
from app.sources.design import Design
from app.sources.twins import Floats, Twin, uniform
from purse.wire.columns import CategoryColumn

MOST_CLASSES = 100
_PILOT, _PILOT_VALUES = 4096, 2**16  # rows far away from those in use, and classes times rows
_FAR = 2**40
_STRONGEST, _HALVINGS, _ROUNDS = 50.0, 24, 30


@dataclass(frozen=True, slots=True)
class Planted:
    """The relation. Make one with `Planted.of`.

    Parameters
    ----------
    twin, design : whose columns they are
    seed, signal : public
    units : what a standardised number's code is in
    center, spread : of the raw scores
    strength, offsets : a and b
    """

    twin: Twin
    design: Design
    seed: int
    signal: float
    units: Floats
    center: Floats
    spread: Floats
    strength: float = 0.0
    offsets: tuple[float, ...] = ()

    @staticmethod
    def of(twin: Twin, design: Design, seed: int, signal: float) -> "Planted":
        """The one of this seed and strength; `OutOfRange` for a target of too many classes."""
        classes = design.classes or ()
        if len(classes) > MOST_CLASSES:
            raise OutOfRange(f"a forecast is for at most {MOST_CLASSES} classes: name the `positive` one")
        rows = range(_FAR, _FAR + min(_PILOT, _PILOT_VALUES // max(1, len(classes))))
        codes = twin.codes(seed, rows)
        units = np.maximum(codes[:, list(design.positions)].std(axis=0), 1e-12)
        raw = Planted(twin, design, seed, signal, units, np.zeros(1), np.ones(1))
        scores = raw._scores(codes)
        found = replace(raw, center=scores.mean(axis=0), spread=np.maximum(scores.std(axis=0), 1e-12))
        if not classes:
            return found
        scores, shares = found._scores(codes), found._shares()
        wanted, low, high = shares.max() + signal * (1 - shares.max()), 0.0, _STRONGEST
        for _ in range(_HALVINGS):
            strength = (low + high) / 2
            offsets, accuracy = _balanced(strength * scores, shares)
            low, high = (strength, high) if accuracy < wanted else (low, strength)
        return replace(found, strength=strength, offsets=tuple(offsets.tolist()))

    def targets(self, codes: Floats, rows: range) -> Floats:
        """y of these rows, as a method takes it."""
        scores, column = self._scores(codes), self.design.target_position
        if not self.offsets:
            noise = ndtri(uniform(self.seed, "noise", rows))
            latent = np.sqrt(self.signal) * scores[:, 0] + np.sqrt(1 - self.signal) * noise
            y: Floats = np.empty(len(rows))
            y[np.argsort(latent, kind="stable")] = np.sort(codes[:, column])
            return y
        drawn = [uniform(self.seed, f"noise {k}", rows) for k in range(len(self.offsets))]
        gumbel = -np.log(-np.log(np.stack(drawn, axis=1)))
        likeliest = np.argmax(np.array(self.offsets) + self.strength * scores + gumbel, axis=1)
        found: Floats = likeliest.astype(float)
        return found if self.design.positive is None else 2.0 * found - 1.0

    def _scores(self, codes: Floats) -> Floats:
        """(rows, classes), or a column for a number."""
        count = len(self.design.classes or (0,))
        found: Floats = np.zeros((len(codes), count))
        features = zip(self.design.features, self.design.positions, self.design.widths, self.units, strict=True)
        for feature, position, width, unit in features:
            effects = ndtri(uniform(self.seed, f"effects of {feature.name}", range(width * count))).reshape(
                width, count
            )
            column = codes[:, position]
            found = found + (effects[column.astype(int)] if width > 1 else column[:, None] / unit * effects)
        scores: Floats = (found - self.center) / self.spread
        return scores

    def _shares(self) -> Floats:
        """How frequent each class is."""
        law = self.twin.laws[self.design.target_position]
        assert isinstance(law.column, CategoryColumn)
        labels = self.design.labels(np.arange(len(law.weights)))
        labels = labels if self.design.positive is None else (labels + 1) / 2
        found: Floats = np.zeros(len(self.design.classes or ()))
        np.add.at(found, labels.astype(int), law.weights)
        return np.maximum(found, 1e-9)


def _balanced(scores: Floats, shares: Floats) -> tuple[Floats, float]:
    """b for which classes are as frequent as they should be, and the accuracy of the likeliest class."""
    b = np.log(shares)
    for _ in range(_ROUNDS):
        b = b + np.log(shares / np.maximum(softmax(scores + b, axis=1).mean(axis=0), 1e-12))
    return b, float(softmax(scores + b, axis=1).max(axis=1).mean())
