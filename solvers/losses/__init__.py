"""The losses, one file each, and their union.

Every loss is a function of the margin m = <x, w> and the target y. Its attributes are the kind of target (a class,
coded +1 or -1, or a number), bounds on its slope and its curvature over all m and y (infinite if it is not smooth), and
whether it is convex. Softmax has K `outputs`, all other losses have one. Its margin and its slope are vectors of K
numbers, bounded in l2, and its classes are coded 0, ..., K-1.
"""

from typing import Literal, get_args

from solvers.losses.absolute import Absolute as Absolute
from solvers.losses.hinge import Hinge as Hinge
from solvers.losses.huber import Huber as Huber
from solvers.losses.huber_hinge import HuberHinge as HuberHinge
from solvers.losses.logistic import Logistic as Logistic
from solvers.losses.power import Power as Power
from solvers.losses.quantile import Quantile as Quantile
from solvers.losses.sigmoid import Sigmoid as Sigmoid
from solvers.losses.softmax import Softmax as Softmax
from solvers.losses.squared import Squared as Squared

Loss = Logistic | Softmax | Hinge | HuberHinge | Sigmoid | Squared | Huber | Absolute | Quantile | Power


def names(takes: Literal["class", "number"]) -> tuple[str, ...]:
    """Return the names of the losses for such a target."""
    return tuple(str(loss.__dataclass_fields__["name"].default) for loss in get_args(Loss) if loss.takes == takes)
