"""A relation between the columns and the target of a twin, drawn from a public seed: twins have none of their own.

    s_k = sum over features of an effect, scaled to variance 1, for each class k;  g Gumbel, e normal
    class    y = argmax_k (b_k + a s_k + g_k),  so that P(y = k) is a softmax of linear scores
    number   y = the target's own law at the rank of sqrt(signal) s + sqrt(1 - signal) e

The effect of a number is its standardised code times a normal draw; that of a category is one normal draw. b keeps the
classes as frequent as in the target's law. `signal` sets approximately how good the best model of these scores is: 0 is
as good as a constant answer, and 1 is perfect. The measure is accuracy for classes, and explained variance for numbers.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri, softmax

from accounting.errors import OutOfRange
from app.sources.design import Design
from app.sources.twins import Floats, Twin, uniform
from purse.wire.columns import CategoryColumn

MOST_CLASSES = 100
_PILOT, _PILOT_VALUES = 4096, 2**16  # rows, and classes times rows, at most
_PILOT_OFFSET = 2**40
_STRONGEST, _HALVINGS, _ROUNDS = 50.0, 24, 30


@dataclass(frozen=True, slots=True)
class Planted:
    """The relation. To be created by `Planted.of`.

    Parameters
    ----------
    twin, design : columns of the relation
    seed, signal : public parameters
    units : scale of each feature's code
    center, spread : mean and standard deviation of the raw scores
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
        """Return the relation of a seed and signal. Raise `OutOfRange` if the target has too many classes."""
        classes = design.classes or ()
        if len(classes) > MOST_CLASSES:
            raise OutOfRange(f"a forecast is for at most {MOST_CLASSES} classes. Name the `positive` one")
        rows = range(_PILOT_OFFSET, _PILOT_OFFSET + min(_PILOT, _PILOT_VALUES // max(1, len(classes))))
        codes = twin.codes(seed, rows)
        units = np.array([max(float(column.std()), 1e-12) for column in design.encoded(codes)])
        raw = Planted(twin, design, seed, signal, units, np.zeros(1), np.ones(1))
        scores = raw.scores(codes)
        scaled = replace(raw, center=scores.mean(axis=0), spread=np.maximum(scores.std(axis=0), 1e-12))
        if not classes:
            return scaled
        scores = scaled.scores(codes)
        shares = scaled._shares()
        target_accuracy, low, high = shares.max() + signal * (1 - shares.max()), 0.0, _STRONGEST
        for _ in range(_HALVINGS):
            strength = (low + high) / 2
            offsets, accuracy = _balanced(strength * scores, shares)
            low, high = (strength, high) if accuracy < target_accuracy else (low, strength)
        return replace(scaled, strength=strength, offsets=tuple(offsets.tolist()))

    def targets(self, codes: Floats, rows: range) -> Floats:
        """Return y of these rows, in the form that a method takes."""
        scores, column = self.scores(codes), self.design.target_position
        if not self.offsets:
            noise = ndtri(uniform(self.seed, "noise", rows))
            latent = np.sqrt(self.signal) * scores[:, 0] + np.sqrt(1 - self.signal) * noise
            y: Floats = np.empty(len(rows))
            y[np.argsort(latent, kind="stable")] = np.sort(codes[:, column])
            return y
        drawn = [uniform(self.seed, f"noise {k}", rows) for k in range(len(self.offsets))]
        gumbel = -np.log(-np.log(np.stack(drawn, axis=1)))
        likeliest = np.argmax(np.array(self.offsets) + self.strength * scores + gumbel, axis=1)
        y = likeliest.astype(float)
        return y if self.design.positive is None else 2.0 * y - 1.0

    def scores(self, codes: Floats) -> Floats:
        """Return the scores, (rows, classes), or one column for a number."""
        count = len(self.design.classes or (0,))
        raw: Floats = np.zeros((len(codes), count))
        columns = self.design.encoded(codes)
        features = zip(self.design.features, columns, self.design.widths, self.units, strict=True)
        for feature, column, width, unit in features:
            drawn = uniform(self.seed, f"effects of {feature.name}", range(width * count))
            effects = ndtri(drawn).reshape(width, count)
            raw = raw + (effects[column.astype(int)] if width > 1 else column[:, None] / unit * effects)
        scores: Floats = (raw - self.center) / self.spread
        return scores

    def _shares(self) -> Floats:
        """Return the frequency of each class."""
        law = self.twin.laws[self.design.target_position]
        assert isinstance(law.column, CategoryColumn)
        labels = self.design.labels(np.arange(len(law.weights)))
        labels = labels if self.design.positive is None else (labels + 1) / 2
        shares: Floats = np.zeros(len(self.design.classes or ()))
        np.add.at(shares, labels.astype(int), law.weights)
        return np.maximum(shares, 1e-9)


def _balanced(scores: Floats, shares: Floats) -> tuple[Floats, float]:
    """Return the b that gives classes these frequencies, and the accuracy of the likeliest class."""
    b = np.log(shares)
    for _ in range(_ROUNDS):
        b = b + np.log(shares / np.maximum(softmax(scores + b, axis=1).mean(axis=0), 1e-12))
    return b, float(softmax(scores + b, axis=1).max(axis=1).mean())
